"""
What a denial promises on the real clock: who waits exactly so long is admitted, and who comes earlier is not.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.redis.conftest import Make
    from tests.servers import Single
    from tidegate import Limiter

QUOTAS = {
    "sliding_window": "3/200ms",
    "sliding_window_log": "3/200ms sliding_window_log",
    "sliding_window_counter": "3/200ms sliding_window_counter",
    "sliding_window_ring": "3/200ms sliding_window_counter buckets 4",
    "fixed_window": "3/200ms fixed_window",
    "gcra": "3/200ms burst 3",
    "gcra-fraction": "7/second burst 2",
    "leaky_bucket": "3/200ms queue 60ms",
    "concurrency": "3 concurrent ttl 200ms",
    "min_interval": "9/second min_interval 80ms",
    "several": "5/200ms, 3/100ms burst 3, 9/300ms fixed_window",
}
for_every_algorithm = pytest.mark.parametrize("quotas", QUOTAS.values(), ids=QUOTAS)


def now_ns() -> int:
    """
    The time of this process.
    """
    return time.monotonic_ns()  # noqa: TID251 - the promise is about real time


def is_over(until: int) -> bool:
    """
    Whether an instant has come.
    """
    return now_ns() >= until


def deny(limiter: Limiter, cost: int = 1) -> tuple[int, int]:
    """
    Asks until it is denied; answers with when it was asked for the last time, and with when it was told to come again.
    """
    while True:
        asked = now_ns()
        decision = limiter.check("key", cost)
        if not decision.allowed:
            assert not decision.degraded
            assert decision.retry_after_ns is not None
            assert decision.retry_after_ns > 0
            return asked, now_ns() + decision.retry_after_ns


@pytest.mark.parametrize("deny_cache", [0, 512])
@for_every_algorithm
def test_who_waits_exactly_as_long_as_told_is_admitted(quotas: str, deny_cache: int, make: Make, eventually: Eventually) -> None:
    """
    Again and again, whatever has been counted by then.
    """
    limiter = make(quotas, deny_cache=deny_cache)
    for cost in (1, 1, 2, 1):
        if cost > 1 and ("min_interval" in quotas or "queue" in quotas):
            continue  # other costs are admitted at other times there
        _, until = deny(limiter, cost)
        eventually(partial(is_over, until))

        assert limiter.check("key", cost).allowed


@for_every_algorithm
def test_who_comes_earlier_is_denied(quotas: str, make: Make, eventually: Eventually) -> None:
    """
    The wait is the shortest that is true. An answer counts if it came before the instant that the store promised at the earliest.
    """
    limiter = make(quotas, deny_cache=0)
    asked, until = deny(limiter)
    earliest = until - (now_ns() - asked)
    said: list[bool] = []

    def is_past() -> bool:
        allowed = limiter.check("key").allowed
        if now_ns() < earliest:
            said.append(allowed)
        return allowed or now_ns() >= earliest

    eventually(is_past)
    assert not any(said)


@pytest.mark.parametrize("quotas", [quota for quota in QUOTAS.values() if "concurrent" not in quota])
def test_a_waiter_is_admitted_at_the_first_attempt_after_the_denial(quotas: str, make: Make) -> None:
    """
    `wait` sleeps as long as it was told and asks once more. For a slot it asks now and then: it may come free before its lease expires.
    """
    limiter = make(quotas)
    deny(limiter)
    before = limiter.stats()
    decision = limiter.wait("key", timeout=5)
    after = limiter.stats()

    assert decision.allowed
    assert 1 == after.allowed - before.allowed
    assert after.denied - before.denied <= 1


async def test_waiters_of_many_tasks_are_all_admitted_and_never_too_many_at_once(make: Make) -> None:
    """
    20 tasks at 4 each 100 ms: the last starts after four windows at the earliest.
    """
    limiter = make("4/100ms")
    started = now_ns()
    said = await asyncio.gather(*(limiter.wait_async("key", timeout=20) for _ in range(20)))

    assert all(decision.allowed for decision in said)
    assert now_ns() - started >= 4 * 100_000_000


def test_the_promise_holds_on_every_server(every_server: Single, prefix: str, make: Make, eventually: Eventually) -> None:
    """
    Older ones, too.
    """
    limiter = make("3/200ms, 7/second burst 4", store=f"{every_server.url()}?prefix={prefix}")
    for _ in range(3):
        _, until = deny(limiter)
        eventually(partial(is_over, until))

        assert limiter.check("key").allowed
