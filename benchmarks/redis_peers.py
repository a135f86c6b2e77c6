"""
The limiters that are measured on a shared store, one small adapter each: every one answers a key, once blocking and once for a task.

`limits` runs with its sliding window counter, the nearest to Tidegate's `sliding_window_counter`, and with both clients that it works with
here: redis-py and valkey-py. Its default for tasks, coredis, was slower than both in a trial, and the versions of it that `limits` accepts
do not go together with our other requirements.
"""

# ruff: noqa: PLC0415 - a peer is imported where it is used: one that is not installed is left out

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

AsyncCall = Callable[[str], Awaitable[Any]]
Call = Callable[[str], Any]

AMOUNT = 1_000_000_000
DAY_S = 86_400
# Nothing is decided without the store, however busy the machine is: that would be faster, and would not be what is measured.
BUDGET_S = 5.0

QUOTAS = {
    "sliding_window": f"{AMOUNT}/day sliding_window",
    "sliding_window_counter": f"{AMOUNT}/day sliding_window_counter",
    # A unit comes back every 30 seconds, so that no key is ever full again and forgotten.
    "gcra": "1/30s burst 100000000",
}
THREE = {
    "sliding_window": f"{AMOUNT}/day sliding_window, {AMOUNT}/hour sliding_window, {AMOUNT}/minute sliding_window",
    "sliding_window_counter": ", ".join(f"{AMOUNT}/{period} sliding_window_counter" for period in ("day", "hour", "minute")),
    "gcra": "1/10s burst 100000000, 1/20s burst 100000000, 1/30s burst 100000000",
}
CLIENTS = ("redis-py", "valkey-py")


@dataclass(frozen=True)
class Lane:
    """One limiter in one configuration."""

    library: str
    note: str
    call: Any
    degraded: Callable[[], int] = lambda: 0
    close: Callable[[], None] = lambda: None


def tidegate(url: str, quota: str, note: str, *, is_async: bool) -> Lane:
    """Return Tidegate with a quota so large that nobody is denied."""
    from tidegate import Limiter

    limiter = Limiter(quota, store=url, budget=BUDGET_S)
    call = limiter.check_async if is_async else limiter.check
    return Lane("tidegate", note, call, degraded=lambda: sum(limiter.health().degraded.values()), close=limiter.close)


def limits_strategy(url: str, client: str) -> Any:  # noqa: ANN401 - it may not be installed
    """Return the rate limiter of `limits` that is nearest to Tidegate's."""
    from limits.storage import storage_from_string
    from limits.strategies import SlidingWindowCounterRateLimiter

    storage: Any = storage_from_string(_scheme(url, client))
    return SlidingWindowCounterRateLimiter(storage)


def limits(url: str, client: str) -> Lane:
    """Return `limits` for threads."""
    from limits import RateLimitItemPerSecond

    hit = limits_strategy(url, client).hit
    return Lane("limits", f"sliding window counter, {client}", partial(hit, RateLimitItemPerSecond(AMOUNT, DAY_S)))


def limits_async(url: str, client: str) -> Lane:
    """Return `limits` for tasks."""
    from limits import RateLimitItemPerSecond
    from limits.aio.storage import RedisStorage
    from limits.aio.strategies import SlidingWindowCounterRateLimiter

    implementation: Any = {"redis-py": "redispy", "valkey-py": "valkey"}[client]
    storage = RedisStorage("async+" + _scheme(url, client), implementation=implementation)
    hit = SlidingWindowCounterRateLimiter(storage).hit
    return Lane("limits", f"sliding window counter, {client}", partial(hit, RateLimitItemPerSecond(AMOUNT, DAY_S)))


def _scheme(url: str, client: str) -> str:
    return url.replace("redis://", "valkey://") if client == "valkey-py" else url
