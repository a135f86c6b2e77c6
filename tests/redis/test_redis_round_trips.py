"""
A decision is one command and one round trip, and decisions that are in flight together travel together.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.redis.conftest import Make, MakeRules
    from tests.redis.traffic import Watch, calls, stat
    from tests.servers import Single
    from tidegate import Limiter
else:
    from traffic import Watch, calls, stat

QUOTAS = {
    "sliding_window": "50/hour",
    "sliding_window_log": "50/hour sliding_window_log",
    "sliding_window_counter": "50/hour sliding_window_counter",
    "sliding_window_ring": "50/hour sliding_window_counter buckets 6",
    "fixed_window": "50/hour fixed_window",
    "calendar": "50/month calendar Europe/Berlin",
    "gcra": "50/hour burst 50",
    "leaky_bucket": "50/hour queue 1h",
    "concurrency": "50 concurrent",
    "min_interval": "50/hour min_interval 1us",
    "several": "50/second, 50/minute burst 50, 50/hour fixed_window, 50 concurrent",
}
for_every_algorithm = pytest.mark.parametrize("quotas", QUOTAS.values(), ids=QUOTAS)

ASKS: dict[str, Callable[[Limiter], object]] = {
    "check": lambda limiter: limiter.check("key"),
    "check of more": lambda limiter: limiter.check("key", 2),
    "check of nothing": lambda limiter: limiter.check("key", 0),
    "allow": lambda limiter: limiter.allow("key"),
    "peek": lambda limiter: limiter.peek("key"),
    "debit": lambda limiter: limiter.debit("key", 1),
    "reserve": lambda limiter: limiter.reserve("key", 2),
    "wait": lambda limiter: limiter.wait("key"),
    "denied": lambda limiter: limiter.check("key", 51),
}


@for_every_algorithm
def test_a_check_is_one_command(quotas: str, make: Make, server: Single, prefix: str) -> None:
    """
    However many quotas there are.
    """
    limiter = make(quotas)
    limiter.check("warm")
    with Watch(server, prefix) as watch:
        for number in range(10):
            limiter.check(f"key {number}")

    assert ["evalsha"] * 10 == watch.names


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_every_decision_is_one_command(ask: Callable[[Limiter], object], make: Make, server: Single, prefix: str) -> None:
    """
    Not only that of `check`.
    """
    limiter = make("50/hour, 50/day burst 50")
    ask(limiter)
    limiter.reset("key")
    with Watch(server, prefix) as watch:
        ask(limiter)

    assert watch.names in (["evalsha"], [])  # what is never admitted is remembered
    assert watch.names or ask is ASKS["denied"]


def test_a_request_under_several_rules_is_one_command(make_rules: MakeRules, server: Single, prefix: str) -> None:
    """
    Also when they count different keys, one of them is in shadow, and the request is denied.
    """
    limiter = make_rules(
        "{name: clients, per: client, quotas: '5/minute, 8/hour'}, {name: everybody, per: global, quotas: 8/minute},"
        "{name: paths, per: path, mode: shadow, quotas: 2/minute}"
    )
    limiter.check({"client": "warm", "path": "/"})
    with Watch(server, prefix) as watch:
        said = [limiter.check({"client": f"client {number}", "path": "/"}) for number in range(8)]

    assert [True] * 7 + [False] == [decision.allowed for decision in said]
    assert ["evalsha"] * 8 == watch.names


def test_the_server_confirms_it(make: Make, server: Single) -> None:
    """
    By its own statistics: one script for each check, and inside it one look at the clock, one read and one write.
    """
    limiter = make("50/hour")
    limiter.check("warm")
    before = calls(server)
    for number in range(100):
        limiter.check(f"key {number}")
    after = calls(server)

    assert {"evalsha": 100, "time": 100, "get": 100, "set": 100} == {
        name: number - before.get(name, 0) for name, number in after.items() if number != before.get(name, 0)
    }


async def test_the_server_is_asked_as_often_by_tasks(make: Make, server: Single, prefix: str) -> None:
    """
    One command for each check, and no more.
    """
    limiter = make("50/hour, 50/day")
    await limiter.check_async("warm")
    with Watch(server, prefix) as watch:
        await asyncio.gather(*(limiter.check_async(f"key {number}") for number in range(64)))

    assert ["evalsha"] * 64 == watch.names


async def test_checks_of_many_tasks_travel_together(make: Make, server: Single) -> None:
    """
    64 tasks with 20 checks each, and the server reads its sockets much less often.
    """
    limiter = make("50/hour")
    await limiter.check_async("warm")

    async def task(name: int) -> None:
        for number in range(20):
            await limiter.check_async(f"{name} {number}")

    before = stat(server, "total_reads_processed")
    await asyncio.gather(*(task(name) for name in range(64)))

    assert stat(server, "total_reads_processed") - before < 64 * 20 / 4
    assert 64 * 20 + 1 == limiter.stats().allowed


def test_checks_of_many_threads_travel_together(make: Make, server: Single) -> None:
    """
    At least now and then: a thread that waits lets others come.
    """
    limiter = make("50/hour")
    limiter.check("warm")
    together = threading.Barrier(32)

    def thread(name: int) -> None:
        together.wait()
        for number in range(30):
            limiter.check(f"{name} {number}")

    before = stat(server, "total_reads_processed")
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(thread, range(32)))

    assert stat(server, "total_reads_processed") - before < 32 * 30
    assert 0 == limiter.stats().degraded


def test_a_limiter_has_two_connections_at_most_however_many_threads_use_it(make: Make, server: Single, prefix: str) -> None:
    """
    One for all, and one for a thread that is alone. They say their name.
    """
    limiter = make("50/hour", store=f"{server.url()}?prefix={prefix}&client_name={prefix}mine")
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(limiter.allow, [f"key {number}" for number in range(200)]))
    clients = server.command("CLIENT", "LIST")
    assert isinstance(clients, bytes)

    assert 1 <= clients.count(f"name={prefix}mine ".encode()) <= 2


def test_a_script_that_the_server_forgot_is_sent_again(make: Make, prefix: str, server: Single) -> None:
    """
    Once, and the decision is still the store's.
    """
    limiter = make("50/hour")
    limiter.check("key")
    server.command("SCRIPT", "FLUSH")
    with Watch(server, prefix) as watch:
        said = [limiter.check("key") for _ in range(3)]

    assert [48, 47, 46] == [decision.remaining for decision in said]
    assert [False] * 3 == [decision.degraded for decision in said]
    # A thread that is alone leaves what is not plain to the other way, which is told the same again.
    assert watch.names in (["evalsha", "eval", "evalsha", "evalsha"], ["evalsha", "evalsha", "eval", "evalsha", "evalsha"])
