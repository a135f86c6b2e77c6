"""
How long the event loop of a FastAPI application stands still because of its limiter, with Redis and while that is frozen (SIGSTOP).

A task that wants to run every millisecond says how late it was. Everybody runs with the settings that one gets without asking. The
application without a limiter is measured like the others: its stalls are those of the machine.
"""

import asyncio
import contextlib
import gc
import statistics
import threading
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import integrations_apps as apps
import integrations_asgi
import redis_server
from child import Advance, run_child, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import Single

FILE = Path(__file__)
TASKS = 16
TICK_S = 0.001
PAUSE_S = 0.02
FROZEN_S = 0.5


def measure_all(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return the longest stalls by limiter."""
    return run_child(FILE, {"quick": quick}, advance)


def _measure(*, quick: bool, advance: Advance) -> dict[str, Any]:
    rounds = 1 if quick else 7
    subjects = apps.installed()
    with redis_server.start() as server:
        rows = []
        for number, subject in enumerate(subjects):
            for is_frozen in (False, True):
                advance(f"event loop, {subject.name}{', frozen' if is_frozen else ''}", number / len(subjects))
                longest = [1e3 * asyncio.run(_longest_stall(subject, server, is_frozen=is_frozen)) for _ in range(rounds)]
                found = {"stall_ms": statistics.median(longest), "worst_ms": max(longest)}
                rows.append({"library": subject.library, "note": subject.note, "is_frozen": is_frozen, **found})
        return {"server": server.node.binary.text, "rounds": rounds, "tasks": TASKS, "frozen_ms": 1e3 * FROZEN_S, "rows": rows}


async def _longest_stall(subject: apps.Subject, server: "Single", *, is_frozen: bool) -> float:
    """Return seconds. Requests come from several tasks, with a pause between two, so that the loop has nothing to do most of the time."""
    app = await subject.make(server.url(), apps.BUDGET_S)
    await integrations_asgi.requests(app, 100)
    gc.collect()
    ends = perf_counter() + FROZEN_S
    with _freeze(server) if is_frozen else contextlib.nullcontext():
        asking = [asyncio.create_task(_ask(app, ends)) for _ in range(TASKS)]
        longest = 0.0
        while (started := perf_counter()) < ends:
            await asyncio.sleep(TICK_S)
            longest = max(longest, perf_counter() - started - TICK_S)
    await asyncio.gather(*asking)
    return longest


async def _ask(app: apps.Application, ends: float) -> None:
    while perf_counter() < ends:
        # A limiter that fails is answered with an error by the server; here only the loop is looked at.
        with contextlib.suppress(Exception):
            await integrations_asgi.requests(app, 1)
        await asyncio.sleep(PAUSE_S)


@contextlib.contextmanager
def _freeze(server: "Single") -> "Iterator[None]":
    # By a thread: a loop that stands still cannot end it.
    thaw = threading.Timer(FROZEN_S, server.thaw)
    server.freeze()
    thaw.start()
    try:
        yield
    finally:
        thaw.join()


if __name__ == "__main__":
    serve(_measure)
