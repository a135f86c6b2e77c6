"""
Who is denied costs the store nothing, is told the truth, and is admitted when it was told.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.redis.conftest import Make, MakeRules
    from tests.redis.traffic import Watch, calls
    from tests.servers import Single
else:
    from traffic import Watch, calls

QUOTAS = {
    "sliding_window": "3/hour",
    "sliding_window_log": "3/hour sliding_window_log",
    "sliding_window_counter": "3/hour sliding_window_counter",
    "fixed_window": "3/year calendar",
    "gcra": "3/hour burst 3",
    "several": "3/hour, 9/day",
}
for_every_algorithm = pytest.mark.parametrize("quotas", QUOTAS.values(), ids=QUOTAS)


@for_every_algorithm
def test_a_denied_key_costs_the_store_nothing(quotas: str, make: Make, server: Single) -> None:
    """
    10,000 checks of an attacker, and the server has not run one command more.
    """
    limiter = make(quotas)
    for _ in range(5):
        limiter.check("attacker")
    before = calls(server)

    assert not any(limiter.allow("attacker") for _ in range(10_000))
    assert before == calls(server)
    assert limiter.health().deny_cache_hits >= 10_000
    assert (3, 10_002) == (limiter.stats().allowed, limiter.stats().denied)


async def test_a_denied_key_costs_the_store_nothing_in_tasks(make: Make, server: Single) -> None:
    """
    Not even a turn of the loop.
    """
    limiter = make("3/hour")
    await asyncio.gather(*(limiter.check_async("attacker") for _ in range(10)))
    before = calls(server)
    said = [await limiter.check_async("attacker") for _ in range(1_000)]

    assert not any(decision.allowed for decision in said)
    assert before == calls(server)


def test_a_denied_request_costs_the_store_nothing_under_rules(make_rules: MakeRules, server: Single) -> None:
    """
    Whichever of its rules denies.
    """
    limiter = make_rules("{name: clients, per: client, quotas: 2/hour}, {name: everybody, per: global, quotas: 3/hour}")
    for client in ("ada", "ada", "ada", "bob", "bob"):
        limiter.check({"client": client})
    before = calls(server)
    said = [limiter.check({"client": client}) for client in ("ada", "bob") for _ in range(500)]

    assert {False} == {decision.allowed for decision in said}
    assert {"clients", "everybody"} >= {decision.rule for decision in said}
    assert before == calls(server)


@for_every_algorithm
def test_the_wait_that_is_told_shrinks(quotas: str, make: Make) -> None:
    """
    It ends at the same instant, however often somebody asks.
    """
    limiter = make(quotas)
    for _ in range(3):
        limiter.check("key")
    told = [limiter.check("key").retry_after_ns for _ in range(50)]

    assert all(one is not None and other is not None and one > other for one, other in itertools.pairwise(told))
    fresh = make(quotas, deny_cache=0).check("key").retry_after_ns
    assert fresh is not None
    assert told[-1] is not None
    assert abs(fresh - told[-1]) < 5 * 10**9


@pytest.mark.parametrize(
    "quotas", ["2/300ms", "2/300ms sliding_window_log", "2/300ms fixed_window", "2/300ms burst 2", "2/300ms leaky_bucket"]
)
def test_who_waits_as_long_as_told_is_admitted(quotas: str, make: Make, eventually: Eventually) -> None:
    """
    The cache forgets no earlier and no later than it said.
    """
    limiter = make(quotas)
    while limiter.check("key").allowed:
        pass
    was_remembered = False

    def is_admitted_after_a_denial_by_the_cache() -> bool:
        # A machine that stands still may let a whole window pass unseen: then the next one is used up.
        nonlocal was_remembered
        is_admitted = limiter.allow("key")
        is_over = is_admitted and was_remembered
        was_remembered = not is_admitted and limiter.health().deny_cache_hits > 0
        return is_over

    eventually(is_admitted_after_a_denial_by_the_cache, within=5)


def test_another_cost_is_asked(make: Make) -> None:
    """
    What is too much for three may be enough for one.
    """
    limiter = make("5/hour")
    limiter.check("key", 3)

    assert [False, False, True, True, False] == [limiter.allow("key", cost) for cost in (3, 3, 1, 1, 1)]


def test_another_key_is_asked(make: Make) -> None:
    """
    A denial is that of one key.
    """
    limiter = make("1/hour")
    limiter.check("a")

    assert [False, True] == [limiter.allow("a"), limiter.allow("b")]


def test_a_higher_limit_is_in_force_at_once(make: Make) -> None:
    """
    And the old one again, with what it denied before.
    """
    limiter = make("2/hour")
    before = [limiter.allow("key") for _ in range(4)]
    limiter.load("5/hour")
    between = [limiter.allow("key") for _ in range(4)]
    limiter.load("2/hour")

    assert [True, True, False, False] == before
    assert [True, True, True, False] == between
    assert not limiter.allow("key")


def test_another_plan_is_in_force_at_once(make_rules: MakeRules) -> None:
    """
    A client that buys more is not denied by what it had.
    """
    limiter = make_rules("{name: a, per: client, quotas: 2/hour, tiers: {pro: 4/hour}}")

    assert [True, True, False] == [limiter.allow({"client": "ada"}) for _ in range(3)]
    assert [True, True, False] == [limiter.allow({"client": "ada", "tier": "pro"}) for _ in range(3)]


def test_a_refund_lifts_a_denial(make: Make) -> None:
    """
    That of this limiter, at once.
    """
    limiter = make("2/hour")
    receipts = [limiter.check("key") for _ in range(2)]

    assert not limiter.allow("key")
    limiter.refund("key", receipts[0])
    assert [True, False] == [limiter.allow("key") for _ in range(2)]


def test_a_settlement_lifts_a_denial(make: Make) -> None:
    """
    When it gives back.
    """
    limiter = make("5/hour")
    receipt = limiter.reserve("key", 5)

    assert not limiter.allow("key")
    limiter.settle("key", receipt, 3)
    assert [True, True, False] == [limiter.allow("key") for _ in range(3)]


def test_a_reset_lifts_a_denial(make: Make, make_rules: MakeRules) -> None:
    """
    By key, and by request.
    """
    limiter = make("2/hour")
    by_rules = make_rules("{name: a, per: client, quotas: 2/hour}")

    assert [True, True, False] == [limiter.allow("key") for _ in range(3)]
    limiter.reset("key")
    assert [True, True, False] == [limiter.allow("key") for _ in range(3)]
    assert [True, True, False] == [by_rules.allow({"client": "ada"}) for _ in range(3)]
    by_rules.reset({"client": "ada"})
    assert by_rules.allow({"client": "ada"})


def test_a_peek_is_always_asked(make: Make, server: Single, prefix: str) -> None:
    """
    It says what is true now, whoever changed it.
    """
    limiter, other = make("2/hour"), make("2/hour", deny_cache=0)
    receipt = other.check("key", 2)
    limiter.peek("warm")

    assert not limiter.allow("key")
    other.refund("key", receipt)
    with Watch(server, prefix) as watch:
        assert (True, 2) == ((seen := limiter.peek("key")).allowed, seen.remaining)
    assert ["evalsha"] == watch.names


def test_slots_are_always_asked_for(make: Make) -> None:
    """
    Nobody knows when another process gives one back.
    """
    limiter, other = make("1 concurrent"), make("1 concurrent")
    held = other.check("key")

    assert not limiter.allow("key")
    other.release("key", held)
    assert limiter.allow("key")


def test_what_others_reset_is_seen_at_the_latest_after_ten_seconds(make: Make, eventually: Eventually) -> None:
    """
    Until then this process denies too much, never too little.
    """
    limiter, other = make("2/hour"), make("2/hour")
    while limiter.allow("key"):
        pass
    other.reset("key")

    eventually(lambda: limiter.allow("key"), within=15)


def test_the_cache_can_be_switched_off(make: Make, server: Single, prefix: str) -> None:
    """
    Then every denial is the store's.
    """
    limiter = make("2/hour", deny_cache=0)
    limiter.check("key", 2)
    with Watch(server, prefix) as watch:
        assert not any(limiter.allow("key") for _ in range(20))

    assert ["evalsha"] * 20 == watch.names
    assert 0 == limiter.health().deny_cache_hits


def test_a_full_cache_asks_more_often_and_is_never_wrong(make: Make) -> None:
    """
    A small one, and many attackers.
    """
    limiter = make("1/hour", deny_cache=512)
    first = [limiter.allow(f"attacker {number}") for number in range(2_000)]
    again = [limiter.allow(f"attacker {number}") for number in range(2_000) for _ in range(2)]

    assert [True] * 2_000 == first
    assert not any(again)
    assert limiter.health().deny_cache_hits > 0
