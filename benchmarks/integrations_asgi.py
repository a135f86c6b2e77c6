"""
What a limiter adds to a request of a FastAPI application, without a network: the application is called as a server calls it.

Everybody takes a turn in each round, and the median of the rounds counts.
"""

import asyncio
import statistics
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import integrations_apps as apps
import redis_server
from child import Advance, run_child, serve
from timing import collector_off

FILE = Path(__file__)
TASKS = 32
T = TypeVar("T")

SCOPE: dict[str, Any] = {
    "type": "http",
    "asgi": {"version": "3.0", "spec_version": "2.4"},
    "http_version": "1.1",
    "method": "GET",
    "scheme": "http",
    "path": "/",
    "raw_path": b"/",
    "query_string": b"",
    "root_path": "",
    "headers": [(b"host", b"127.0.0.1:8000"), (b"user-agent", b"bench"), (b"accept", b"*/*"), (b"accept-encoding", b"gzip")],
    "client": ("127.0.0.1", 40000),
    "server": ("127.0.0.1", 8000),
    "state": {},
}


def measure_all(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return the added time by limiter, in memory and on Redis."""
    return run_child(FILE, {"quick": quick}, advance)


def _measure(*, quick: bool, advance: Advance) -> dict[str, Any]:
    rounds, calls = (3, 300) if quick else (31, 1_000)
    with redis_server.start() as server:
        return {
            "rounds": rounds,
            "tasks": TASKS,
            "memory": asyncio.run(_added(None, rounds, calls, advance)),
            "redis": asyncio.run(_added(server.url(), rounds, calls // 5, advance)),
        }


async def _added(store: str | None, rounds: int, calls: int, advance: Advance) -> list[dict[str, Any]]:
    """Measure everybody, one request at a time and, on a store, many at once."""
    subjects = [*apps.on(store, apps.installed()), *apps.BASELINES["memory" if store is None else "redis"]]
    made = {subject.name: await subject.make(store, apps.PATIENT_S) for subject in subjects}
    width = {"one": 1} if store is None else {"one": 1, "many": TASKS}
    samples: dict[tuple[str, str], list[float]] = {(name, note): [] for name in made for note in width}
    for app in made.values():
        await requests(app, 100)
    for number in range(rounds):
        advance(f"FastAPI, {'memory' if store is None else 'Redis'}", number / rounds)
        # Who comes first in a round finds the caches as the last round left them: everybody does in turn.
        for name, app in in_turn(made, number):
            for note, tasks in width.items():
                with collector_off():
                    start = perf_counter()
                    await asyncio.gather(*(requests(app, calls // tasks) for _ in range(tasks)))
                    samples[name, note].append((perf_counter() - start) / (calls // tasks * tasks) * 1e6)
    return [
        {
            "library": subject.library,
            "note": subject.note,
            "at_once": width[note],
            "us": statistics.median(samples[subject.name, note]),
            # Of the rounds and not of the medians: what disturbed a round disturbed its neighbours too.
            "added_us": statistics.median(
                own - bare for own, bare in zip(samples[subject.name, note], samples[subjects[0].name, note], strict=True)
            ),
        }
        for subject in subjects
        for note in width
    ]


def in_turn(made: dict[str, T], number: int) -> list[tuple[str, T]]:
    """Return names and what was made, in another order for each round."""
    items = list(made.items())
    first = number % len(items)
    return items[first:] + items[:first]


async def requests(app: apps.Application, count: int) -> None:
    """Send requests, one after the other."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    status = 0

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    for _ in range(count):
        await app(SCOPE | {"state": {}}, receive, send)
        assert status == 200, status


if __name__ == "__main__":
    serve(_measure)
