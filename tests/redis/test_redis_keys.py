"""
Keys of every kind, how they are named in the store, how long they stay there, and that nobody can read them there.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tidegate.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Eventually
    from tests.redis.conftest import Make, MakeRules
    from tests.redis.traffic import Watch
    from tests.servers import Cluster, Reply, Single
    from tidegate import Limiter
else:
    from servers import Single
    from traffic import Watch

MEGABYTE = 1 << 20

KEYS: dict[str, str | bytes] = {
    "1 MB": "k" * MEGABYTE,
    "1 MB of bytes": b"\xff" * MEGABYTE,
    "one character": "k",
    "NUL": "\0",
    "line breaks": "a\r\nb",
    "braces": "{a}",
    "closing brace": "}",
    "many braces": "{}{}{{}}",
    "binary": bytes(range(256)),
    "unicode": "東京 🌊",
    "lone surrogate": "\udcff",
    "protocol": "*1\r\n$8\r\nFLUSHALL\r\n",
    "quotes": "\"'\\",
    "space": " ",
    "pattern": "*?[a]",
}


def counters(server: Single, prefix: str) -> list[bytes]:
    """
    The keys of counters under a prefix.
    """
    return [key for key in texts(server.command("KEYS", f"{prefix}*")) if b"{instances}" not in key]


def texts(reply: Reply) -> list[bytes]:
    """
    A reply that is a list of texts.
    """
    assert isinstance(reply, list)
    return [one for one in reply if isinstance(one, bytes)]


def ttl_ms(server: Single, key: bytes) -> int:
    """
    How long a key stays, -1 for ever.
    """
    reply = server.command("PTTL", key)
    assert isinstance(reply, int)
    return reply


# --- Names ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_key_may_be_anything(key: str | bytes, make: Make, server: Single, prefix: str) -> None:
    """
    It is counted as every other, and its name in the store is as short.
    """
    limiter = make("2/hour")

    assert [True, True, False] == [limiter.allow(key) for _ in range(3)]
    assert [True] == [len(name) <= len(prefix) + 26 for name in counters(server, prefix)]
    assert limiter.reset(key)


def test_keys_that_look_alike_are_different(make: Make) -> None:
    """
    And a text is the same key as its bytes.
    """
    limiter = make("1/hour")

    assert all(limiter.allow(key) for key in ("a", "A", "a ", "{a}", "a\0", "a\u0301", "\u00e1"))
    assert not limiter.allow(b"a")


def test_keys_of_every_kind_find_their_server(cluster: Cluster, cluster_url: str, make: Make) -> None:
    """
    A digest can hold a closing brace, which would end the tag early: both counters of a key stay together.
    """
    limiter = make("2/hour, 3/day", store=cluster_url)

    assert not any(limiter.check(f"key {number}").degraded for number in range(300))


@pytest.mark.parametrize("key", ["", b"", None, 5, ["a"]], ids=repr)
def test_what_is_no_key_is_refused(key: object, make: Make) -> None:
    """
    As it is everywhere.
    """
    with pytest.raises(UsageError):
        make("2/hour").check(key)  # type: ignore[arg-type]


async def test_what_is_no_key_is_refused_by_tasks(make: Make) -> None:
    """
    In the same words.
    """
    with pytest.raises(UsageError):
        await make("2/hour").check_async("")


def test_a_prefix_keeps_limiters_apart(make: Make, server: Single, prefix: str) -> None:
    """
    Several services share one server.
    """
    one, other = (make("1/hour", store=f"{server.url()}?prefix={prefix}{name}") for name in "ab")

    assert [True, True, False, False] == [limiter.allow("key") for limiter in (one, other, one, other)]
    assert {prefix + "a", prefix + "b"} == {name[: len(prefix) + 1].decode() for name in counters(server, prefix)}


def test_the_prefix_is_tg_unless_said_otherwise(make: Make) -> None:
    """
    On a server of its own, where nothing else is.
    """
    with Single() as server:
        make("1/hour", store=server.url()).check("key")

        assert {b"tg:{"} == {name[:4] for name in texts(server.command("KEYS", "*"))}


def test_a_database_keeps_limiters_apart(make: Make, server: Single, prefix: str) -> None:
    """
    By its number, in both forms.
    """
    addresses = [f"{server.url(db=3)}?prefix={prefix}", f"{server.url()}?db=4&prefix={prefix}", f"{server.url()}?prefix={prefix}"]

    assert [True] * 3 == [make("1/hour", store=address).allow("key") for address in addresses]
    assert [False] * 3 == [make("1/hour", store=address).allow("key") for address in addresses]


def test_a_socket_leads_to_the_same_counters(make: Make, server: Single, prefix: str) -> None:
    """
    And a database can be chosen there, too.
    """
    one = make("2/hour", store=f"{server.unix_url(db=5)}&prefix={prefix}")
    other = make("2/hour", store=f"{server.url(db=5)}?prefix={prefix}")

    assert [True, True, False] == [limiter.allow("key") for limiter in (one, other, one)]
    assert 0 == one.stats().degraded


# --- Nobody can read them ---------------------------------------------------------------------------------------------------------------


def test_no_key_is_readable_in_the_store(make: Make, make_rules: MakeRules, server: Single, prefix: str) -> None:
    """
    Neither in names and values nor in what is sent.
    """
    limiter = make("5/hour; 5 concurrent; 5/day sliding_window_log")
    by_rules = make_rules("{name: a, per: [client, path], quotas: 5/hour}")
    with Watch(server, prefix) as watch:
        limiter.refund("ada.lovelace", limiter.check("ada.lovelace"))
        limiter.check("ada.lovelace")
        by_rules.check({"client": "ada.lovelace", "path": "/lovelace"})
        limiter.reset("ada.lovelace")
        limiter.check("ada.lovelace")
    stored = [(key, server.command("DUMP", key)) for key in counters(server, prefix)]

    assert len(watch.lines) >= 5
    assert len(stored) == 4
    assert "lovelace" not in str(watch.lines) + str(stored)


def test_a_secret_changes_the_names(make: Make, server: Single, prefix: str) -> None:
    """
    Whoever does not know it cannot say whether a key is there.
    """
    make("5/hour").check("key")
    (known,) = counters(server, prefix)
    make("5/hour", secret="nobody knows").check("key")
    names = counters(server, prefix)

    assert 2 == len(names)
    assert known in names


# --- How long they stay -----------------------------------------------------------------------------------------------------------------

LIVES = {
    # The quota, and the longest that a counter may stay after one request, in milliseconds.
    "sliding_window": ("5/100s", 100_000),
    "sliding_window_log": ("5/100s sliding_window_log", 100_000),
    "sliding_window_counter": ("5/100s sliding_window_counter", 200_000),
    "sliding_window_ring": ("5/100s sliding_window_counter buckets 5", 120_000),
    "fixed_window": ("5/100s fixed_window", 100_000),
    "gcra": ("5/100s burst 3", 20_000),
    "leaky_bucket": ("5/100s queue 100s", 20_000),
    "concurrency": ("5 concurrent ttl 100s", 100_000),
    "min_interval": ("5/100s min_interval 10s", 100_000),
}


@pytest.mark.parametrize(("quota", "most"), LIVES.values(), ids=LIVES)
def test_a_counter_stays_no_longer_than_it_counts(quota: str, most: int, make: Make, server: Single, prefix: str) -> None:
    """
    One request, and one that is denied; a few milliseconds more are for rounding.
    """
    limiter = make(quota)
    limiter.check("key")
    limiter.check("key", 100)
    (key,) = counters(server, prefix)

    assert 0 < ttl_ms(server, key) <= most + 5


VERBS: dict[str, Callable[[Limiter], object]] = {
    "check": lambda limiter: limiter.check("key"),
    "many checks": lambda limiter: [limiter.check("key") for _ in range(20)],
    "debit": lambda limiter: limiter.debit("key", 9),
    "refund": lambda limiter: limiter.refund("key", limiter.check("key", 2), 1),
    "settle": lambda limiter: limiter.settle("key", limiter.reserve("key", 2), 4),
    "peek": lambda limiter: limiter.peek("key"),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
@pytest.mark.parametrize("quota", [quota for quota, _ in LIVES.values()], ids=LIVES)
def test_nothing_stays_for_ever(quota: str, verb: Callable[[Limiter], object], make: Make, server: Single, prefix: str) -> None:
    """
    Whatever wrote it.
    """
    verb(make(quota))

    assert all(ttl_ms(server, key) > 0 for key in counters(server, prefix))


def test_nothing_is_left_when_it_is_over(eventually: Eventually, make: Make) -> None:
    """
    Counters of every algorithm; the list of instances goes within a minute.
    """
    with Single() as server:
        quotas = "5/50ms; 5/60ms sliding_window_log; 5/50ms fixed_window; 5/50ms burst 5; 5 concurrent ttl 50ms; 5/50ms queue 50ms"
        limiter = make(quotas, store=server.url())
        for number in range(200):
            limiter.check(f"key {number}")
        limiter.close()

        eventually(lambda: server.command("DBSIZE") == 1, within=20)
        (instances,) = texts(server.command("KEYS", "*"))
        assert 0 < ttl_ms(server, instances) <= 60_000


def test_what_was_given_back_leaves_nothing(make: Make, server: Single, prefix: str) -> None:
    """
    A counter at full credit is none.
    """
    limiter = make("5/hour; 2 concurrent")
    decision = limiter.check("key")
    limiter.refund("key", decision)
    limiter.release("key", decision)

    assert [] == counters(server, prefix)


def test_a_peek_writes_nothing(make: Make, server: Single, prefix: str) -> None:
    """
    However often.
    """
    limiter = make("5/hour; 5/hour fixed_window; 5/day burst 3; 5 concurrent")
    for key, cost in itertools.product(("a", "b"), (0, 1, 5)):
        limiter.peek(key, cost)

    assert [] == counters(server, prefix)
