"""
A service that fails is not asked, so that it costs nothing; and it is tried in the background until it is back.

```text
CLOSED   every call is sent   opens after 5 failures in a row, or if of 20 calls or more within a second half failed
OPEN     none is              a thread asks the service how it is: after 0.25 s, then 0.5, 1 and so on up to 10 s, by chance up to half
                              more or less; two good answers in a row close it
```

Chance keeps the processes of a fleet apart, which all lost the service at the same moment.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

from tidegate._sleep import now_ns

if TYPE_CHECKING:
    from collections.abc import Callable

FAILURES_IN_A_ROW = 5
WINDOW_NS = 1_000_000_000
WINDOW_CALLS_MIN = 20
PAUSE_MIN_S = 0.25
PAUSE_MAX_S = 10.0
GOOD_PROBES = 2


class Breaker:
    """
    Whether a service is worth asking. Any number of threads may use it.

    Args:
        probe: Asks the service how it is; false or an exception is no good answer. It is called by a thread of the breaker's own.
    """

    def __init__(self, probe: Callable[[], bool]) -> None:
        self._probe = probe
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._is_open = False
        self._in_a_row = 0
        self._window_ns = 0
        self._calls = 0
        self._failed = 0
        self._opened = 0

    @property
    def is_open(self) -> bool:
        """Whether the service is not to be asked."""
        return self._is_open

    @property
    def opened(self) -> int:
        """How often it has opened."""
        return self._opened

    def succeeded(self) -> None:
        """
        Notes that a call was answered.
        """
        # Without the lock: a number that is off by one among hundreds does not change what half of them is.
        self._calls += 1
        if self._in_a_row:
            self._in_a_row = 0

    def failed(self) -> None:
        """
        Notes that a call was not answered, or by what makes no sense.
        """
        now = now_ns()
        with self._lock:
            if now - self._window_ns > WINDOW_NS:
                self._window_ns, self._calls, self._failed = now, 0, 0
            self._in_a_row += 1
            self._calls += 1
            self._failed += 1
            is_half = self._calls >= WINDOW_CALLS_MIN and 2 * self._failed >= self._calls
            if self._is_open or not (self._in_a_row >= FAILURES_IN_A_ROW or is_half):
                return
            self._is_open = True
            self._opened += 1
        try:
            if not self._end.is_set():
                threading.Thread(target=_recover, args=(self, self._probe, self._end), name="tidegate-probe", daemon=True).start()
        except RuntimeError:
            # Without somebody who closes it, it must not stay open.
            self.close()

    def close(self) -> None:
        """
        Asks again.
        """
        with self._lock:
            self._is_open, self._in_a_row, self._calls, self._failed = False, 0, 0, 0

    def stop(self) -> None:
        """
        Ends the thread, if there is one.
        """
        self._end.set()


def pause(tries: int, chance: float) -> float:
    """
    How long to leave a service alone.

    Args:
        tries: How often it was tried in vain.
        chance: From 0 to 1.

    Returns:
        Seconds.
    """
    return min(PAUSE_MAX_S, PAUSE_MIN_S * 2.0 ** min(tries, 16)) * (0.5 + chance)


def _recover(breaker: Breaker, probe: Callable[[], bool], end: threading.Event) -> None:
    tries = good = 0
    while not end.wait(pause(tries, random.random()) if good == 0 else PAUSE_MIN_S * random.random()):  # noqa: S311  # spreads, protects nothing
        if _is_well(probe):
            good += 1
            if good == GOOD_PROBES:
                breaker.close()
                return
        else:
            good = 0
            tries += 1


def _is_well(probe: Callable[[], bool]) -> bool:
    try:
        return probe()
    # Whatever it is, the service is not well; and a thread that dies of it would never find out that it is again.
    except Exception:  # noqa: BLE001
        return False
