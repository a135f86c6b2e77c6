"""
How servers take turns under load.

Everybody runs at once and has nothing to do until it is loaded. Each takes a turn in each round; the fastest round counts, because other
work on the machine can only make one slower, and the median stands beside it. Then half of that rate shows the latency, in short runs that
take turns too, until everybody had enough calls that the machine did not delay: those of all runs count together.
"""

import math
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from child import Advance
from pace import CALM_S, ROUNDS_MAX
from service_load import Load, LoadFailed
from service_servers import Target

SERVER, GENERATOR = (0,), (1,)
"""The cores of a machine that has two of them."""
BOTH = (0, 1)


@dataclass(frozen=True)
class Plan:
    """How long and how often."""

    rounds: int
    seconds: float
    half_rounds: int
    half_rounds_max: int
    half_s: float

    @classmethod
    def of(cls, *, quick: bool) -> "Plan":
        """Return the plan of a real run or of a smoke test."""
        return cls(1, 1.0, 1, 1, 1.5) if quick else cls(5, 4.0, 5, ROUNDS_MAX, 3.0)


@dataclass(frozen=True)
class Setup:
    """How a lane is loaded, and where."""

    plan: Plan
    folder: Path
    """Where the generator may write."""
    cores: tuple[int, ...] = GENERATOR
    """Of the generator."""
    workers: int = 1
    """Threads of the server."""
    is_shared: bool = False
    """Whether the generator shares its cores with what it loads, and must not spin there."""


@dataclass(frozen=True)
class Counted:
    """What a server of ours has counted."""

    allowed: float = 0.0
    unmatched: float = 0.0
    degraded: float = 0.0


@dataclass
class Lane:
    """One server with one kind of load."""

    who: str
    note: str
    generator: str
    target: Target
    load: Callable[[], Load]
    half: Callable[[float], Load] | None = None
    alone: Callable[[float], Load] | None = None
    """A proxy: the server behind it, without it."""
    protocol: str = ""
    """Tidegate: what its own count is named, which has to agree with that of the generator."""
    twin: Target | None = None
    """Who is loaded with half of it, if that is another one."""
    workers: int = 1
    samples: list[tuple[float, float, dict[str, float]]] = field(default_factory=list)
    halves: list[Load] = field(default_factory=list)
    alones: list[Load] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Why runs of it say nothing."""

    def take_turn(self) -> None:
        """Load it once."""
        with self._forgiven():
            before, cpu_s = self._counted(self.target), self.target.cpu_s()
            measured = self.load()
            cpu_us = 1e6 * (self.target.cpu_s() - cpu_s) / measured.calls
            self._require(measured, self.target, before)
            self.samples.append((measured.per_second, cpu_us, measured.cuts_us))

    def take_half(self) -> None:
        """Load it with half of the most that it has shown, and then with the same what is behind it."""
        if self.half is None or not self.samples:
            return
        rate = max(sample[0] for sample in self.samples) / 2
        with self._forgiven():
            target = self.twin or self.target
            before = self._counted(target)
            measured = self.half(rate)
            self._require(measured, target, before)
            self.halves.append(measured)
        with self._forgiven():
            if self.alone is not None:
                self.alones.append(self.alone(rate))

    def is_calm(self) -> bool:
        """Whether there are enough calls at half load that the machine did not delay, or none to be had."""
        return self.half is None or not self.samples or (_has_calm(self.halves) and (self.alone is None or _has_calm(self.alones)))

    @contextmanager
    def _forgiven(self) -> Iterator[None]:
        """A run that failed is noted: those of an hour are not lost with it."""
        try:
            yield
        except LoadFailed as failure:
            self.failures.append(str(failure))

    def row(self) -> dict[str, Any]:
        """Return what it has shown."""
        if not self.samples:
            return missing(self.who, self.note, f"every run failed; the last one: {self.failures[-1]:.300}")
        rate, cpu_us, cuts = max(self.samples, key=lambda sample: sample[0])
        return {
            "who": self.who,
            "note": self.note,
            "generator": self.generator,
            "workers": self.workers,
            "per_second": rate,
            "median_per_second": statistics.median(sample[0] for sample in self.samples),
            "rounds": len(self.samples),
            "cpu_us": min(sample[1] for sample in self.samples),
            "busy": rate * cpu_us / 1e6,
            "cuts_us": cuts,
            "half": _together(self.halves),
            "alone": _together(self.alones),
            "failures": self.failures,
        }

    def _counted(self, target: Target) -> "Counted":
        if not self.protocol:
            return Counted()
        allowed = target.metric("ratelimit_checks_total", f'protocol="{self.protocol}"', 'outcome="allowed"')
        return Counted(allowed, target.metric("ratelimit_unmatched_total"), target.metric("ratelimit_degraded_total"))

    def _require(self, measured: Load, target: Target, before: "Counted") -> None:
        """
        Compares what the generator was told with what the server says.

        Raises:
            LoadFailed: Something else was measured: a gRPC error is HTTP 200 to h2load, and a decision without the store is faster.
        """
        if self.protocol:
            now = self._counted(target)
            allowed, unmatched, degraded = now.allowed - before.allowed, now.unmatched - before.unmatched, now.degraded - before.degraded
            if allowed < measured.calls:
                raise LoadFailed(f"{measured.calls} answers, but only {allowed:.0f} were allowed")
            if unmatched:
                raise LoadFailed(f"no rule applied to {unmatched:.0f} calls")
            if degraded:
                raise LoadFailed(f"{degraded:.0f} decisions were taken without the store")


def take_turns(lanes: list[Lane], plan: Plan, advance: Advance) -> list[dict[str, Any]]:
    """Return one row per lane after all rounds."""
    steps = (plan.rounds + plan.half_rounds_max) * len(lanes)
    done = 0
    for turn in range(plan.rounds):
        # Not always in the same order: who follows a heavy one must not always be the same.
        for lane in lanes[turn % len(lanes) :] + lanes[: turn % len(lanes)]:
            advance(f"{lane.who}, {lane.note}, round {turn + 1} of {plan.rounds}", done / steps)
            lane.take_turn()
            done += 1
    for turn in range(plan.half_rounds_max):
        for lane in lanes:
            if turn < plan.half_rounds or not lane.is_calm():
                advance(f"{lane.who}, {lane.note}, half load, round {turn + 1} of at most {plan.half_rounds_max}", done / steps)
                lane.take_half()
            done += 1
    return [lane.row() for lane in lanes]


def _has_calm(runs: list[Load]) -> bool:
    return sum(len(run.calm_us) / run.per_second for run in runs) >= CALM_S


def _together(runs: list[Load]) -> dict[str, Any] | None:
    """Return the latency of the calls of all runs that the machine did not delay, the median of the p99 of whole runs, and the runs."""
    if not runs:
        return None
    is_watched = runs[0].stood is not None
    rate, waits_us = runs[0].per_second, [wait for run in runs for wait in (run.calm_us if _has_calm(runs) else run.waits_us)]
    return {
        "per_second": rate,
        "calls": len(waits_us),
        "cuts_us": _cuts(waits_us),
        "lag_us": {name: statistics.median(run.lag_us[name] for run in runs) for name in runs[0].lag_us},
        "stood": statistics.fmean(run.stood or 0.0 for run in runs) if is_watched else None,
        "calm_s": sum(len(run.calm_us) for run in runs) / rate if is_watched else None,
        "seconds": sum(len(run.waits_us) for run in runs) / rate,
        "median_p99_us": statistics.median(run.cuts_us["99"] for run in runs),
        "runs": [{"cuts_us": run.cuts_us, "lag_us": run.lag_us, "stood": run.stood, "calm": len(run.calm_us)} for run in runs],
    }


def _cuts(waits_us: list[int]) -> dict[str, float]:
    """Return the latencies that so many percent of the calls do not exceed."""
    ordered = sorted(waits_us)
    return {name: float(ordered[max(0, math.ceil(len(ordered) * float(name) / 100) - 1)]) for name in ("50", "90", "99", "99.9", "100")}


def missing(who: str, note: str, reason: str) -> dict[str, Any]:
    """Return the row of what could not be measured."""
    return {"who": who, "note": note, "missing": reason}


def shown(words: list[str], folder: Path) -> str:
    """Return a command as one would type it."""
    text = " ".join(f"'{word}'" if " " in word else word for word in words)
    return text.replace(f"{folder}/", "")
