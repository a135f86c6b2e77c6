"""
The libraries that are measured, one small adapter each.

Every adapter answers a key in up to three ways, and `None` says that the library has no such call:

- `allow`: only whether the request may pass,
- `check`: the richest answer the library gives in one call,
- `read`: the same, and then limit, remaining, retry and reset are really read, because some answers are computed when they are looked at.

Each library runs in the fastest fair in-memory configuration found by reading its source; the reason stands in its adapter. The callables
are bound once, outside of the timed loop, for all alike.
"""

# ruff: noqa: PLC0415 - a peer is imported where it is used: one that is not installed is left out

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from importlib import metadata
from typing import Any

Call = Callable[[str], Any]


@dataclass(frozen=True)
class Quota:
    """An amount per period, in whole seconds because that is all that every library understands."""

    limit: int
    period_s: int

    def text(self, algorithm: str) -> str:
        """Return the quota as Tidegate reads it."""
        if self == AMPLE and algorithm == "gcra":
            # 1,000,000,000 a day would give a unit back every 86 microseconds: a key that is asked now and then would always be full again,
            # which is to say forgotten, and every check would measure how a new key is made.
            return "1/30s burst 100000000"
        if algorithm == "concurrency":
            return f"{self.limit} concurrent"
        if algorithm == "leaky_bucket":
            return f"{self.limit}/{self.period_s}s queue {self.period_s}s"
        return f"{self.limit}/{self.period_s}s {algorithm}"


# So large that nobody is ever denied, and so spent that everybody is.
AMPLE = Quota(1_000_000_000, 86_400)
SPENT = Quota(1, 86_400)


@dataclass(frozen=True)
class Calls:
    """What one library offers for one quota."""

    allow: Call
    check: Call | None = None
    read: Call | None = None
    settle: Callable[[], None] = lambda: None
    stats: Callable[[], Any] | None = None
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Peer:
    """A library: its name on PyPI and how to set it up."""

    name: str
    make: Callable[[Quota], Calls]
    note: str

    def version(self) -> str | None:
        """Return the installed version, or `None` when it is not installed."""
        try:
            return metadata.version(self.name)
        except metadata.PackageNotFoundError:
            return None


def _tidegate(quota: Quota, algorithm: str = "gcra", keys_max: int = 10_000_000) -> Calls:
    from tidegate import Limiter

    limiter = Limiter(quota.text(algorithm), max_keys=keys_max)
    check = limiter.check

    def read(key: str) -> tuple[object, ...]:
        decision = check(key)
        return decision.allowed, decision.limit, decision.remaining, decision.retry_after, decision.reset_after

    return Calls(allow=limiter.allow, check=check, read=read, stats=limiter.stats, close=limiter.close)


def _limits(quota: Quota) -> Calls:
    """
    `limits`: the fixed window, its fastest strategy (the sliding counter takes twice as long, the moving window keeps a list).

    `hit` answers with a bool; what is left and when needs a second call, `get_window_stats`. The bar of 10x is held against `hit` alone.
    """
    from limits import RateLimitItemPerSecond
    from limits.storage import MemoryStorage
    from limits.strategies import FixedWindowRateLimiter

    storage = MemoryStorage()
    limiter = FixedWindowRateLimiter(storage)
    item = RateLimitItemPerSecond(quota.limit, quota.period_s)
    hit = limiter.hit
    window_stats = limiter.get_window_stats

    def read(key: str) -> tuple[object, ...]:
        allowed = hit(item, key)
        stats = window_stats(item, key)
        return allowed, item.amount, stats.remaining, stats.reset_time, stats.reset_time

    # Each call may start a thread that sweeps all keys 10 ms later. It belongs to the cost of `limits`, not to who is measured next.
    def settle() -> None:
        storage.timer.join()

    return Calls(allow=partial(hit, item), check=partial(hit, item), read=read, settle=settle, close=settle)


def _throttled(quota: Quota) -> Calls:
    """
    `throttled-py`: the fixed window, its fastest algorithm (its GCRA takes 7 to 17 % longer, the others more).

    The default store forgets all but 1,024 keys, so it gets room for every key.
    """
    from throttled import Throttled, per_duration
    from throttled.store import MemoryStore

    limiter = Throttled(
        using="fixed_window",
        quota=per_duration(timedelta(seconds=quota.period_s), quota.limit),
        store=MemoryStore(options={"MAX_SIZE": 100_000_000}),
    )
    limit = limiter.limit

    def read(key: str) -> tuple[object, ...]:
        result = limit(key)
        state = result.state
        return not result.limited, state.limit, state.remaining, state.retry_after, state.reset_after

    return Calls(allow=limit, check=limit, read=read)


def _pyrate(quota: Quota) -> Calls:
    """
    `pyrate-limiter`: one `InMemoryBucket` per key, which is its documented way to have keys and a quarter faster than `StateBucket` (GCRA).

    No leak task is scheduled: it would walk over all buckets every ten seconds and slow it down. It only answers with a bool.
    """
    from pyrate_limiter import AbstractBucket, BucketFactory, InMemoryBucket, Limiter, MonotonicClock, Rate, RateItem

    rates = [Rate(quota.limit, quota.period_s * 1000)]
    now = MonotonicClock().now

    class PerKey(BucketFactory):
        def __init__(self) -> None:
            self.buckets: dict[str, AbstractBucket] = {}

        def wrap_item(self, name: str, weight: int = 1) -> RateItem:
            return RateItem(name, now(), weight=weight)

        def get(self, item: RateItem) -> AbstractBucket:
            bucket = self.buckets.get(item.name)
            if bucket is None:
                bucket = self.buckets[item.name] = InMemoryBucket(rates)
            return bucket

    try_acquire = Limiter(PerKey()).try_acquire
    return Calls(allow=lambda key: try_acquire(key, 1, False))  # noqa: FBT003 - third positional parameter of the peer


def _rust_py(quota: Quota) -> Calls:
    """
    `rust-py-rate-limit`: its fixed window, the default; its sliding one is no different in speed.

    Without `max_keys` and `cleanup_interval` it never forgets a key and never pays for it, except where expiry itself is measured.
    """
    from rust_py_rate_limit import RateLimiter

    limiter = RateLimiter(quota.limit, quota.period_s)
    check = limiter.check

    def read(key: str) -> tuple[object, ...]:
        answer = check(key)
        return answer["allowed"], answer["limit"], answer["remaining"], answer["retry_after_seconds"], answer["reset_after_seconds"]

    return Calls(allow=limiter.allow, check=check, read=read)


def _rust_py_expiring(quota: Quota) -> Calls:
    from rust_py_rate_limit import RateLimiter

    limiter = RateLimiter(quota.limit, quota.period_s, cleanup_interval=1.0)
    return Calls(allow=limiter.allow, check=limiter.check)


TIDEGATE = Peer("tidegate", _tidegate, "gcra")
LIMITS = Peer("limits", _limits, "fixed window, MemoryStorage")
THROTTLED = Peer("throttled-py", _throttled, "fixed window, MemoryStore")
PYRATE = Peer("pyrate-limiter", _pyrate, "InMemoryBucket per key")
RUST_PY = Peer("rust-py-rate-limit", _rust_py, "fixed window")

PEERS = (TIDEGATE, RUST_PY, LIMITS, THROTTLED, PYRATE)

# With the clean-up that bounds their memory, for the measurement in which keys expire.
EXPIRING = {
    "tidegate": TIDEGATE.make,
    "limits": _limits,
    "rust-py-rate-limit": _rust_py_expiring,
}


def tidegate_calls(quota: Quota, algorithm: str, keys_max: int = 10_000_000) -> Calls:
    """Return Tidegate with another algorithm than `gcra`, or with room for more keys."""
    return _tidegate(quota, algorithm, keys_max)
