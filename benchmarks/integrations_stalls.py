"""
How long the event loop of a FastAPI application stands still because of its limiter, with Redis and while that is frozen (SIGSTOP).

A task that wants to run every millisecond says how late it was. On a machine with other work that is not the limiter alone: a thread that
could run waits for a processor as well. The kernel counts how long it does; without that, what stays is time in which the loop computed, or
stood still in a call that blocks. Both numbers are kept. The clock's is judged: a limiter whose threads take the processor stalls too.

Everybody takes a turn in each round, and runs with the settings that one gets without asking. The application without a limiter is measured
like the others: what it shows is what the machine hides from the kernel too, such as a hypervisor that runs somebody else.
"""

import asyncio
import contextlib
import gc
import os
import statistics
import threading
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import integrations_apps as apps
import integrations_asgi
import redis_server
from child import Advance, run_child, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    cases = [(subject, is_frozen) for subject in apps.installed() for is_frozen in (False, True)]
    found: dict[tuple[str, bool], list[Stall]] = {(subject.name, is_frozen): [] for subject, is_frozen in cases}
    with redis_server.start() as server:
        for turn in range(rounds):
            for number, (subject, is_frozen) in enumerate(cases):
                advance(f"event loop, {subject.name}{', frozen' if is_frozen else ''}", (turn + number / len(cases)) / rounds)
                found[subject.name, is_frozen].append(asyncio.run(_longest_stall(subject, server, is_frozen=is_frozen)))
        rows = [
            {"library": subject.library, "note": subject.note, "is_frozen": is_frozen, **_summary(found[subject.name, is_frozen])}
            for subject, is_frozen in cases
        ]
        return {"server": server.node.binary.text, "rounds": rounds, "tasks": TASKS, "frozen_ms": 1e3 * FROZEN_S, "rows": rows}


@dataclass
class Stall:
    """The longest of a round, in seconds: of the loop itself, and as a clock sees it."""

    own_s: float = 0.0
    seen_s: float = 0.0


def _summary(stalls: list[Stall]) -> dict[str, float]:
    seen = [1e3 * stall.seen_s for stall in stalls]
    return {"stall_ms": statistics.median(seen), "worst_ms": max(seen), "own_ms": statistics.median(1e3 * stall.own_s for stall in stalls)}


async def _longest_stall(subject: apps.Subject, server: "Single", *, is_frozen: bool) -> Stall:
    """Requests come from several tasks, with a pause between two, so that the loop has nothing to do most of the time."""
    app = await subject.make(server.url(), apps.BUDGET_S)
    await integrations_asgi.requests(app, 100)
    gc.collect()
    longest = Stall()
    with _freeze(server) if is_frozen else contextlib.nullcontext(), _queue_clock() as waited_s:
        ends = perf_counter() + FROZEN_S
        asking = [asyncio.create_task(_ask(app, ends)) for _ in range(TASKS)]
        while (started := perf_counter()) < ends:
            waited = waited_s()
            await asyncio.sleep(TICK_S)
            late = perf_counter() - started - TICK_S
            longest.seen_s = max(longest.seen_s, late)
            longest.own_s = max(longest.own_s, late - (waited_s() - waited))
    await asyncio.gather(*asking)
    return longest


@contextlib.contextmanager
def _queue_clock() -> "Iterator[Callable[[], float]]":
    """A clock of the seconds that this thread could have run and had no processor; one that stands still where the kernel does not tell."""
    try:
        file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        yield lambda: 0.0
        return
    try:
        yield lambda: int(os.pread(file, 100, 0).split()[1]) / 1e9
    finally:
        os.close(file)


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
