"""
A limiter from its start, with the store or without it, to its end.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from tidegate import Limiter
from tidegate.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Eventually
    from tests.redis.conftest import Make, MakeRules
    from tests.servers import Fake, Proxy, Single
else:
    from servers import Fake, Proxy, Single

BUDGET = 0.05
"""For stores that do not answer."""


def is_decided_by_the_store(limiter: Limiter) -> bool:
    """
    Whether the store is asked again.
    """
    return limiter.health().status == "ok" and not limiter.peek("nobody").degraded


# --- Without the store ------------------------------------------------------------------------------------------------------------------


def test_a_limiter_starts_without_its_store_and_heals(make: Make, eventually: Eventually) -> None:
    """
    At once, with decisions of its own; when the server comes, it is the server that counts.
    """
    with Single() as server:
        server.kill()
        before = time.monotonic()  # noqa: TID251 - how long a start takes
        limiter = make("5/hour", store=f"{server.url()}?connect_timeout=60s")
        took = time.monotonic() - before  # noqa: TID251 - as above

        # Much less than connecting may take, and more than a busy machine stands still.
        assert took < 10
        assert "down" == limiter.health().status
        assert [True] * 5 + [False] * 2 == [limiter.check("alone").allowed for _ in range(7)]

        server.restart()
        eventually(lambda: is_decided_by_the_store(limiter), 20)
        other = make("5/hour", store=server.url())
        admitted = [one.check("together") for one in (limiter, other) * 4]

        assert [True] * 5 + [False] * 3 == [decision.allowed for decision in admitted]
        assert not any(decision.degraded for decision in admitted)


def test_a_cluster_may_be_away_at_the_start(make: Make) -> None:
    """
    So may sentinels.
    """
    for address in ("redis+cluster://127.0.0.1:1", "redis+sentinel://127.0.0.1:1/mymaster"):
        limiter = make("5/hour", store=address, budget=BUDGET)

        assert [True] * 5 + [False] == [limiter.allow("key") for _ in range(6)]


def test_a_store_that_never_answers_holds_up_the_start_for_no_longer_than_connecting_may_take(make: Make) -> None:
    """
    And decisions no longer than the budget.
    """
    starts, decisions = [], []
    with Fake("silent") as fake:
        for _ in range(4):
            before = time.monotonic()  # noqa: TID251 - how long a start takes
            limiter = make("5/hour", store=f"{fake.url}?connect_timeout=200ms", budget=BUDGET)
            started = time.monotonic()  # noqa: TID251 - as above
            said = [limiter.check("key") for _ in range(20)]
            starts.append(started - before)
            decisions.append(time.monotonic() - started)  # noqa: TID251 - as above

            assert all(decision.degraded for decision in said)

    # A busy machine that stands still does not do so each time.
    assert min(starts) < 1
    assert min(decisions) < 20 * BUDGET + 0.5


def test_what_was_admitted_without_the_store_is_told_to_it(make: Make, eventually: Eventually) -> None:
    """
    It counts in the store afterwards, as if it had been asked.
    """
    with Single() as server, Proxy(server.port) as proxy:
        limiter = make("10/hour", store=proxy.url)
        limiter.check("key", 3)
        proxy.refuse()
        eventually(lambda: limiter.health().status == "down" or not limiter.peek("nobody"))
        said = [limiter.check("key") for _ in range(4)]
        proxy.pass_through()
        eventually(lambda: is_decided_by_the_store(limiter) and limiter.health().owed == 0, 20)
        witness = make("10/hour", store=server.url())

        assert [True] * 4 == [decision.allowed for decision in said]
        # A debit that is on its way is not owed any more, and may not have arrived yet.
        eventually(lambda: witness.peek("key").remaining == 10 - 3 - 4)


def test_instances_at_the_start_share_what_they_are_told(make: Make) -> None:
    """
    Who never saw the store cannot count the others: the option says how many they are.
    """
    limiter = make("100/hour", store="redis://127.0.0.1:1", instances=4, budget=BUDGET)

    assert 25 == sum(limiter.allow("key") for _ in range(100))


# --- The end ----------------------------------------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[Limiter], object]] = {
    "check": lambda limiter: limiter.check("key"),
    "allow": lambda limiter: limiter.allow("key"),
    "peek": lambda limiter: limiter.peek("key"),
    "debit": lambda limiter: limiter.debit("key", 1),
    "reset": lambda limiter: limiter.reset("key"),
    "wait": lambda limiter: limiter.wait("key"),
    "load": lambda limiter: limiter.load("6/hour"),
    "check_async": lambda limiter: asyncio.run(limiter.check_async("key")),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_closed_limiter_answers_nothing(call: Callable[[Limiter], object], url: str) -> None:
    """
    A second `close` is none.
    """
    limiter = Limiter("5/hour", store=url)
    limiter.close()
    limiter.close()

    assert limiter.closed
    with pytest.raises(UsageError, match="closed"):
        call(limiter)


def test_what_was_counted_outlives_the_limiter(url: str, make: Make) -> None:
    """
    The counters are the store's.
    """
    with Limiter("5/hour", store=url, budget=5) as limiter:
        limiter.check("key", 3)

    assert 2 == make("5/hour").peek("key").remaining


def test_closing_ends_the_connection(server: Single, prefix: str, eventually: Eventually) -> None:
    """
    So does forgetting the limiter.
    """
    name = f"client_name={prefix}closing"
    closed = Limiter("5/hour", store=f"{server.url()}?{name}")
    forgotten = Limiter("5/hour", store=f"{server.url()}?{name}")

    def connections() -> int:
        clients = server.command("CLIENT", "LIST")
        assert isinstance(clients, bytes)
        return clients.count(f"name={prefix}closing ".encode())

    assert connections() in (1, 2)  # limiters of one process may share theirs
    closed.close()
    assert forgotten.check("key").allowed
    del forgotten
    eventually(lambda: connections() == 0)


def test_a_limiter_that_was_closed_while_tasks_wait_answers_them(make: Make) -> None:
    """
    Nobody waits for ever.
    """
    with Fake("silent") as fake:
        limiter = make("5/hour", store=f"{fake.url}?connect_timeout=100ms", budget=1)

        async def close_meanwhile() -> list[object]:
            waiting = [asyncio.ensure_future(limiter.check_async(f"key {number}")) for number in range(10)]
            await asyncio.wait(waiting, timeout=0.01)
            limiter.close()
            return list(await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), timeout=10))

        assert 10 == len(asyncio.run(close_meanwhile()))


def test_rules_start_without_their_store_and_end_as_well(make_rules: MakeRules) -> None:
    """
    As limiters of keys do.
    """
    limiter = make_rules("{name: a, per: client, quotas: 2/hour}", store="redis://127.0.0.1:1", budget=BUDGET)

    assert [True, True, False] == [limiter.allow({"client": "a"}) for _ in range(3)]
    assert "down" == limiter.health().status
    limiter.close()
    with pytest.raises(UsageError, match="closed"):
        limiter.check({"client": "a"})
