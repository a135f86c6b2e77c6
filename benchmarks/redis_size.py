"""
Bytes per key on the server: the growth of `used_memory`, divided by the keys that were checked.

Beside every algorithm stand what others keep for a client: two counters, as a sliding window counter does, and a sorted set with an entry
per request.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis_peers
import redis_server
from child import Advance, serve

if TYPE_CHECKING:
    from tests.servers import Single
    from tidegate import Limiter

FILE = Path(__file__)
TASKS = 256
SERVERS = ("redis70", "valkey")
KEYS = 100_000

# Algorithm, quota, checks per key, and what part of the keys: those that take many checks each would take minutes.
QUOTAS = (
    ("fixed_window", "100/day fixed_window", 1, 1.0),
    ("sliding_window", "100/day sliding_window", 1, 1.0),
    ("sliding_window", "100/day sliding_window", 16, 0.1),
    ("sliding_window_log", "100/day sliding_window_log", 1, 1.0),
    ("sliding_window_log", "100/day sliding_window_log", 100, 0.02),
    ("sliding_window_counter", "100/day sliding_window_counter", 1, 1.0),
    ("sliding_window_counter, 10 buckets", "100/day sliding_window_counter buckets 10", 1, 1.0),
    ("gcra", "100/day gcra", 1, 1.0),
    ("leaky_bucket", "100/day queue 1d", 1, 1.0),
    ("concurrency", "100 concurrent", 1, 1.0),
)

# Both make a thousand keys per call. Names are as short as a client's name with a prefix can be.
TWO_COUNTERS = """
for number = ARGV[1], ARGV[1] + 999 do
  for window = 20408, 20409 do redis.call('SET', 'rate:user:' .. number .. ':' .. window, number % 100, 'PX', 172800000) end
end
"""
SORTED_SET = """
for number = ARGV[1], ARGV[1] + 999 do
  for entry = 1, 100 do
    local at = 1794833212000 + entry * 1000 + number % 1000
    redis.call('ZADD', 'rate:user:' .. number, at, string.format('%016x', at))
  end
  redis.call('PEXPIRE', 'rate:user:' .. number, 86400000)
end
"""


def measure_all(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return one row per server, algorithm and number of checks."""
    keys = KEYS // 20 if quick else KEYS
    names = redis_server.installed(SERVERS)
    rows = []
    for turn, name in enumerate(names):
        with redis_server.start(name) as server:
            for number, (algorithm, quota, checks, part) in enumerate(QUOTAS):
                advance(f"{server.node.binary.text}, {algorithm}", (turn + number / len(QUOTAS)) / len(names))
                rows.append(_tidegate(server, algorithm, quota, checks, int(keys * part)))
            rows.append(_peer(server, "two counters with a TTL", 1, keys, TWO_COUNTERS))
            rows.append(_peer(server, "a sorted set of 100 entries with a TTL", 100, max(1000, keys // 10), SORTED_SET))
    return {"rows": rows, "missing": [name for name in SERVERS if name not in names]}


def _tidegate(server: "Single", algorithm: str, quota: str, checks: int, keys: int) -> dict[str, Any]:
    from tidegate import Limiter  # noqa: PLC0415 - peers are measured without it too

    with Limiter(quota, store=server.url(), budget=redis_peers.BUDGET_S) as limiter:
        about = {"library": "tidegate", "note": algorithm, "checks": checks, "keys": keys}
        return about | _growth(server, keys, lambda: asyncio.run(_fill(limiter, keys, checks)), lambda: limiter.check("somebody else"))


def _peer(server: "Single", note: str, checks: int, keys: int, script: str) -> dict[str, Any]:
    def fill() -> None:
        for first in range(0, keys, 1000):
            server.command("EVAL", script, 0, first)

    about = {"library": "", "note": note, "checks": checks, "keys": keys}
    return about | _growth(server, keys, fill, lambda: server.command("EVAL", "return 1", 0))


def _growth(server: "Single", keys: int, fill: Callable[[], object], warm: Callable[[], object]) -> dict[str, Any]:
    """Return by how much the memory grew, and how many keys came: connections and scripts are there before."""
    # Not in the background, or its memory would come back while other keys are counted.
    server.command("FLUSHALL", "SYNC")
    warm()
    before, keys_before = redis_server.used_memory(server), server.command("DBSIZE")
    fill()
    keys_after = server.command("DBSIZE")
    assert isinstance(keys_before, int)
    assert isinstance(keys_after, int)
    grown = redis_server.used_memory(server) - before
    return {"server": server.node.binary.text, "held": keys_after - keys_before, "bytes": grown / keys}


async def _fill(limiter: "Limiter", keys: int, checks: int) -> None:
    numbers = iter(range(keys))

    async def work() -> None:
        for number in numbers:
            for _ in range(checks):
                assert not (await limiter.check_async(f"user:{number}")).degraded

    await asyncio.gather(*(work() for _ in range(TASKS)))


if __name__ == "__main__":
    serve(measure_all)
