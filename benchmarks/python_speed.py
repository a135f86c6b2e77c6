"""Calls per second from Python, one thread: one hot key, 100,000 random keys, and a hot key that is denied."""

import random
from dataclasses import asdict, dataclass, field
from itertools import islice, repeat
from typing import Any

from child import Advance, part_of
from peers import AMPLE, PEERS, SPENT, Calls, Peer, Quota, tidegate_calls
from timing import Timing, calls_for, collector_off, time_calls, time_empty_loop

SEED = 20
STYLES = ("allow", "check", "read")
OTHER_ALGORITHMS = ("sliding_window", "fixed_window", "sliding_window_counter")


@dataclass(frozen=True)
class Plan:
    """How long to measure: every library gets one turn in each round."""

    rounds: int
    turn_s: float


@dataclass(frozen=True)
class Scenario:
    """What is asked: with which quota and which keys."""

    name: str
    quota: Quota
    keys: int

    def draw(self, count: int, random_source: random.Random) -> list[str]:
        """Return `count` keys of this scenario in the order in which they are asked for."""
        if self.keys == 1:
            return list(repeat("user:42", count))
        return random_source.choices(_names(self.keys), k=count)


def _names(count: int) -> list[str]:
    return [f"user:{number}" for number in range(count)]


def scenarios(*, quick: bool) -> list[Scenario]:
    """Return the three scenarios, with fewer keys when quick."""
    return [
        Scenario("hot key", AMPLE, 1),
        Scenario("random keys", AMPLE, 2_000 if quick else 100_000),
        Scenario("hot key, denied", SPENT, 1),
    ]


def measure(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """
    Times every library in every scenario and style.

    Args:
        quick: Short rounds, few of them.
        advance: Told what is running and which share of the work is done.

    Returns:
        Rows of library, scenario, style and timing, and the cost of the empty loop.
    """
    plan = Plan(3, 0.01) if quick else Plan(11, 0.1)
    chosen = scenarios(quick=quick)
    rows: list[dict[str, Any]] = []
    with collector_off():
        for number, scenario in enumerate(chosen):
            lanes = _lanes(scenario)
            try:
                report = part_of(advance, number, len(chosen))
                rows += _interleave(scenario, lanes, plan, report)
            finally:
                for _peer, calls in lanes:
                    calls.close()
        loop_ns = min(time_empty_loop(1_000_000) for _ in range(5))
    return {"rows": rows, "loop_ns": loop_ns, **asdict(plan)}


def _lanes(scenario: Scenario) -> list[tuple[str, Calls]]:
    lanes = [(peer.name, peer.make(scenario.quota)) for peer in PEERS if _is_there(peer)]
    if any(name == "tidegate" for name, _calls in lanes):
        lanes += [(f"tidegate {algorithm}", tidegate_calls(scenario.quota, algorithm)) for algorithm in OTHER_ALGORITHMS]
    for _name, calls in lanes:
        for key in ["user:42"] * 2 if scenario.keys == 1 else _names(scenario.keys):
            calls.allow(key)
        calls.settle()
    return lanes


def _is_there(peer: Peer) -> bool:
    return peer.version() is not None


@dataclass(frozen=True)
class Runner:
    """One library's one call, and how many of them fill a turn."""

    library: str
    style: str
    calls: Calls
    count: int
    samples: list[float] = field(default_factory=list)

    def take_turn(self, keys: list[str]) -> None:
        """Times one turn; background work of the library ends before the next one starts."""
        self.samples.append(time_calls(getattr(self.calls, self.style), islice(keys, self.count)) / self.count)
        self.calls.settle()


def _interleave(scenario: Scenario, lanes: list[tuple[str, Calls]], plan: Plan, advance: Advance) -> list[dict[str, Any]]:
    random_source = random.Random(SEED)
    runners = [
        _runner(name, style, calls, scenario.draw(2000, random_source), plan)
        for style in STYLES
        for name, calls in lanes
        if getattr(calls, style)
    ]
    longest = max(runner.count for runner in runners)
    for turn in range(plan.rounds):
        keys = scenario.draw(longest, random_source)
        for runner in runners:
            runner.take_turn(keys)
        advance(f"{scenario.name}, round {turn + 1} of {plan.rounds}", (turn + 1) / plan.rounds)
    about = {"scenario": scenario.name, "keys": scenario.keys}
    return [
        {"library": runner.library, "style": runner.style, **about, **asdict(Timing.of(runner.samples, runner.count))} for runner in runners
    ]


def _runner(library: str, style: str, calls: Calls, keys: list[str], plan: Plan) -> Runner:
    count = calls_for(getattr(calls, style), keys, plan.turn_s)
    calls.settle()
    return Runner(library, style, calls, count)
