"""
Where the lines of a chart's grid are: round numbers that people can read off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_STEPS = (1, 2, 2.5, 5, 10)
_INTERVALS_MAX = 4
_NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class Scale:
    """
    From 0 to a round number above every value.

    Args:
        top: The largest number of the axis.
        intervals: How many equal parts it has.
    """

    top: float
    intervals: int

    @property
    def ticks(self) -> tuple[float, ...]:
        """The numbers of the grid, from 0 up."""
        return tuple(self.top * number / self.intervals for number in range(self.intervals + 1))

    @classmethod
    def above(cls, highest: float, *, whole: bool = True) -> Scale:
        """
        The scale for values up to `highest`.

        Args:
            highest: The largest value. Nothing, or next to it, gives a scale up to 1.
            whole: Whether the values are counts, which have no tenths.

        Returns:
            A scale whose grid is at multiples of 1, 2, 2.5 or 5 times a power of ten.
        """
        if not math.isfinite(highest) or highest <= _NOTHING:
            return cls(1, 1)
        power = 10.0 ** math.floor(math.log10(highest / _INTERVALS_MAX))
        steps = (power * step for step in _STEPS)
        step = next(step for step in steps if step * _INTERVALS_MAX >= highest * (1 - 1e-9))
        step = max(1.0, float(math.ceil(step))) if whole and step != int(step) else step
        intervals = max(1, math.ceil(highest / step * (1 - 1e-9)))
        return cls(step * intervals, intervals)
