"""
How long to wait before another attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

JITTER_MAX_NS = 1_000_000_000
"""The most that is added to a wait that the server asked for."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """
    Exponential, capped, and drawn at random from all of it: clients that failed together do not come back together.

    Args:
        first_ns: The longest wait before the second attempt; it doubles with each further one.
        longest_ns: Where it stops.
        random: Draws a number from 0 up to 1.
    """

    first_ns: int
    longest_ns: int
    random: Callable[[], float]

    def wait_ns(self, attempt: int, told_ns: int | None) -> int:
        """
        The wait before the next attempt.

        Args:
            attempt: How many there were, from 1 up.
            told_ns: The wait that the server asked for, if it did. Something is added to it, and nothing taken from it.

        Returns:
            Nanoseconds.
        """
        # Beyond 2^40 every cap is reached.
        ceiling_ns = min(self.first_ns << min(attempt - 1, 40), self.longest_ns)
        if told_ns is None:
            return round(self.random() * ceiling_ns)
        return told_ns + round(self.random() * min(ceiling_ns, JITTER_MAX_NS))
