"""
Decisions per second on one server: 64 tasks, one thread, 16 threads, and the same script sent by a program that does nothing else.

Everybody takes a turn in each round. The fastest round counts, because whatever else runs on the machine can only make one slower; the
median stands beside it.
"""

import asyncio
import random
import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Any

import redis_peers
import redis_server
from child import Advance, part_of, serve
from machine import wait_until_quiet
from redis_load import BareLoop, Check, RedisBenchmark
from redis_peers import CLIENTS, QUOTAS, THREE, AsyncCall, Call, Lane
from redis_server import Work
from timing import collector_off

if TYPE_CHECKING:
    from tests.servers import Single

FILE = Path(__file__)
TASKS = 64
THREADS = (1, 16)


@dataclass(frozen=True)
class Plan:
    """How long to measure: everybody gets one turn in each round."""

    rounds: int
    turn_s: float


@dataclass
class Runner:
    """Somebody who takes turns, and how many decisions fill one."""

    about: dict[str, Any]
    rate: Callable[[int], float]
    count: int = 0
    rates: list[float] = field(default_factory=list)
    scripts_us: list[float] = field(default_factory=list)

    def calibrate(self, plan: Plan) -> None:
        """Warms up, and finds out how much is a turn."""
        self.rate(TASKS)
        # A multiple of the tasks, and so of the threads: all do the same.
        self.count = max(1, int(self.rate(8 * TASKS) * plan.turn_s) // TASKS) * TASKS

    def take_turn(self, server: "Single") -> None:
        """Measures once, and asks the server what it had to do for it."""
        wait_until_quiet()
        before = Work.of(server)
        self.rates.append(self.rate(self.count))
        self.scripts_us.append(Work.of(server).since(before).script_us)

    def row(self) -> dict[str, Any]:
        """Return what was measured."""
        return {
            **self.about,
            "per_second": max(self.rates),
            "median_per_second": statistics.median(self.rates),
            "script_us": min(self.scripts_us),
            "rounds": len(self.rates),
        }


def measure_all(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return rates of tasks and of threads, and the latency of a single caller."""
    plan = Plan(2, 0.05) if quick else Plan(9, 0.4)
    with collector_off(), redis_server.start() as server:
        return {
            "server": server.node.binary.text,
            "tasks": TASKS,
            "async": _tasks(server, plan, part_of(advance, 0, 3)),
            "sync": _threads(server, plan, part_of(advance, 1, 3)),
            "latency": _latency(server, 300 if quick else 20_000, part_of(advance, 2, 3)),
        }


def _tasks(server: "Single", plan: Plan, advance: Advance) -> list[dict[str, Any]]:
    loop = asyncio.new_event_loop()
    with ExitStack() as stack:
        stack.callback(loop.close)
        # All of them before anything else: to see a script as text, the server must have forgotten every script.
        checks = {algorithm: Check.record(server, quota, "user:42") for algorithm, quota in QUOTAS.items()}
        lanes: list[Lane] = []
        runners: list[Runner] = []
        for algorithm, quota in QUOTAS.items():
            for count, text in ((1, quota), (3, THREE[algorithm])):
                lane = redis_peers.tidegate(server.url(), text, algorithm, is_async=True)
                lanes.append(lane)
                about = {"library": lane.library, "note": algorithm, "quotas": count}
                runners.append(Runner(about, _rate_of_tasks(loop, lane.call)))
            runners += _generators(server, algorithm, checks[algorithm])
        for client in CLIENTS:
            lane = redis_peers.limits_async(server.url(), client)
            about = {"library": lane.library, "note": lane.note, "quotas": 1}
            runners.append(Runner(about, _rate_of_tasks(loop, lane.call)))
        for lane in lanes:
            stack.callback(lane.close)
        _take_turns(runners, server, plan, advance)
        _require_the_store(lanes)
    return [runner.row() for runner in runners]


def _generators(server: "Single", algorithm: str, check: Check) -> Iterator[Runner]:
    bare = BareLoop(server, check.command, TASKS)
    yield Runner({"library": bare.name, "note": algorithm, "quotas": 1}, bare.rate)
    if RedisBenchmark.is_installed():
        program = RedisBenchmark(server, check.without_zeros(server), TASKS)
        yield Runner({"library": program.name, "note": algorithm, "quotas": 1}, program.rate)


def _rate_of_tasks(loop: asyncio.AbstractEventLoop, call: AsyncCall) -> Callable[[int], float]:
    async def ask(key: str, count: int) -> None:
        for _ in range(count):
            await call(key)

    async def ask_all(count: int) -> float:
        started = perf_counter()
        await asyncio.gather(*(ask(f"user:{number}", count // TASKS) for number in range(TASKS)))
        return count / (perf_counter() - started)

    return lambda count: loop.run_until_complete(ask_all(count))


def _threads(server: "Single", plan: Plan, advance: Advance) -> list[dict[str, Any]]:
    lanes = [redis_peers.tidegate(server.url(), quota, algorithm, is_async=False) for algorithm, quota in QUOTAS.items()]
    lanes += [redis_peers.limits(server.url(), client) for client in CLIENTS]
    runners = [
        Runner({"library": lane.library, "note": lane.note, "threads": threads}, _rate_of_threads(lane.call, threads))
        for threads in THREADS
        for lane in lanes
    ]
    try:
        _take_turns(runners, server, plan, advance)
        _require_the_store(lanes)
    finally:
        for lane in lanes:
            lane.close()
    return [runner.row() for runner in runners]


def _rate_of_threads(call: Call, threads: int) -> Callable[[int], float]:
    def ask(key: str, count: int) -> None:
        for _ in range(count):
            call(key)

    def rate(count: int) -> float:
        workers = [threading.Thread(target=ask, args=(f"user:{number}", count // threads)) for number in range(threads)]
        started = perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return count / (perf_counter() - started)

    return rate


def _latency(server: "Single", calls: int, advance: Advance) -> list[dict[str, Any]]:
    """Return how long one caller waits who asks one question after the other, for 1,000 keys."""
    lanes = [redis_peers.tidegate(server.url(), quota, name, is_async=False) for name, quota in QUOTAS.items()]
    lanes += [redis_peers.tidegate(server.url(), quotas, f"{name}, three quotas", is_async=False) for name, quotas in THREE.items()]
    lanes += [redis_peers.limits(server.url(), client) for client in CLIENTS]
    taken: list[list[int]] = [[] for _ in lanes]
    chunk = max(100, calls // 40)
    while len(taken[0]) < calls:
        keys = [f"user:{random.randrange(1000)}" for _ in range(chunk)]
        for lane, samples in zip(lanes, taken, strict=True):
            wait_until_quiet()
            samples.extend(_time_each(lane.call, keys))
        advance("latency of one caller", len(taken[0]) / calls)
    _require_the_store(lanes)
    for lane in lanes:
        lane.close()
    return [
        {"library": lane.library, "note": lane.note, "calls": len(samples), "cuts_us": _cuts(samples)}
        for lane, samples in zip(lanes, taken, strict=True)
    ]


def _time_each(call: Call, keys: list[str]) -> list[int]:
    taken = []
    for key in keys:
        started = perf_counter_ns()
        call(key)
        taken.append(perf_counter_ns() - started)
    return taken


def _cuts(samples: list[int]) -> dict[str, float]:
    ordered = sorted(samples)
    return {f"{share:g}": ordered[min(len(ordered) - 1, int(len(ordered) * share / 100))] / 1e3 for share in (50, 90, 99, 99.9)}


def _take_turns(runners: list[Runner], server: "Single", plan: Plan, advance: Advance) -> None:
    for runner in runners:
        runner.calibrate(plan)
    for turn in range(plan.rounds):
        # Not always in the same order: who follows a heavy one must not always be the same.
        for runner in random.sample(runners, len(runners)):
            runner.take_turn(server)
        advance(f"round {turn + 1} of {plan.rounds}", (turn + 1) / plan.rounds)


def _require_the_store(lanes: list[Lane]) -> None:
    without = sum(lane.degraded() for lane in lanes)
    assert without == 0, f"{without} decisions were taken without the store: they are faster, and not what is measured"


if __name__ == "__main__":
    serve(measure_all)
