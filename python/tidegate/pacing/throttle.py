"""
Refuses here what a server that sheds load would refuse there: the adaptive throttle of clients.

Of the calls of the last two minutes, *requests* were wanted and *accepts* were not answered with 503. As long as requests stay below
K * accepts, everything passes. Above, a call is refused with the probability (requests - K * accepts) / (requests + 1), so that the server
sees about K times what it can do: enough to find out that it is well again, and not so much that it never will be.

A 429 is an accept: it says that this client sends too much, and not that the server cannot do more.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

BUCKET_NS = 10_000_000_000
BUCKETS = 12
REQUESTS_MIN = 10
"""Of so few, nothing can be learned: one call that failed would otherwise make every second one fail here."""


@dataclass(slots=True)
class Throttle:
    """
    The calls of one budget, in ten-second steps. Not safe for threads: its owner has a lock.

    Args:
        factor: K: how many requests are sent per accept.
    """

    factor: float
    _buckets: deque[list[int]] = field(default_factory=deque)

    def refusal(self, now_ns: int) -> float:
        """
        Tells how likely the next call is refused.

        Args:
            now_ns: The time.

        Returns:
            A probability.
        """
        self._forget(now_ns)
        requests = sum(bucket[1] for bucket in self._buckets)
        accepts = sum(bucket[2] for bucket in self._buckets)
        if requests < REQUESTS_MIN:
            return 0.0
        return max(0.0, (requests - self.factor * accepts) / (requests + 1))

    def count(self, now_ns: int, *, is_accepted: bool) -> None:
        """
        Counts a call that was answered, or refused here.

        Args:
            now_ns: The time.
            is_accepted: Whether the server took it.
        """
        self._forget(now_ns)
        number = now_ns // BUCKET_NS
        # A clock that went back goes on in the newest step.
        if not self._buckets or self._buckets[-1][0] < number:
            self._buckets.append([number, 0, 0])
        self._buckets[-1][1] += 1
        self._buckets[-1][2] += is_accepted

    def _forget(self, now_ns: int) -> None:
        oldest = now_ns // BUCKET_NS - BUCKETS
        while self._buckets and self._buckets[0][0] <= oldest:
            self._buckets.popleft()
