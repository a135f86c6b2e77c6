"""
Minutes of load on two instances and a store with sentinels, while everything changes that can change in operation.

    python benchmarks/soak.py                  three minutes
    python benchmarks/soak.py --minutes 30     longer
    python benchmarks/soak.py --minutes 0.5    a smoke test

The rate is 70 % of what the same load reaches without a pause before. Meanwhile rules are replaced every two seconds (each fifth time by a
file with a mistake), the primary of the store is killed, and one of the two instances is restarted, by SIGTERM and by SIGKILL in turns.
It ends with an error if anything came back that the design does not name, if an instance that nobody restarted lost a request, or if its
memory grew.
"""

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
if TYPE_CHECKING:
    from tests.servers import Sentinel
    from tests.service.running import Running
else:
    from servers import Sentinel
    from service.running import Running

SHARE = 0.7
CAPACITY_S = 5.0
SETTLE_S = 2.0
RELOAD_S = 2.0
BAD_RELOADS_EVERY = 5
FAILOVER_S = 20.0
RESTART_S = 12.0
GRACE_S = 1.0
# A client may learn of an end a moment later than we do, and one that connects waits for its turn.
MARGIN_S = 3.0
MEMORY_GROWTH_MAX = 0.10
MEMORY_SLACK = 8 * 2**20

DEFINED = {f"{outcome}{how}" for outcome in ("allowed", "denied") for how in ("", " degraded")} | {"gRPC allowed", "gRPC denied"}
RULES = """version: 1
domain: soak
rules:
  - {{name: per_client, per: client, quotas: "{limit}/second"}}
  - {{name: orders, match: {{method: POST, path: "/orders/**"}}, per: client, quotas: "{limit}00/minute"}}
"""
BAD_RULES = "version: 1\nrules: [{name: broken, per: client, quotas: 3/fortnight-ish}]\n"
# The budget is longer than the default: a machine that also runs the load must not turn this into a test of the fallback alone.
SETTINGS = {"rls.headers": "off", "shutdown.grace": GRACE_S, "budget": 0.05}


@dataclass
class Seen:
    """Everything that came back."""

    outcomes: Counter[str] = field(default_factory=Counter)
    losses: list[tuple[float, int, str]] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    def add(self, line: dict[str, Any]) -> None:
        """Take one second in."""
        self.outcomes.update(line["outcomes"])
        self.losses += [(when, instance, how) for when, instance, how in line["losses"]]
        self.latencies += line["latencies"]

    @property
    def answers(self) -> int:
        """How many answers there were."""
        return sum(self.outcomes.values())


@dataclass
class Events:
    """What was done to the service meanwhile."""

    reloads: int = 0
    bad_reloads: int = 0
    failovers: int = 0
    restarts: Counter[str] = field(default_factory=Counter)
    away: list[tuple[float, float]] = field(default_factory=list)
    """From when to when the instance that is restarted may lose requests."""
    exit_codes: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    """Of the other instance, in bytes, each second."""


@contextlib.contextmanager
def load(instances: list[Running], rate: float) -> Iterator[Seen]:
    """Run the load during a `with` block."""
    ports = [[int(service.addresses[port].rpartition(":")[2]) for port in ("http", "grpc")] for service in instances]
    argv = [sys.executable, str(ROOT / "benchmarks" / "soak_load.py"), json.dumps(ports), str(rate)]
    seen = Seen()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines = child.stdout

        def listen() -> None:
            for line in lines:
                seen.add(json.loads(line))

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        try:
            yield seen
            assert child.poll() is None, "the load ended by itself"
        finally:
            child.terminate()
            thread.join()


def measure_capacity(instances: list[Running]) -> tuple[float, float]:
    """Return how many HTTP requests, and how many checks in them, come back per second if each follows the one before."""
    with load(instances, 0) as seen:
        time.sleep(SETTLE_S)
        requests, checks, begun = len(seen.latencies), seen.answers, time.monotonic()
        time.sleep(CAPACITY_S)
        took = time.monotonic() - begun
        return (len(seen.latencies) - requests) / took, (seen.answers - checks) / took


class Trouble:
    """
    What happens to the service during the soak.

    Args:
        staying: The instance that is never restarted.
        leaving: The one that is.
        store: Its sentinels.
    """

    def __init__(self, staying: Running, leaving: Running, store: Sentinel) -> None:
        self._staying = staying
        self._leaving = leaving
        self._store = store
        self._is_over = threading.Event()
        self._problems: list[BaseException] = []
        # Held by who changes files, and while the one that is restarted reads them: it would not start with a mistake in them.
        self._files = threading.Lock()
        self.events = Events()

    def run(self, seconds: float) -> None:
        """Make it for so long, each kind at its own pace."""
        kinds = ((self._reload, RELOAD_S), (self._restart, RESTART_S), (self._fail_over, FAILOVER_S), (self._weigh, 1.0))
        threads = [threading.Thread(target=self._repeat, args=kind) for kind in kinds]
        for thread in threads:
            thread.start()
        self._is_over.wait(seconds)
        self._is_over.set()
        for thread in threads:
            thread.join()
        if self._problems:
            raise self._problems[0]

    def _repeat(self, make: Any, pause_s: float) -> None:  # noqa: ANN401 - a method
        try:
            while not self._is_over.wait(pause_s):
                make()
        except BaseException as error:
            self._problems.append(error)
            self._is_over.set()

    def _reload(self) -> None:
        self.events.reloads += 1
        is_bad = self.events.reloads % BAD_RELOADS_EVERY == 0
        self.events.bad_reloads += is_bad
        with self._files:
            for service in (self._staying, self._leaving):
                service.write_rules(BAD_RULES if is_bad else RULES.format(limit=2 + self.events.reloads % 3))

    def _restart(self) -> None:
        begun = time.monotonic()
        number = signal.SIGKILL if self.events.restarts["SIGTERM"] > self.events.restarts["SIGKILL"] else signal.SIGTERM
        if number == signal.SIGTERM:
            self._leaving.send(number)
            self.events.exit_codes.append(self._leaving.wait())
        else:
            self._leaving.kill()
        with self._files:
            self._leaving.write_rules(RULES.format(limit=3))
            self._leaving.start()
        self.events.away.append((begun, time.monotonic() + MARGIN_S))
        self.events.restarts[number.name] += 1

    def _fail_over(self) -> None:
        old = self._store.kill_primary()
        self._store.wait_for_new_primary(old, within=30)
        old.start()
        old.wait_ready()
        self.events.failovers += 1

    def _weigh(self) -> None:
        self.events.memory.append(psutil.Process(self._staying.process.pid).memory_info().rss)


def judge(seen: Seen, events: Events) -> list[str]:
    """Say everything that should not have happened."""
    problems = [f"{count} x an answer that nobody expects: {outcome}" for outcome, count in seen.outcomes.items() if outcome not in DEFINED]
    lost = [(when, instance, how) for when, instance, how in seen.losses if instance == 0 or not _is_away(when, events)]
    problems += [f"{count} x {how} by instance {name}" for (name, how), count in Counter(loss[1:] for loss in lost).items()]
    problems += [f"an instance ended with {code}" for code in events.exit_codes if code != 0]
    if not (events.reloads and events.failovers and events.restarts):
        problems.append("too short: not everything has happened at least once")
    first, last = memory_of(events)
    if last > first * (1 + MEMORY_GROWTH_MAX) + MEMORY_SLACK:
        problems.append(f"memory grew from {first / 2**20:.1f} to {last / 2**20:.1f} MiB")
    return problems


def _is_away(when: float, events: Events) -> bool:
    return any(begun <= when <= ended for begun, ended in events.away)


def memory_of(events: Events) -> tuple[float, float]:
    """Return the memory in the second quarter, when everything is warm, and in the last."""
    quarter = max(1, len(events.memory) // 4)
    return float(np.median(events.memory[quarter : 2 * quarter])), float(np.median(events.memory[-quarter:]))


def show(console: Console, rate: float, seen: Seen, events: Events) -> None:
    """Print the summary."""
    table = Table("what", "how much", title="Soak")
    table.add_row("HTTP requests per second", f"{rate:,.0f}")
    table.add_row("decisions", f"{seen.answers:,}")
    for outcome, count in sorted(seen.outcomes.items()):
        table.add_row(outcome, f"{count:,}  ({count / seen.answers:.2%})")
    for how, count in Counter(loss[2] for loss in seen.losses).items():
        table.add_row(f"connections {how} while an instance restarts", f"{count:,}")
    p50, p99, p999 = (np.percentile(seen.latencies, share) * 1e3 for share in (50, 99, 99.9))
    table.add_row("latency from the scheduled time", f"p50 {p50:.2f} ms, p99 {p99:.2f} ms, p99.9 {p999:.2f} ms")
    table.add_row("rules replaced", f"{events.reloads} times, {events.bad_reloads} of them by a file with a mistake")
    table.add_row("failovers of the store", str(events.failovers))
    table.add_row("restarts", ", ".join(f"{count} by {name}" for name, count in events.restarts.items()))
    first, last = memory_of(events)
    table.add_row("memory of the instance that stayed", f"{first / 2**20:.1f} MiB when warm, {last / 2**20:.1f} MiB at the end")
    console.print(table)


def main() -> int:
    """Run it; 1 if something happened that should not have."""
    parser = argparse.ArgumentParser(description="Minutes of load while everything changes.")
    parser.add_argument("--minutes", type=float, default=3.0)
    options = parser.parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=140)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(Sentinel())
        settings = {**SETTINGS, "store": store.url()}
        staying, leaving = (stack.enter_context(Running(RULES.format(limit=3), settings)) for _ in range(2))
        rate, decisions = measure_capacity([staying, leaving])
        console.print(
            f"capacity {rate:,.0f} requests with {decisions:,.0f} checks per second; {options.minutes:g} minutes at {SHARE:.0%} of it"
        )
        rate *= SHARE
        trouble = Trouble(staying, leaving, store)
        with load([staying, leaving], rate) as seen:
            time.sleep(SETTLE_S)
            trouble.run(options.minutes * 60)
            time.sleep(MARGIN_S)
        show(console, rate, seen, trouble.events)
        problems = judge(seen, trouble.events)
    for problem in problems:
        console.print(f"error: {problem}", style="red", markup=False)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
