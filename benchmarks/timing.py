"""How a call is timed: the same plain loop for everybody, without the garbage collector, in interleaved rounds, by the median."""

import gc
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from time import perf_counter_ns
from typing import Any


@dataclass(frozen=True)
class Timing:
    """Nanoseconds per call over all rounds, the loop included."""

    median_ns: float
    low_ns: float
    high_ns: float
    rounds: int
    calls: int

    @classmethod
    def of(cls, samples: Sequence[float], calls: int) -> "Timing":
        """Return the median and the quartiles of one sample per round."""
        ordered = sorted(samples)
        quarter = len(ordered) // 4
        return cls(statistics.median(ordered), ordered[quarter], ordered[-1 - quarter], len(ordered), calls)

    @property
    def per_second_millions(self) -> float:
        """Millions of calls in a second."""
        return 1e3 / self.median_ns


@contextmanager
def collector_off() -> Iterator[None]:
    """Collects once, then keeps the garbage collector from running inside the timed section."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def time_calls(call: Callable[[str], Any], keys: Iterable[str]) -> int:
    """Return nanoseconds for one call per key, with the loop."""
    start = perf_counter_ns()
    for key in keys:
        call(key)
    return perf_counter_ns() - start


def time_empty_loop(count: int) -> float:
    """Return nanoseconds per turn of the same loop without a call: what is in every number and in no ratio's favour."""
    keys = ["user:42"] * count
    start = perf_counter_ns()
    for _key in islice(keys, count):
        pass
    return (perf_counter_ns() - start) / count


def calls_for(call: Callable[[str], Any], keys: Sequence[str], target_s: float) -> int:
    """
    Warms up and calibrates.

    Returns:
        How many calls take about `target_s`.
    """
    probe = keys[:2000]
    time_calls(call, probe)
    nanoseconds = min(time_calls(call, probe) for _ in range(3)) / len(probe)
    return max(len(probe), int(target_s * 1e9 / nanoseconds))
