"""
The one place that sleeps and reads a clock, so that a `ManualClock` can take over both.

All times are whole nanoseconds: a promise such as `retry_after_ns` is exact and stays so.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.testing import ManualClock


def now_ns(clock: ManualClock | None = None) -> int:
    """
    Reads a clock whose zero means nothing: only differences count.

    Args:
        clock: The limiter's clock, if it has one of its own.

    Returns:
        Nanoseconds.
    """
    return time.monotonic_ns() if clock is None else clock.time_ns()


def epoch_ns(clock: ManualClock | None = None) -> int:
    """
    Reads the time of day, which may jump: for instants that other machines name, and for nothing else.

    Args:
        clock: A clock of one's own, if there is one.

    Returns:
        Nanoseconds since 1970.
    """
    return time.time_ns() if clock is None else clock.time_ns()


def sleep(nanoseconds: int, clock: ManualClock | None) -> None:
    """
    Sleeps, or moves a manual clock by as much.

    Args:
        nanoseconds: How long.
        clock: The limiter's clock, if it has one of its own.
    """
    if clock is None:
        time.sleep(nanoseconds / 1e9)
    else:
        clock.advance_ns(nanoseconds)


async def sleep_async(nanoseconds: int, clock: ManualClock | None) -> None:
    """
    As `sleep`, while other tasks run. With a manual clock they get one turn.

    Args:
        nanoseconds: How long.
        clock: The limiter's clock, if it has one of its own.
    """
    # Half of the time to import Tidegate would go into it, and blocking programs never need it.
    import asyncio  # noqa: PLC0415

    if clock is None:
        await asyncio.sleep(nanoseconds / 1e9)
    else:
        clock.advance_ns(nanoseconds)
        await asyncio.sleep(0)
