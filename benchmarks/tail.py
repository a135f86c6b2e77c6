"""
How long single calls take while keys come and go: the latency of every call, not of the average one.

Stage `insert`: N keys that nobody has seen before. Stage `expire`: N more new keys while the first N expire, so that the store cleans up
under load.
Each library runs in a process of its own. What two readings of the clock cost is measured and subtracted from every sample.
"""

import math
import resource
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
from child import Advance, part_of, run_child, serve
from peers import EXPIRING, PEERS, Call, Calls, Quota, tidegate_calls
from timing import collector_off

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0)
CHUNK = 10_000
# So short that a kernel which takes the processor away spoils few calls.
BATCH = 200
NUMBERS = tuple(range(120))
STYLE = {"tidegate": "check"}

# `limits` keeps sweeping all of its keys in a thread that competes for the GIL: ten million of them would take many minutes and 4 GB.
KEYS = {"tidegate": 10_000_000, "rust-py-rate-limit": 10_000_000, "limits": 1_000_000, "arithmetic": 5_000_000}
KEYS_QUICK = {"tidegate": 1_000_000, "limits": 20_000, "arithmetic": 200_000}


@dataclass
class Stage:
    """A run over keys that nobody has seen before, and how long each call took."""

    call: Call
    prefix: str
    keys: int
    not_before: float = 0.0
    """The stage does not end before this time, unless it has used three times its keys."""
    preempted: int = 0
    """How often the kernel took the processor away."""
    samples: "array[int]" = field(default_factory=lambda: array("q"))
    """Calls of batches in which that did not happen."""
    disturbed: "array[int]" = field(default_factory=lambda: array("q"))
    """Calls of batches in which it did."""

    @property
    def calls(self) -> int:
        """How many calls were timed."""
        return len(self.samples) + len(self.disturbed)

    def run(self, advance: Callable[[float], None]) -> None:
        """Times one call per key."""
        while self.calls < self.keys or (time.monotonic() < self.not_before and self.calls < 3 * self.keys):
            # Names are made and results are stored outside of what is timed.
            names = [f"{self.prefix}:{number}" for number in range(self.calls, self.calls + CHUNK)]
            for first in range(0, CHUNK, BATCH):
                self._run_batch(names[first : first + BATCH])
            advance(min(1.0, self.calls / self.keys))

    def _run_batch(self, names: list[str]) -> None:
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
        taken = _record(self.call, names)
        switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw - before
        self.preempted += switches
        (self.disturbed if switches else self.samples).extend(taken)

    def cuts(self, clock_ns: int) -> dict[str, dict[str, int]]:
        """Return the percentiles in nanoseconds, without the cost of the clock: of all calls, and of the undisturbed ones."""
        undisturbed = np.frombuffer(self.samples, dtype=np.int64)
        every = np.concatenate([undisturbed, np.frombuffer(self.disturbed, dtype=np.int64)])
        return {"all": _cuts(every, clock_ns), "undisturbed": _cuts(undisturbed, clock_ns)}


def _cuts(samples: "np.ndarray[Any, np.dtype[np.int64]]", clock_ns: int) -> dict[str, int]:
    values = np.percentile(samples, PERCENTILES, method="higher")
    return {f"{percentile:g}": max(0, int(value) - clock_ns) for percentile, value in zip(PERCENTILES, values, strict=True)}


def measure(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return percentiles in nanoseconds by library and stage. `arithmetic` shows the noise of the machine."""
    wanted = KEYS_QUICK if quick else KEYS
    installed = {peer.name for peer in PEERS if peer.version() is not None} | {"arithmetic"}
    libraries = [name for name in wanted if name in installed]
    rows = []
    for number, name in enumerate(libraries):
        report = part_of(advance, number, len(libraries), name)
        rows.append(run_child(Path(__file__), {"library": name, "keys": wanted[name]}, report))
    return {"rows": rows, "percentiles": PERCENTILES}


def measure_one(*, library: str, keys: int, advance: Advance) -> dict[str, Any]:
    """
    Measures one library in this process.

    Returns:
        Its percentiles by stage, and how many keys expired where the library tells.
    """
    with collector_off():
        clock_ns = _clock_cost_ns()
        period_s = _period_s(library, keys)
        calls = _calls(library, Quota(1, period_s), keys)
        call = _call(library, calls)
        _record(call, [f"warm:{number}" for number in range(1000)])
        started = time.monotonic()
        insert = Stage(call, "a", keys)
        insert.run(lambda share: advance("insert", share / 2))
        inserted_s = time.monotonic() - started
        expire = Stage(call, "b", keys)
        if library != "arithmetic":
            # The second stage begins when the first key expires, and goes on at least until the last one has.
            expire.not_before = started + period_s + inserted_s
            time.sleep(max(0.0, period_s - inserted_s))
        expire.run(lambda share: advance("expire", 0.5 + share / 2))
        stats = calls.stats() if calls.stats else None
    return {
        "library": library,
        "style": STYLE.get(library, "allow"),
        "keys": keys,
        "period_s": period_s,
        "insert_s": inserted_s,
        "clock_ns": clock_ns,
        "expired": stats and stats.expired,
        "held": stats and stats.keys,
        "evicted": stats and stats.evicted,
        "stages": {"insert": insert.cuts(clock_ns), "expire": expire.cuts(clock_ns)},
        "calls": {"insert": insert.calls, "expire": expire.calls},
        "preempted": {"insert": insert.preempted, "expire": expire.preempted},
    }


def _calls(library: str, quota: Quota, keys: int) -> Calls:
    if library == "arithmetic":
        # About as long as a check, so that interrupts hit it as often.
        return Calls(allow=lambda _key: sum(NUMBERS))
    if library == "tidegate":
        return tidegate_calls(quota, "gcra", keys_max=5 * keys)
    return EXPIRING[library](quota)


def _call(library: str, calls: Calls) -> Call:
    call = getattr(calls, STYLE.get(library, "allow"))
    assert call is not None
    return call  # type: ignore[no-any-return]


def _period_s(library: str, keys: int) -> int:
    """Long enough that no key expires while the first N are inserted, by the speed of a small trial."""
    trial = keys // 20
    calls = _calls(library, Quota(1, 3600), keys)
    started = time.monotonic()
    Stage(_call(library, calls), "trial", trial).run(lambda _share: None)
    took_s = time.monotonic() - started
    calls.close()
    # The more keys `limits` has, the slower it becomes.
    reserve = 2.0 if library == "limits" else 1.3
    return max(1, math.ceil(reserve * took_s * keys / trial))


def _record(call: Call, names: list[str], clock: Callable[[], int] = perf_counter_ns) -> list[int]:
    taken = [0] * len(names)
    for index, name in enumerate(names):
        start = clock()
        call(name)
        taken[index] = clock() - start
    return taken


def _clock_cost_ns(clock: Callable[[], int] = perf_counter_ns) -> int:
    taken = []
    for _turn in range(100_000):
        start = clock()
        taken.append(clock() - start)
    return sorted(taken)[len(taken) // 2]


if __name__ == "__main__":
    serve(measure_one)
