"""
How much is read of a response that nobody will see.
"""

from __future__ import annotations

from tidegate._sleep import now_ns

BYTES_MAX = 65_536
TIME_MAX_NS = 1_000_000_000


class Drain:
    """
    Reading a response to its end gives its connection back to the pool. A long or slow one is not worth it: then the connection is closed.
    """

    def __init__(self) -> None:
        self._bytes_left = BYTES_MAX
        self._deadline_ns = now_ns() + TIME_MAX_NS

    def is_enough(self, chunk: bytes) -> bool:
        """
        Tells whether to stop.

        Args:
            chunk: What was read last.

        Returns:
            Whether it is long or slow.
        """
        self._bytes_left -= len(chunk)
        return self._bytes_left < 0 or now_ns() > self._deadline_ns
