"""
What is decided without the store, by policy, and what becomes of it when the store is back.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tests.redis.conftest import Make, MakeRules
    from tests.servers import Proxy, Single
else:
    from servers import Proxy

PATIENCE_S = 2.0
"""A budget that a busy machine does not use up. Who is refused a connection does not wait for it."""
BRIEF_S = 0.5
"""The same for tests that wait for its end: a stall of the machine is shorter."""

RULES = """
  {name: reads, match: {path: /read}, per: client, quotas: 10/hour, on_store_error: allow},
  {name: logins, match: {path: /login}, per: client, quotas: 10/hour, on_store_error: deny},
  {name: orders, match: {path: /order}, per: client, quotas: 10/hour, on_store_error: local},
  {name: others, match: {path: /other}, per: client, quotas: 10/hour},
"""


@pytest.fixture
def proxy(server: Single) -> Iterator[Proxy]:
    """
    A way to the shared server that can be broken.
    """
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def direct(server: Single, prefix: str) -> str:
    """
    The way that is never broken.
    """
    return f"{server.url()}?prefix={prefix}"


@pytest.fixture
def url(proxy: Proxy, prefix: str) -> str:
    """
    The way that can be broken, which limiters go by default.
    """
    return f"{proxy.url}?prefix={prefix}"


@pytest.mark.parametrize(("policy", "admitted"), [("local", 6), ("allow", 20), ("deny", 0)])
def test_each_policy_admits_what_it_says(proxy: Proxy, make: Make, policy: str, admitted: int) -> None:
    """
    `local` what is left, `allow` everything, `deny` nothing; all of them say that the store was not asked.
    """
    limiter = make("10/hour", on_store_error=policy, budget=PATIENCE_S)
    assert [limiter.check("a").remaining for _ in range(4)] == [9, 8, 7, 6]

    proxy.refuse()
    decisions = [limiter.check("a") for _ in range(20)]

    assert admitted == sum(decision.allowed for decision in decisions)
    assert all(decision.degraded for decision in decisions)
    assert all(decision.reason in {"store_unavailable", "store_timeout", "store_breaker_open"} for decision in decisions)


@pytest.mark.parametrize(
    ("path", "default", "admitted"),
    [
        ("/read", "deny", 20),
        ("/login", "allow", 0),
        ("/order", "deny", 6),
        ("/other", "deny", 0),
        ("/other", "allow", 20),
        ("/other", "local", 6),
    ],
)
def test_a_rule_has_a_policy_of_its_own(proxy: Proxy, make_rules: MakeRules, path: str, default: str, admitted: int) -> None:
    """
    Else the limiter's.
    """
    limiter = make_rules(RULES, on_store_error=default, budget=PATIENCE_S)
    request = {"path": path, "client": "ada"}
    assert [limiter.check(request).remaining for _ in range(4)] == [9, 8, 7, 6]

    proxy.refuse()
    decisions = [limiter.check(request) for _ in range(20)]

    assert admitted == sum(decision.allowed for decision in decisions)
    assert all(decision.degraded for decision in decisions)


@pytest.mark.parametrize(
    "quota",
    ["100/hour", "100/hour fixed_window", "100/hour sliding_window_counter", "100/hour sliding_window_log", "1/hour burst 100"],
)
def test_what_was_admitted_without_the_store_is_charged_when_it_is_back(
    direct: str, proxy: Proxy, make: Make, eventually: Eventually, quota: str
) -> None:
    """
    Another process then sees it.
    """
    limiter = make(quota, budget=PATIENCE_S)
    assert all(limiter.check("a") for _ in range(10))
    proxy.refuse()
    assert all(limiter.check("a").degraded for _ in range(30))
    assert 1 == limiter.health().owed

    proxy.pass_through()
    eventually(lambda: limiter.health().status == "ok" and limiter.health().owed == 0, 20)

    other = make(quota, store=direct)
    eventually(lambda: other.peek("a").remaining == 60)


def test_a_key_that_comes_back_at_once_has_not_more_than_the_rule(server: Single, proxy: Proxy, make: Make, eventually: Eventually) -> None:
    """
    What is owed is charged before the store is asked again, also if the server knows the script of checks only.
    """
    limiter = make("100/hour", budget=BRIEF_S)
    before = sum(limiter.check("a").allowed for _ in range(50))
    proxy.silence()
    during = sum(limiter.check("a").allowed for _ in range(200))
    proxy.pass_through()
    server.command("SCRIPT", "FLUSH")
    eventually(lambda: limiter.health().status == "ok", 20)
    assert limiter.check("b")
    after = sum(limiter.check("a").allowed for _ in range(200))

    assert (50, 50, 0) == (before, during, after)


def test_a_second_outage_does_not_forget_what_the_store_counted_since_the_first(proxy: Proxy, make: Make, eventually: Eventually) -> None:
    """
    It starts with what the store last said, not with what the first left here.
    """
    limiter = make("100/hour", budget=PATIENCE_S)
    admitted = sum(limiter.check("a").allowed for _ in range(10))
    proxy.refuse()
    admitted += sum(limiter.check("a").allowed for _ in range(10))
    proxy.pass_through()
    eventually(lambda: limiter.health().status == "ok" and limiter.health().owed == 0, 20)
    admitted += sum(limiter.check("a").allowed for _ in range(70))
    assert 90 == admitted

    proxy.refuse()

    assert 10 == sum(limiter.check("a").allowed for _ in range(200))


def test_a_bucket_that_the_store_left_empty_fills_here_at_its_rate(proxy: Proxy, make: Make, eventually: Eventually) -> None:
    """
    What the store last said is where it starts, and not where it stays: the fill time would be a minute.
    """
    limiter = make("2/second burst 120", budget=PATIENCE_S)
    assert limiter.check("a", 120)
    proxy.refuse()
    assert limiter.check("a").degraded

    eventually(lambda: limiter.check("a").allowed)
    eventually(lambda: limiter.check("a").allowed)


def test_late_answers_are_folded_in(direct: str, proxy: Proxy, make: Make, eventually: Eventually) -> None:
    """
    What the store charged although nobody waited for its answer is not charged again.
    """
    limiter = make("100/hour", budget=BRIEF_S)
    assert not limiter.check("a").degraded
    proxy.black_hole()
    late = [limiter.check("a") for _ in range(3)]
    assert {"store_timeout"} == {decision.reason for decision in late}

    proxy.pass_through()
    eventually(lambda: 3 == limiter.health().late_answers and 0 == limiter.health().owed)

    assert 96 == make("100/hour", store=direct).peek("a").remaining


def test_a_late_denial_is_remembered(direct: str, proxy: Proxy, make: Make, eventually: Eventually) -> None:
    """
    The next caller is denied without another question.
    """
    limiter, other = make("5/hour", budget=BRIEF_S), make("5/hour", store=direct)
    assert not limiter.check("a").degraded
    assert other.check("a", 4)
    proxy.black_hole()
    assert limiter.check("a").degraded
    proxy.pass_through()
    eventually(lambda: 1 == limiter.health().late_answers)

    decision = limiter.check("a")

    assert not decision
    assert not decision.degraded
    assert 1 == limiter.health().deny_cache_hits


def test_a_foreign_value_is_reported_and_not_overwritten(server: Single, url: str, prefix: str, make: Make) -> None:
    """
    Its key follows the policy; other keys, and the breaker, do not care.
    """
    limiter = make("10/hour", store=url, on_store_error="deny")
    assert limiter.check("a")
    [key] = keys_of(server, prefix)
    server.command("DEL", key)
    server.command("RPUSH", key, "mine")

    decisions = [limiter.check("a") for _ in range(50)]

    assert {(False, "store_foreign_value")} == {(decision.allowed, decision.reason) for decision in decisions}
    assert [b"mine"] == server.command("LRANGE", key, 0, -1)
    assert "ok" == limiter.health().status
    assert 9 == limiter.check("b").remaining
    assert {"store_foreign_value": 50} == limiter.health().degraded == limiter.stats().degraded_by


def test_a_hundred_outages_leave_no_threads_and_no_files(
    server: Single, proxy: Proxy, url: str, make: Make, eventually: Eventually
) -> None:
    """
    Whatever was begun when a connection was lost ends.

    Twenty limiters lose theirs five times: one alone would take its time to connect again.
    """
    limiters = [make("1000000/hour", store=f"{url}&client_name=many", budget=PATIENCE_S) for _ in range(20)]
    # Each has a second connection for a thread that is alone, made for the call after the one that missed it.
    # The server knows its name when all files on the way there are open.
    eventually(lambda: all(limiter.check("a") for limiter in limiters) and connections(server, "many") == 2 * len(limiters))
    before = resources()

    for _ in range(5):
        accepted = proxy.accepted
        proxy.reset()
        assert all(limiter.check("a") for limiter in limiters)
        eventually(lambda accepted=accepted: proxy.accepted >= accepted + 20)  # type: ignore[misc] # mypy infers no lambda with a default

    eventually(lambda: all(limiter.health().status == "ok" for limiter in limiters), 20)
    eventually(lambda: all(limiter.check("a") for limiter in limiters) and before == resources(), 20)


def keys_of(server: Single, prefix: str) -> list[bytes]:
    """
    The keys of a test, without the heartbeats.
    """
    found = server.command("KEYS", f"{prefix}*")
    assert isinstance(found, list)
    return [key for key in found if isinstance(key, bytes) and server.command("TYPE", key) == "string"]


def connections(server: Single, name: str) -> int:
    """
    How many connections of a name have reached the server.
    """
    clients = server.command("CLIENT", "LIST")
    assert isinstance(clients, bytes)
    return clients.count(f"name={name} ".encode())


def resources() -> tuple[int, int, int]:
    """
    Threads of Python, threads of the process, and open files.
    """
    return threading.active_count(), len(list(Path("/proc/self/task").iterdir())), len(list(Path("/proc/self/fd").iterdir()))
