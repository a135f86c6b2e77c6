"""
What was read not long ago, shared by all who look: ten dashboards that are open cost the database about as much as one.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

LASTS: Final = timedelta(seconds=5)
"""Sums of an hour hardly change in that time."""

_Value = TypeVar("_Value")


class Recent:
    """
    Values by name, each read again when it is too old.
    """

    def __init__(self) -> None:
        self._values: dict[str, tuple[datetime, Any]] = {}
        # What is read may be made of other values.
        self._lock = threading.RLock()

    def get(self, name: str, now: datetime, read: Callable[[], _Value], lasts: timedelta = LASTS) -> _Value:
        """
        A value that is not too old.

        Args:
            name: What it is.
            now: The time. A clock that went back makes everything too old.
            read: Reads it. One at a time does: who comes meanwhile waits, and takes what was read.
            lasts: How old is too old.

        Returns:
            The value. Nobody changes it.
        """
        with self._lock:
            kept = self._values.get(name)
            if kept is None or not timedelta(0) <= now - kept[0] < lasts:
                kept = self._values[name] = (now, read())
            value: _Value = kept[1]
            return value
