"""
What a decision costs the server, by its own account (`INFO commandstats`): time of the script, commands that it calls, and round trips.

Every algorithm has a quota of 100. Each of many keys is checked 90 times, which are allowed, and after the quota is used up 20 times more,
which are denied; the cache of denials is off. So the numbers are means over all fillings of a counter.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis_peers
import redis_server
from child import Advance, serve
from redis_server import Work

if TYPE_CHECKING:
    from tests.servers import Single
    from tidegate import Limiter

FILE = Path(__file__)
TASKS = 64
LIMIT, ALLOWED, DENIED = 100, 90, 20
# What scripts of all limiters here are made of; heartbeats call others.
INNER = ("time", "get", "mget", "exists", "set", "del", "incr", "incrby")  # of ours
INNER += ("expire", "pexpire", "ttl", "pttl", "lrange", "lindex", "lpush", "ltrim")  # and of peers

QUOTAS = {
    "fixed_window": f"{LIMIT}/day fixed_window",
    "sliding_window": f"{LIMIT}/day sliding_window",
    "sliding_window_log": f"{LIMIT}/day sliding_window_log",
    "sliding_window_counter": f"{LIMIT}/day sliding_window_counter",
    "sliding_window_counter, 10 buckets": f"{LIMIT}/day sliding_window_counter buckets 10",
    "gcra": f"{LIMIT}/day gcra",
    "leaky_bucket": f"{LIMIT}/day queue 1d",
    "concurrency": f"{LIMIT} concurrent",
    "three quotas, sliding_window": f"{LIMIT}/day sliding_window, {2 * LIMIT}/day sliding_window, {3 * LIMIT}/day sliding_window",
    "three quotas, gcra": f"{LIMIT}/day gcra, {2 * LIMIT}/day gcra, {3 * LIMIT}/day gcra",
}


def measure_all(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return one row per algorithm, and what `limits` and a script that does nothing cost on the same server."""
    rounds, keys = (1, TASKS) if quick else (5, 4 * TASKS)
    rows: dict[str, dict[str, Any]] = {}
    with redis_server.start() as server:
        for turn in range(rounds):
            for number, (algorithm, quota) in enumerate(QUOTAS.items()):
                advance(f"scripts, {algorithm}", (turn + number / len(QUOTAS)) / rounds)
                _keep_fastest(rows, "tidegate", algorithm, _tidegate(server, quota, keys, turn))
            _keep_fastest(rows, "limits", "sliding window counter", _limits(server, turn))
            for names, what in ((1, "a script that reads the clock and a key, and sets it"), (3, "the same with three keys")):
                _keep_fastest(rows, "", what, _floor(server, names, keys * ALLOWED // 4))
        return {"server": server.node.binary.text, "limit": LIMIT, "rounds": rounds, "rows": list(rows.values())}


def _keep_fastest(rows: dict[str, dict[str, Any]], library: str, note: str, found: dict[str, Any]) -> None:
    """Whatever else runs on the machine can only make a script slower."""
    row = rows.setdefault(note, {"library": library, "note": note, **found})
    for column in ("allowed_us", "denied_us"):
        if row[column] is not None and found[column] is not None:
            row[column] = min(row[column], found[column])


def _tidegate(server: "Single", quota: str, keys: int, turn: int) -> dict[str, Any]:
    from tidegate import Limiter  # noqa: PLC0415 - peers are measured without it too

    names = [f"{quota}:{turn}:{number}" for number in range(keys)]
    with Limiter(quota, store=server.url(), deny_cache=0, budget=redis_peers.BUDGET_S) as limiter:
        # The script is known to the server before it is measured.
        limiter.check("somebody else")
        allowed, allowed_share = _work(server, lambda: asyncio.run(_ask(limiter, names, ALLOWED)))
        asyncio.run(_ask(limiter, names, 2 * (LIMIT - ALLOWED)))
        denied, denied_share = _work(server, lambda: asyncio.run(_ask(limiter, names, DENIED)))
    assert (allowed_share, denied_share) == (1.0, 0.0), (quota, allowed_share, denied_share)
    return {
        "allowed_us": allowed.script_us,
        # Denials that never reach the server have nothing to tell.
        "denied_us": denied.script_us if denied.scripts else None,
        "allowed_calls": allowed.inner_calls(INNER),
        "denied_calls": denied.inner_calls(INNER) if denied.scripts else None,
        "round_trips": allowed.round_trips(keys * ALLOWED),
    }


def _work(server: "Single", run: Callable[[], float]) -> tuple[Work, float]:
    before = Work.of(server)
    share = run()
    return Work.of(server).since(before), share


async def _ask(limiter: "Limiter", names: list[str], times: int) -> float:
    """Return the share that was allowed."""
    allowed = 0
    waiting = iter(names)

    async def work() -> None:
        nonlocal allowed
        for name in waiting:
            for _ in range(times):
                decision = await limiter.check_async(name)
                assert not decision.degraded
                allowed += decision.allowed

    await asyncio.gather(*(work() for _ in range(TASKS)))
    return allowed / (len(names) * times)


def _limits(server: "Single", turn: int) -> dict[str, Any]:
    from limits import RateLimitItemPerSecond  # noqa: PLC0415 - a peer that is not installed is left out

    limiter = redis_peers.limits_strategy(server.url(), "redis-py")
    item = RateLimitItemPerSecond(LIMIT, redis_peers.DAY_S)
    keys = [f"turn:{turn}:{number}" for number in range(5)]

    def ask(times: int) -> float:
        return float(sum(limiter.hit(item, key) for key in keys for _ in range(times)) / times / len(keys))

    ask(1)
    allowed, _ = _work(server, lambda: ask(ALLOWED))
    ask(LIMIT)
    denied, _ = _work(server, lambda: ask(DENIED))
    return {
        "allowed_us": allowed.script_us,
        "denied_us": denied.script_us,
        "allowed_calls": allowed.inner_calls(INNER),
        "denied_calls": denied.inner_calls(INNER),
        "round_trips": allowed.round_trips(len(keys) * ALLOWED),
    }


def _floor(server: "Single", names: int, count: int) -> dict[str, Any]:
    """Return what no limiter in Lua can be below."""
    from redis_load import BareLoop, Command  # noqa: PLC0415 - only here

    get = "redis.call('GET', KEYS[1])" if names == 1 else "redis.call('MGET', unpack(KEYS))"
    sets = (f"redis.call('SET', KEYS[{number + 1}], 'x', 'PX', 86400000)" for number in range(names))
    script = " ".join(["redis.call('TIME')", get, *sets, "return { 1 }"])
    loaded = server.command("SCRIPT", "LOAD", script)
    assert isinstance(loaded, bytes)
    loop = BareLoop(server, Command((b"EVALSHA", loaded, b"%d" % names, *(b"floor:%d" % number for number in range(names)))), TASKS)
    loop.rate(TASKS)
    work, _ = _work(server, lambda: loop.rate(count // TASKS * TASKS))
    loop.close()
    return {
        "allowed_us": work.script_us,
        "denied_us": None,
        "allowed_calls": work.inner_calls(INNER),
        "denied_calls": None,
        "round_trips": 1.0,
    }


if __name__ == "__main__":
    serve(measure_all)
