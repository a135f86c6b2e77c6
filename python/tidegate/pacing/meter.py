"""
One limit of a server, as far as this client knows it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.pacing.fields import Limit

LOG_MAX = 1000
"""The largest quota whose window is kept as a log of answers. Servers with larger ones tell often enough how much is left."""

EXACT_MAX = 16
"""The largest quota whose window a server is expected to keep exactly."""

WORD_NS = 1_000_000_000
"""How long it counts what a server said, if it did not say it."""


@dataclass(slots=True)
class Meter:
    """
    What is left of a limit, from below: there may be more, but not less, unless others use it as well.

    Several requests under way are answered in any order, so the newest answer is not the latest word. An answer is surpassed only by one
    to a request that was sent after it had come; of the others, the smallest counts.

    Where the server does not say how much is left, because it tells only of its tightest limit, a log of answers keeps this client to the
    quota of each window.

    Args:
        quota: How many requests there are in a window.
        window_ns: The window.
    """

    quota: int | None = None
    window_ns: int | None = None
    is_listed: bool = False
    """Whether the latest answer that told of limits told of this one."""
    reset_ns: int = 0
    """Until when it counts what was said, as the server said it."""
    _left: list[tuple[int, int]] = field(default_factory=list)
    """What answers said is left, each with the number of the event at which it came."""
    _log: deque[int] = field(default_factory=lambda: deque(maxlen=LOG_MAX))
    """When answers came, of requests that this limit counted."""
    _forgotten: int = 0
    """The event at which something was forgotten last."""
    _is_alone: bool = True
    """Whether, as far as is known, nobody else uses it."""
    _is_early: bool = False
    """Whether what was said was forgotten before its time, because the log knew better."""

    @property
    def has_log(self) -> bool:
        """Whether the window is known, and short enough to be kept."""
        return self.quota is not None and 0 < self.quota <= LOG_MAX and self.window_ns is not None

    @property
    def spacing_ns(self) -> int | None:
        """The time between two requests at the pace of the quota."""
        return None if not self.quota or self.window_ns is None else self.window_ns // self.quota

    def tell(self, limit: Limit, *, sent: int, event: int, now_ns: int, jitter: float) -> None:
        """
        Takes note of an answer.

        Args:
            limit: What it says.
            sent: The number of the event at which its request was sent.
            event: The number of the event at which it came.
            now_ns: The time.
            jitter: From 0 up to 1: which part of the longest delay this client takes on itself, so that not all come back at once.
        """
        self.quota, self.window_ns = limit.quota, limit.window_ns
        self._log.append(now_ns)
        if limit.remaining is None or sent <= self._forgotten:
            self.spend()
            return
        self._left = [(came, left) for came, left in self._left[-LOG_MAX:] if came > sent]
        self._left.append((event, limit.remaining))
        told_ns = next((time for time in (limit.reset_ns, limit.window_ns) if time is not None), WORD_NS)
        # A word about what is left holds for a moment, even when its time is over as it comes.
        told_ns = max(told_ns, WORD_NS) if limit.remaining else told_ns
        self.reset_ns = now_ns + told_ns + round(jitter * told_ns / 100)

    def spend(self) -> None:
        """
        Counts a request whose answer did not tell what is left, or did not come.
        """
        self._left = [(came, max(0, left - 1)) for came, left in self._left]

    def refused(self, until_ns: int) -> None:
        """
        Takes note that the server refused a request: if it was sent by the log, somebody else uses the limit as well.

        Args:
            until_ns: Until when nobody should send. It takes precedence over what was said of the limit in the same answer.
        """
        self._is_alone &= not self._is_early
        if self.is_listed:
            self.reset_ns = min(self.reset_ns, until_ns)

    def expire(self, now_ns: int, *, under_way: int, event: int) -> bool:
        """
        Forgets what does not count any more.

        Args:
            now_ns: The time.
            under_way: How many requests are.
            event: The number of the latest event. What is said of earlier requests does not count any more either.

        Returns:
            Whether one request should find out before others follow: nothing was left before, or nothing else is known.
        """
        if not self._left or now_ns < self._until_ns(under_way):
            return False
        was_empty, self._is_early = self._lowest() <= 0, now_ns < self.reset_ns
        self._left.clear()
        self._forgotten = event
        return was_empty or not self.has_log

    def ready_ns(self, now_ns: int, ahead: int, *, by_log: bool = True) -> int | None:
        """
        When there is room for one more.

        Args:
            now_ns: The time.
            ahead: How many are under way or have been waiting for longer.
            by_log: Whether the log counts where nothing was said.

        Returns:
            The time, which may be over; `None` if it depends on what those ahead are told.
        """
        if self._left:
            lowest = self._lowest()
            return now_ns if ahead < lowest else self._until_ns(ahead) if lowest <= 0 else None
        if not by_log or not self.is_listed or self.quota is None or self.window_ns is None or not self.has_log:
            return now_ns
        free = self.quota - ahead
        if free <= 0:
            return None
        return now_ns if len(self._log) < free else self._log[-free] + self.window_ns

    def _until_ns(self, ahead: int) -> int:
        """
        Until when it counts what was said, for one who has so many others ahead.

        Servers tell whole seconds, and some the time until all of a window is free. When everything is used, and the log explains all of
        it, then this client's own requests leave the window before that. Of a large quota an eighth has to: servers that keep a window
        in a few numbers see requests leave it later than they do.
        """
        if not self._is_alone or self.quota is None or self.window_ns is None or not self.has_log or self._lowest() > 0:
            return self.reset_ns
        kept = self.quota - ahead - (self.quota // 8 if self.quota > EXACT_MAX else 0)
        if kept <= 0 or len(self._log) < self.quota:
            return self.reset_ns
        return min(self.reset_ns, self._log[-kept] + self.window_ns)

    def _lowest(self) -> int:
        return min(left for _, left in self._left)
