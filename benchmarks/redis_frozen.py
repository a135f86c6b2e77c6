"""
How long a caller waits for a store that is frozen (SIGSTOP): connections stay open, and no answer comes.

Everybody runs with the settings that one gets without asking. Who is still waiting after a while is not waited for any longer.
"""

import asyncio
import statistics
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import redis_peers
import redis_server
from child import Advance, serve

if TYPE_CHECKING:
    from tests.servers import Single
    from tidegate import Limiter

FILE = Path(__file__)
TASKS = 64
BUDGET_MS = 5.0


def measure_all(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return the longest waits by library, in milliseconds; one that was cut off says so."""
    freezes, patience_s = (1, 1.0) if quick else (7, 10.0)
    with redis_server.start() as server:
        rows = []
        for number, (note, waits) in enumerate((("one thread", _tidegate), (f"{TASKS} tasks", _tidegate_tasks))):
            advance(f"frozen store, tidegate, {note}", number / 4)
            longest = [waits(server) for _ in range(freezes)]
            found = {"longest_ms": statistics.median(longest), "worst_ms": max(longest), "freezes": freezes, "is_cut": False}
            rows.append({"library": "tidegate", "note": note, **found})
        peers: dict[str, Callable[[Single], Callable[[], object]]] = {"limits": _limits, "redis-py": _redis_py}
        for number, (name, connect) in enumerate(peers.items()):
            advance(f"frozen store, {name}", (2 + number) / 4)
            waited_s, is_cut = _peer(server, connect(server), patience_s)
            found = {"longest_ms": 1e3 * waited_s, "worst_ms": 1e3 * waited_s, "freezes": 1, "is_cut": is_cut}
            rows.append({"library": name, "note": "one thread", **found})
        return {"server": server.node.binary.text, "budget_ms": BUDGET_MS, "patience_s": patience_s, "rows": rows}


def _limiter(server: "Single") -> "Limiter":
    from tidegate import Limiter  # noqa: PLC0415 - peers are measured without it too

    return Limiter(redis_peers.QUOTAS["sliding_window"], store=server.url())


def _tidegate(server: "Single") -> float:
    """Return the longest wait in milliseconds, of a caller who asks for half a second."""
    with _limiter(server) as limiter:
        for number in range(100):
            limiter.check(f"user:{number}")
        longest, ends = 0.0, perf_counter() + 0.5
        server.freeze()
        try:
            while (started := perf_counter()) < ends:
                limiter.check("user:42")
                longest = max(longest, perf_counter() - started)
        finally:
            server.thaw()
    return 1e3 * longest


def _tidegate_tasks(server: "Single") -> float:
    """Return the same for many tasks at once, with a little to do for each between two questions."""
    longest = 0.0

    async def ask(limiter: "Limiter", name: str, ends: float) -> None:
        nonlocal longest
        while (started := perf_counter()) < ends:
            await limiter.check_async(name)
            longest = max(longest, perf_counter() - started)
            await asyncio.sleep(0.01)

    async def ask_all(limiter: "Limiter") -> None:
        ends = perf_counter() + 0.5
        await asyncio.gather(*(ask(limiter, f"user:{number}", ends) for number in range(TASKS)))

    with _limiter(server) as limiter:
        asyncio.run(ask_all(limiter))
        longest = 0.0
        server.freeze()
        try:
            asyncio.run(ask_all(limiter))
        finally:
            server.thaw()
    return 1e3 * longest


def _limits(server: "Single") -> Callable[[], object]:
    lane = redis_peers.limits(server.url(), "redis-py")
    return lambda: lane.call("user:42")


def _redis_py(server: "Single") -> Callable[[], object]:
    import redis  # noqa: PLC0415 - a peer

    client = redis.Redis.from_url(server.url())
    return lambda: client.get("user:42")


def _peer(server: "Single", call: Callable[[], object], patience_s: float) -> tuple[float, bool]:
    """Return for how many seconds a call waited, and whether it was waiting still."""
    call()
    server.freeze()
    started = perf_counter()
    waited_s = []

    def wait() -> None:
        # An error is an answer too.
        with suppress(Exception):
            call()
        waited_s.append(perf_counter() - started)

    caller = threading.Thread(target=wait, daemon=True)
    caller.start()
    caller.join(patience_s)
    is_cut = caller.is_alive()
    found = patience_s if is_cut else waited_s[0]
    server.thaw()
    caller.join(patience_s)
    return found, is_cut


if __name__ == "__main__":
    serve(measure_all)
