"""
Waiting for what another process does.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def until(condition: Callable[[], bool], within: float, what: Callable[[], str] | str) -> None:
    """
    Polls until something holds.

    Args:
        condition: What must hold. An `OSError` means not yet: a server that starts or dies refuses connections.
        within: Seconds.
        what: What is waited for, for the message; a function is asked when it is too late.

    Raises:
        TimeoutError: It did not come true in time.
    """
    deadline = time.monotonic() + within  # noqa: TID251 - servers live in real time
    last: OSError | None = None
    while True:
        try:
            if condition():
                return
            last = None
        except OSError as error:
            last = error
        if time.monotonic() > deadline:  # noqa: TID251
            told = what if isinstance(what, str) else what()
            raise TimeoutError(f"not within {within} s: {told}") from last
        time.sleep(0.002)  # noqa: TID251
