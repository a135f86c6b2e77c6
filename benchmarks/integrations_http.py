"""
What a limiter adds to a request of a FastAPI application over real HTTP: uvicorn on one core, the generator and the store on the other.

Everybody takes a turn in each round. Microseconds are processor time of the server per request: with one core that is what limits it, and
other work on the machine does not count.
"""

import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import integrations_apps as apps
import service_load
import service_servers
from child import Advance
from service_load import Request, Wrk

SERVED = Path(__file__).with_name("integrations_served.py")
CONNECTIONS = 16

Load = Callable[[apps.Subject], tuple[float, float]]
"""Puts load on a subject."""


def measure_all(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return the added time by limiter, in memory and on Redis; or why there is none."""
    return measure_served(apps.installed(), SERVED, quick=quick, advance=advance)


def measure_served(subjects: Sequence[apps.Subject], served: Path, *, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return the same for the subjects of any framework, served by a program that is told a port, a subject and a store."""
    if service_load.program("wrk") is None:
        return {"skipped": "wrk is not installed"}
    rounds, seconds = (1, 1.0) if quick else (5, 2.0)
    results: dict[str, Any] = {"rounds": rounds, "connections": CONNECTIONS}
    with service_servers.store((1,)) as store:
        for number, (name, address) in enumerate({"memory": None, "redis": store.url()}.items()):
            load = partial(_load, served, address, seconds)
            chosen = apps.on(address, subjects)
            results[name] = _rows(name, chosen, load, rounds, lambda text, share, base=number: advance(text, (base + share) / 2))
    return results


def _rows(name: str, subjects: Sequence[apps.Subject], load: Load, rounds: int, advance: Advance) -> list[dict[str, Any]]:
    cpu: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    rates: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    for turn in range(rounds):
        for number, subject in enumerate(subjects):
            advance(f"HTTP, {name}, {subject.name}", (turn + number / len(subjects)) / rounds)
            taken_us, per_second = load(subject)
            cpu[subject.name].append(taken_us)
            rates[subject.name].append(per_second)
    bare = cpu[subjects[0].name]
    return [
        {
            "library": subject.library,
            "note": subject.note,
            "at_once": CONNECTIONS,
            "us": statistics.median(cpu[subject.name]),
            "added_us": statistics.median(own - other for own, other in zip(cpu[subject.name], bare, strict=True)),
            "per_second": max(rates[subject.name]),
        }
        for subject in subjects
    ]


def _load(served: Path, store: str | None, seconds: float, subject: apps.Subject) -> tuple[float, float]:
    """Return processor time per request in microseconds, and requests per second."""
    port = service_servers.free_port()
    words = [sys.executable, "-W", "ignore", str(served), str(port), subject.name, *([store] if store else [])]
    request = Request(f"http://127.0.0.1:{port}/", {})
    with tempfile.TemporaryDirectory() as folder, service_servers.listening(words, port, (0,)) as process:
        target = service_servers.Target(process.pid)
        Wrk(CONNECTIONS, 1.0).run(request, (), Path(folder), (1,))
        before = target.cpu_s()
        load = Wrk(CONNECTIONS, seconds).run(request, (), Path(folder), (1,))
        return 1e6 * (target.cpu_s() - before) / load.calls, load.per_second
