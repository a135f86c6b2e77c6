"""
However many ask at once, and wherever they run, exactly as many pass as the quota says.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tidegate import Quota

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.redis.conftest import Make, MakeRules
    from tests.redis.crowd import Job, Outcome, press
    from tests.servers import Sentinel, Single
else:
    from crowd import Job, Outcome, press

LIMIT = 100

QUOTAS = {
    "sliding_window": "100/hour",
    "sliding_window_log": "100/hour sliding_window_log",
    "sliding_window_counter": "100/hour sliding_window_counter",
    "sliding_window_ring": "100/hour sliding_window_counter buckets 6",
    "fixed_window": "100/year calendar",
    "gcra": "1/day burst 100",
    "leaky_bucket": "1/day nodelay 99",
    "concurrency": "100 concurrent ttl 1h",
}
for_every_algorithm = pytest.mark.parametrize("quotas", QUOTAS.values(), ids=QUOTAS)

CLIENTS = "{name: clients, per: client, quotas: 30/hour}"
EVERYBODY = "{name: everybody, per: global, quotas: 100/hour}"


def rule_file(*rules: str) -> str:
    """
    A rule file.
    """
    return f"version: 1\nrules: [{', '.join(rules)}]"


@for_every_algorithm
def test_processes_and_threads_are_admitted_exactly_as_often_as_the_limit_says(quotas: str, url: str) -> None:
    """
    4 processes x 8 threads on one key, every denial by the store.
    """
    assert Outcome(LIMIT, 0) == press(Job(store=url, quotas=quotas, subjects=["key"]))


@pytest.mark.parametrize("quotas", ["100/hour", "1/day burst 100"])
def test_remembered_denials_cost_nobody_an_admission(quotas: str, url: str) -> None:
    """
    The same with the cache of denials on.
    """
    assert Outcome(LIMIT, 0) == press(Job(store=url, quotas=quotas, subjects=["key"], deny_cache=65_536))


def test_every_server_counts_exactly(every_server: Single, prefix: str) -> None:
    """
    Older ones, too.
    """
    job = Job(store=f"{every_server.url()}?prefix={prefix}", quotas="100/hour, 1/day burst 120", subjects=["key"])

    assert Outcome(LIMIT, 0) == press(job)


def test_a_primary_that_sentinels_name_counts_exactly(sentinel: Sentinel, prefix: str) -> None:
    """
    The address of the sentinels is all that is told.
    """
    separator = "&" if "?" in sentinel.url() else "?"

    assert Outcome(LIMIT, 0) == press(Job(store=f"{sentinel.url()}{separator}prefix={prefix}", quotas="100/hour", subjects=["key"]))


def test_a_cluster_counts_exactly(cluster_url: str) -> None:
    """
    Keys on all servers, each with a limit of its own.
    """
    job = Job(store=cluster_url, quotas="20/hour, 25/day", subjects=[f"key {number}" for number in range(5)])

    assert Outcome(5 * 20, 0) == press(job)


@pytest.mark.parametrize("quotas", ["150/hour, 100/day", "100/hour, 150/day", "150/hour; 1/day burst 100; 120 concurrent ttl 1h"])
def test_several_quotas_admit_exactly_what_the_smallest_does(quotas: str, url: str) -> None:
    """
    All of them are charged, or none.
    """
    assert Outcome(LIMIT, 0) == press(Job(store=url, quotas=quotas, subjects=["key"]))


@pytest.mark.parametrize(("clients", "admitted"), [(2, 60), (5, 100)])
def test_several_rules_admit_exactly_what_the_smallest_does(clients: int, admitted: int, url: str) -> None:
    """
    A limit for each client and one for everybody, on one server.
    """
    subjects = [{"client": f"client {number}"} for number in range(clients)]

    assert Outcome(admitted, 0) == press(Job(store=url, rule_file=rule_file(CLIENTS, EVERYBODY), subjects=subjects))


def test_rules_on_different_servers_never_admit_more_than_either(cluster_url: str, make_rules: MakeRules) -> None:
    """
    And what was taken in vain is given back: afterwards one caller gets what the crowd has left.
    """
    subjects = [{"client": f"client {number}"} for number in range(6)]
    crowd = press(Job(store=cluster_url, rule_file=rule_file(CLIENTS, EVERYBODY), subjects=subjects))
    limiter = make_rules(f"{CLIENTS}, {EVERYBODY}", store=cluster_url, deny_cache=0)
    left = sum(limiter.allow(subject) for subject in subjects for _ in range(LIMIT))

    assert 0 == crowd.degraded
    assert LIMIT == crowd.admitted + left


def test_a_narrow_rule_on_another_server_is_exact(cluster_url: str) -> None:
    """
    It is asked first, so that nothing has to be given back where many are counted.
    """
    subjects = [{"client": "a"}, {"client": "b"}]

    assert Outcome(60, 0) == press(Job(store=cluster_url, rule_file=rule_file(CLIENTS, EVERYBODY), subjects=subjects))


def test_what_a_wide_rule_denies_is_given_back_to_the_narrow_one(cluster_url: str, make_rules: MakeRules, eventually: Eventually) -> None:
    """
    A client that everybody else crowded out has lost nothing of its own.
    """
    limiter = make_rules(f"{CLIENTS}, {{name: everybody, per: global, quotas: 5/hour}}", store=cluster_url, deny_cache=0)
    admitted = sum(limiter.allow({"client": f"client {number}"}) for number in range(50))
    narrow = make_rules(CLIENTS, store=cluster_url)

    def left() -> int:
        return sum(narrow.peek({"client": f"client {number}"}).remaining or 0 for number in range(50))

    assert 5 == admitted
    eventually(lambda: left() >= 50 * 30 - 5)
    assert 50 * 30 - 5 == left()


@for_every_algorithm
async def test_tasks_are_admitted_exactly_as_often_as_the_limit_says(quotas: str, make: Make) -> None:
    """
    500 tasks on one key.
    """
    limiter = make(quotas, deny_cache=0)
    said = await asyncio.gather(*(limiter.check_async("key") for _ in range(500)))

    assert (LIMIT, 0) == (sum(decision.allowed for decision in said), sum(decision.degraded for decision in said))
    assert (LIMIT, 400) == (limiter.stats().allowed, limiter.stats().denied)


async def test_tasks_of_rules_are_admitted_exactly(make_rules: MakeRules) -> None:
    """
    Whole requests, two rules.
    """
    limiter = make_rules(f"{CLIENTS}, {EVERYBODY}")
    said = await asyncio.gather(*(limiter.check_async({"client": f"client {number % 5}"}) for number in range(500)))

    assert LIMIT == sum(decision.allowed for decision in said)


def test_limiters_with_the_same_quotas_share_their_counters(make: Make) -> None:
    """
    As they do in different processes.
    """
    one, other = make("5/hour"), make("5/hour")

    assert [True, True, True, True, True, False] == [limiter.allow("key") for limiter in (one, other) * 3]


def test_limiters_share_their_counters_over_a_change_of_the_limit(make: Make) -> None:
    """
    While a new limit is rolled out, both count the same requests.
    """
    old, new = make("5/hour"), make("8/hour")
    admitted = [old.allow("key") for _ in range(6)]

    assert ([True] * 5 + [False], 3) == (admitted, new.peek("key").remaining)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Quota.parse("5/hour"), Quota.parse("5/minute")),
        (Quota.parse("5/hour"), Quota.parse("5/hour fixed_window")),
        (Quota(limit=5, period="1h", name="one"), Quota(limit=5, period="1h", name="other")),
    ],
    ids=["window", "algorithm", "name"],
)
def test_limiters_with_other_quotas_do_not_share_their_counters(one: Quota, other: Quota, make: Make) -> None:
    """
    Another window, another algorithm or another name.
    """
    limiter = make(one)

    assert 5 == sum(limiter.allow("key") for _ in range(6))
    assert 5 == make(other).peek("key").remaining


def test_different_rules_do_not_share_their_counters(make_rules: MakeRules) -> None:
    """
    Although they say the same of the same client; rules of the same name do.
    """
    one = make_rules("{name: one, per: client, quotas: 5/hour}")
    other = make_rules("{name: other, per: client, quotas: 5/hour}")
    again = make_rules("{name: one, per: client, quotas: 5/hour}")

    assert 3 == sum(one.allow({"client": "a"}) for _ in range(3))
    assert [5, 2] == [limiter.peek({"client": "a"}).remaining for limiter in (other, again)]


def test_limiters_with_another_secret_do_not_share_their_counters(make: Make) -> None:
    """
    The names of their keys differ.
    """
    one, other = make("5/hour", secret="one"), make("5/hour", secret="other")

    assert [True] * 5 == [one.allow("key") for _ in range(5)]
    assert 5 == other.peek("key").remaining
