"""
Waits until the database may have changed: until it notifies, until somebody in this process rings, or for a moment.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tidegate.control.database import CHANNEL

if TYPE_CHECKING:
    from collections.abc import Callable

POLL_S: Final = 0.5
"""How long a change can go unnoticed where nobody notifies: a quarter of what is promised."""


class Bell:
    """
    For a file of SQLite: looks twice a second, or when it is rung.
    """

    def __init__(self) -> None:
        self._rung = threading.Event()

    def wait(self) -> None:
        """
        Returns when it is time to look.
        """
        self._rung.wait(POLL_S)
        self._rung.clear()

    def ring(self) -> None:
        """
        Ends a wait, in any thread.
        """
        self._rung.set()

    def close(self) -> None:
        """
        Ends connections.
        """


class PostgresBell(Bell):
    """
    For PostgreSQL: LISTEN on a connection of its own. While there is none it looks twice a second, and tries to get one again.

    Args:
        connect: Opens a connection that commits by itself.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        super().__init__()
        self._connect = connect
        self._connection: Any = None

    def wait(self) -> None:
        """
        Returns when it is time to look.
        """
        if self._rung.is_set():
            self._rung.clear()
            return
        try:
            if self._connection is None:
                self._connection = self._connect()
                self._connection.execute(f"LISTEN {CHANNEL}")
                # What was notified before this is nobody's: look at once.
                return
            for _ in self._connection.notifies(timeout=POLL_S, stop_after=1):
                return
        except Exception:  # noqa: BLE001  # whatever the driver raises: polling goes on without it
            self.close()
            super().wait()

    def close(self) -> None:
        """
        Ends the connection; the next wait opens another one.
        """
        connection, self._connection = self._connection, None
        if connection is not None:
            # It may be broken, that is why.
            with suppress(Exception):
                connection.close()
