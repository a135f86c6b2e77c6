"""
What people cost decisions: the same load with ten dashboards open and an import of rules running, and without them, in turns.

The worker of the data plane has core 0, the generator core 1. Threads of the control plane run wherever the system lets them, as they do in
a service that nobody has pinned. People are somewhere else in life, and here they come last: what their own programs take of core 1 must
not slow the generator, because that would be counted as slower decisions. Of each round the one is held against the other, and the median
of all rounds counts: what else happens on a machine is then in both, or in few.
"""

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import service_servers as servers
from child import Advance
from service_http import check_lane
from service_lanes import GENERATOR, SERVER, Lane, Plan, Setup, missing, take_turns
from service_load import Load, pinned, program

CROWD = Path(__file__).with_name("control_crowd.py")
DASHBOARDS = 10
ROUNDS = 31
LAST = 19
"""As `nice` counts."""
WORKER = re.compile(r"tidegate-\d+")
QUIET, BUSY = "nobody looks", f"{DASHBOARDS} dashboards and an import of rules"


def measure(*, quick: bool, folder: Path, advance: Advance) -> dict[str, Any]:
    """Return a row without people and one with them, the share of each round, and what people did."""
    if program("wrk") is None:
        return {"rows": [missing("tidegate", QUIET, "wrk is not installed")], "crowds": [], "shares": []}
    plan = Plan.of(quick=quick)
    setup = Setup(plan if quick else replace(plan, rounds=ROUNDS, seconds=1.5), folder)
    settings = {"admin.listen": "127.0.0.1:0", "admin.database": f"sqlite:///{folder}/dashboards.db", "workers": 1, **servers.SETTINGS}
    running = servers.Running(servers.NATIVE, settings).start()
    with servers.running_until_end(running):
        worker = _pin_worker(running.process.pid)
        token = re.search(r"\btg_[\w-]+", running.log)
        assert token is not None, running.log
        target = servers.Target(running.process.pid, running.http, running.grpc)
        crowds: list[dict[str, Any]] = []
        quiet, busy = (check_lane("tidegate", note, target, setup) for note in (QUIET, BUSY))
        quiet.half = busy.half = None
        spent: dict[str, list[float]] = {QUIET: [], BUSY: []}
        for lane in (quiet, busy):
            _account(lane, worker, spent[lane.note])
        _disturb(busy, {"address": running.addresses["admin"].removeprefix("http://"), "token": token[0]}, crowds)
        rows = take_turns([quiet, busy], setup.plan, advance)
        shares = [with_people[0] / without[0] for without, with_people in zip(quiet.samples, busy.samples, strict=True)]
        worker_us = {name: statistics.median(taken) for name, taken in spent.items()}
        return {"rows": rows, "crowds": crowds, "shares": shares, "share": statistics.median(shares), "worker_us": worker_us}


def _account(lane: Lane, worker: Path, spent: list[float]) -> None:
    """Note what the worker itself takes for a check: that it waits for its core, for whomever, is not in it, and that it is slowed is."""
    load = lane.load

    def accounted() -> Load:
        before = _ran_ns(worker)
        measured = load()
        spent.append((_ran_ns(worker) - before) / 1e3 / measured.calls)
        return measured

    lane.load = accounted


def _ran_ns(worker: Path) -> int:
    return int((worker / "schedstat").read_text(encoding="utf-8").split()[0])


def _pin_worker(pid: int) -> Path:
    threads = [(int(task.name), (task / "comm").read_text(encoding="utf-8").strip()) for task in Path(f"/proc/{pid}/task").iterdir()]
    workers = [thread for thread, name in threads if WORKER.fullmatch(name)]
    assert len(workers) == 1, threads
    os.sched_setaffinity(workers[0], SERVER)
    return Path(f"/proc/{pid}/task/{workers[0]}")


def _disturb(lane: Lane, people: dict[str, Any], crowds: list[dict[str, Any]]) -> None:
    load = lane.load

    def disturbed() -> Load:
        with _crowd(people, crowds):
            return load()

    lane.load = disturbed


@contextmanager
def _crowd(people: dict[str, Any], crowds: list[dict[str, Any]]) -> Iterator[None]:
    """Let people look and import in this block, from the core of the generator, which goes before them."""
    words = ["nice", "-n", str(LAST), sys.executable, str(CROWD), json.dumps({**people, "dashboards": DASHBOARDS})]
    with pinned(GENERATOR):
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            child.stdin.close()
            crowds.append(json.loads(child.stdout.read() or "{}"))
