"""What people cost decisions: the same load with ten dashboards open and an import of rules running, and without them, in turns."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import service_servers as servers
from child import Advance
from service_http import check_lane
from service_lanes import GENERATOR, SERVER, Lane, Plan, Setup, missing, take_turns
from service_load import Load, pinned, program

CROWD = Path(__file__).with_name("control_crowd.py")
DASHBOARDS = 10
QUIET, BUSY = "nobody looks", f"{DASHBOARDS} dashboards and an import of rules"


def measure(*, quick: bool, folder: Path, advance: Advance) -> dict[str, Any]:
    """Return a row without people and one with them, and what those did."""
    if program("wrk") is None:
        return {"rows": [missing("tidegate", QUIET, "wrk is not installed")], "crowds": []}
    setup = Setup(Plan.of(quick=quick), folder)
    settings = {"admin.listen": "127.0.0.1:0", "admin.database": f"sqlite:///{folder}/dashboards.db", "workers": 1, **servers.SETTINGS}
    with pinned(SERVER):
        running = servers.Running(servers.NATIVE, settings).start()
    with servers.running_until_end(running):
        token = re.search(r"\btg_[\w-]+", running.log)
        assert token is not None, running.log
        target = servers.Target(running.process.pid, running.http, running.grpc)
        crowds: list[dict[str, Any]] = []
        quiet, busy = (check_lane("tidegate", note, target, setup) for note in (QUIET, BUSY))
        quiet.half = busy.half = None
        _disturb(busy, {"address": running.addresses["admin"].removeprefix("http://"), "token": token[0]}, crowds)
        return {"rows": take_turns([quiet, busy], setup.plan, advance), "crowds": crowds}


def _disturb(lane: Lane, people: dict[str, Any], crowds: list[dict[str, Any]]) -> None:
    load = lane.load

    def disturbed() -> Load:
        with _crowd(people, crowds):
            return load()

    lane.load = disturbed


@contextmanager
def _crowd(people: dict[str, Any], crowds: list[dict[str, Any]]) -> Iterator[None]:
    """Let people look and import in this block, from the core of the generator."""
    words = [sys.executable, str(CROWD), json.dumps({**people, "dashboards": DASHBOARDS})]
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
