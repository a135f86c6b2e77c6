"""
A value under one of our keys that is not ours: it is left alone and reported, and the policy decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.redis.conftest import Make, MakeRules
    from tests.servers import Single

ALGORITHMS = {
    "sliding_window": "5/hour",
    "sliding_window_log": "5/hour sliding_window_log",
    "sliding_window_counter": "5/hour sliding_window_counter",
    "sliding_window_ring": "5/hour sliding_window_counter buckets 6",
    "fixed_window": "5/year calendar",
    "gcra": "5/hour burst 5",
    "leaky_bucket": "5/hour queue 1h",
    "concurrency": "5 concurrent",
}
VALUES: dict[str, tuple[str | bytes | int, ...]] = {
    "text": ("SET", "KEY", "hello"),
    "empty text": ("SET", "KEY", ""),
    "number": ("SET", "KEY", 12),
    "bytes": ("SET", "KEY", b"\x01" * 40),
    "long": ("SET", "KEY", b"\x00" * 100_000),
    "list": ("RPUSH", "KEY", "a"),
    "hash": ("HSET", "KEY", "a", "b"),
    "sorted set": ("ZADD", "KEY", 1, "a"),
}
TEXT = VALUES["text"]


def counters(server: Single, prefix: str) -> list[bytes]:
    """
    The keys of counters under a prefix.
    """
    keys = server.command("KEYS", f"{prefix}*")
    assert isinstance(keys, list)
    return sorted(key for key in keys if isinstance(key, bytes) and b"{instances}" not in key)


def put(server: Single, key: bytes, command: tuple[str | bytes | int, ...]) -> object:
    """
    Puts something else under a key; returns all of it.
    """
    server.command("DEL", key)
    server.command(*(key if word == "KEY" else word for word in command))
    return server.command("DUMP", key)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("quotas", ALGORITHMS.values(), ids=ALGORITHMS)
def test_a_foreign_value_is_reported_and_left_alone(
    quotas: str, value: tuple[str | bytes | int, ...], make: Make, server: Single, prefix: str
) -> None:
    """
    Whatever it is, and whatever is asked.
    """
    limiter = make(quotas)
    receipt = limiter.check("key")
    (key,) = counters(server, prefix)
    before = put(server, key, value)
    said = [limiter.check("key"), limiter.peek("key"), limiter.debit("key", 1), limiter.check("key", 2)]

    assert {(True, "store_foreign_value")} == {(decision.degraded, decision.reason) for decision in said}
    limiter.refund("key", receipt)
    assert before == server.command("DUMP", key)
    assert [key] == counters(server, prefix)


@pytest.mark.parametrize(("policy", "allowed"), [("allow", True), ("deny", False)])
def test_the_policy_decides(policy: str, allowed: bool, make: Make, server: Single, prefix: str) -> None:
    """
    As it does when there is no answer at all.
    """
    limiter = make("5/hour", on_store_error=policy)
    limiter.check("key")
    put(server, counters(server, prefix)[0], TEXT)

    assert [allowed] * 10 == [limiter.check("key").allowed for _ in range(10)]


def test_local_goes_on_from_what_the_store_said_last(make: Make, server: Single, prefix: str) -> None:
    """
    One instance alone: what was left is admitted, and no more.
    """
    limiter = make("5/hour")
    limiter.check("key", 2)
    put(server, counters(server, prefix)[0], TEXT)

    assert [True, True, True, False, False] == [limiter.check("key").allowed for _ in range(5)]


def test_a_foreign_value_is_a_matter_of_its_key(make: Make, server: Single, prefix: str) -> None:
    """
    Thousands of them open no breaker: the other keys are decided by the store.
    """
    limiter = make("1000/hour")
    limiter.check("key")
    put(server, counters(server, prefix)[0], TEXT)
    said = [limiter.check(key) for _ in range(500) for key in ("key", "other")]

    assert {"store_foreign_value": 500} == limiter.health().degraded
    assert not any(decision.degraded for decision in said[1::2])
    assert 500 == said[-1].remaining


def test_nothing_is_charged_beside_a_foreign_value(make: Make, server: Single, prefix: str) -> None:
    """
    All quotas or none, also in this case.
    """
    limiter = make("5/hour, 50/hour fixed_window")
    limiter.check("key")
    keys = counters(server, prefix)
    put(server, keys[0], TEXT)
    before = server.command("DUMP", keys[1])
    limiter.check("key")

    assert before == server.command("DUMP", keys[1])


def test_a_rule_says_what_happens(make_rules: MakeRules, server: Single, prefix: str) -> None:
    """
    Each its own policy.
    """
    limiter = make_rules("{name: strict, per: client, quotas: 5/hour, on_store_error: deny}")
    limiter.check({"client": "a"})
    put(server, counters(server, prefix)[0], TEXT)
    decision = limiter.check({"client": "a"})

    assert (False, True, "store_foreign_value") == (decision.allowed, decision.degraded, decision.reason)


def test_what_is_put_away_is_counted_again(make: Make, server: Single, prefix: str) -> None:
    """
    Nobody has to restart anything.
    """
    limiter = make("5/hour")
    limiter.check("key")
    (key,) = counters(server, prefix)
    put(server, key, TEXT)
    limiter.check("key")
    server.command("DEL", key)

    assert not limiter.check("key").degraded


def test_a_reset_removes_it(make: Make, server: Single, prefix: str) -> None:
    """
    It was asked for by name.
    """
    limiter = make("5/hour")
    limiter.check("key")
    put(server, counters(server, prefix)[0], TEXT)

    assert limiter.reset("key")
    assert (4, False) == ((decision := limiter.check("key")).remaining, decision.degraded)


def test_health_says_what_to_do(make: Make, server: Single, prefix: str) -> None:
    """
    The store is well; somebody writes under our prefix.
    """
    limiter = make("5/hour")
    limiter.check("key")
    put(server, counters(server, prefix)[0], TEXT)
    limiter.check("key")
    health = limiter.health()

    assert ("ok", {"store_foreign_value": 1}) == (health.status, health.degraded)
    assert any("prefix" in warning for warning in health.warnings), health.warnings
