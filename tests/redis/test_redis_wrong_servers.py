"""
An address at which there is something else, or a server that does not want us: decisions go by the policy, and `health` says what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.redis.conftest import Make
    from tests.servers import Cluster, Fake, Login, Sentinel, Single
    from tidegate import Limiter
else:
    from servers import Fake, Login, Single

SECRET = "hunter2"
SHORT = "connect_timeout=300ms"
LONG = "connect_timeout=10s"
"""For servers that answer, also where a busy machine stands still meanwhile."""


def is_told(limiter: Limiter, *parts: str) -> bool:
    """
    Whether everything that a person needs is somewhere in what `health` says.
    """
    health = limiter.health()
    said = " ".join((*health.warnings, *(shard.why for shard in health.shards)))
    assert SECRET not in repr(health)
    return health.status == "down" and all(part in said for part in parts)


FAKES = {
    "garbage": ("makes no sense", "is this the address of a Redis?"),
    "memcached": ("Memcached", "is this the address of a Redis?"),
    "http": ("HTTP", "is this the address of a Redis?"),
    "closing": ("cannot be reached", "handshake"),
    "silent": ("no answer within 300ms", "is this the address of a Redis?"),
}


@pytest.mark.parametrize(("kind", "said"), FAKES.items(), ids=FAKES)
def test_something_else_at_the_address_is_told(kind: str, said: tuple[str, ...], make: Make, eventually: Eventually) -> None:
    """
    The fair share is admitted meanwhile, and no more.
    """
    with Fake(kind) as fake:
        limiter = make("5/minute", store=f"{fake.url}?{SHORT}")
        decisions = [limiter.check("key") for _ in range(8)]
        eventually(lambda: is_told(limiter, *said))

        assert [True] * 5 + [False] * 3 == [decision.allowed for decision in decisions]
        assert all(decision.degraded for decision in decisions)
        assert 8 == sum(limiter.health().degraded.values())


@pytest.mark.parametrize("error", ["LOADING the dataset is being loaded", "MASTERDOWN Link with MASTER is down", "BUSY running a script"])
def test_a_server_that_cannot_work_now_is_told(error: str, make: Make, eventually: Eventually) -> None:
    """
    In its own words.
    """
    with Fake("refusing", error=error) as fake:
        limiter = make("5/minute", store=f"{fake.url}?{SHORT}")

        assert limiter.check("key").degraded
        eventually(lambda: is_told(limiter, error))


@pytest.mark.parametrize("policy", ["allow", "deny"])
def test_the_policy_decides(policy: str, make: Make) -> None:
    """
    Something that is no Redis is an outage like any other.
    """
    with Fake("http") as fake:
        limiter = make("5/minute", store=f"{fake.url}?{SHORT}", on_store_error=policy)

        assert {policy == "allow"} == {limiter.check("key").allowed for _ in range(10)}


def test_a_cluster_address_of_a_single_server_is_told(server: Single, make: Make, eventually: Eventually) -> None:
    """
    With the address to use.
    """
    limiter = make("5/minute", store=f"redis+cluster://{server.address}?{LONG}")

    assert "store_protocol" == limiter.check("key").reason
    eventually(lambda: is_told(limiter, "is no server of a cluster", f"use redis://{server.address}"))


def test_a_single_address_of_a_cluster_is_told(cluster: Cluster, make: Make, eventually: Eventually) -> None:
    """
    With the address to use.
    """
    address = cluster.nodes[0].address
    limiter = make("5/minute", store=f"redis://{address}?{LONG}")

    assert "store_protocol" == limiter.check("key").reason
    eventually(lambda: is_told(limiter, "is a server of a cluster", f"use redis+cluster://{address}"))


def test_a_sentinel_address_of_a_server_with_data_is_told(server: Single, make: Make, eventually: Eventually) -> None:
    """
    With the address to use.
    """
    limiter = make("5/minute", store=f"redis+sentinel://{server.address}/mymaster?{LONG}")

    assert "store_protocol" == limiter.check("key").reason
    eventually(lambda: is_told(limiter, "is no sentinel", f"use redis://{server.address}"))


def test_a_single_address_of_a_sentinel_is_told(sentinel: Sentinel, make: Make, eventually: Eventually) -> None:
    """
    With the address to use.
    """
    address = sentinel.sentinels[0].address
    limiter = make("5/minute", store=f"redis://{address}?{LONG}")

    assert "store_protocol" == limiter.check("key").reason
    eventually(lambda: is_told(limiter, "is a sentinel", f"use redis+sentinel://{address}/"))


def test_a_name_that_sentinels_do_not_know_is_told(sentinel: Sentinel, make: Make, eventually: Eventually) -> None:
    """
    With those that they know.
    """
    limiter = make("5/minute", store=f"redis+sentinel://{sentinel.sentinels[0].address}/other?{LONG}")

    assert "store_protocol" == limiter.check("key").reason
    eventually(lambda: is_told(limiter, "other", "it knows mymaster"))


@pytest.mark.parametrize(
    ("login", "said"),
    [(None, "the address has no password"), (Login(SECRET), "WRONGPASS"), (Login(SECRET, "bob"), "WRONGPASS")],
    ids=["no password", "wrong password", "wrong user"],
)
def test_a_wrong_password_is_told(login: Login | None, said: str, make: Make, eventually: Eventually) -> None:
    """
    Without the password.
    """
    with Single(password="sesame") as server:
        address = server.url(login=login) if login else f"redis://{server.address}"
        limiter = make("5/minute", store=f"{address}?{LONG}")

        assert "store_access" == limiter.check("key").reason
        eventually(lambda: is_told(limiter, "denies access", said))
        assert "sesame" not in repr(limiter.health())


@pytest.mark.parametrize(
    ("rights", "said"),
    [
        ("~tg:* +@all -evalsha -eval", "NOPERM"),
        ("~other:* +@all", "NOPERM"),
        ("", "NOPERM"),
        ("~tg:* +evalsha +eval +ping", "time"),
    ],
    ids=["no scripts", "other keys", "nothing", "no commands in scripts"],
)
def test_a_user_without_rights_is_reported(rights: str, said: str, make: Make, eventually: Eventually) -> None:
    """
    With what the server refused.
    """
    with Single(acl=["user default off", f"user limiter on >{SECRET} {rights}"]) as server:
        limiter = make("5/minute", store=f"{server.url(login=Login(SECRET, 'limiter'))}?{LONG}")
        decisions = [limiter.check("key") for _ in range(7)]

        assert "store_access" == decisions[0].reason
        assert [True] * 5 + [False] * 2 == [decision.allowed for decision in decisions]
        # The breaker opens after some failures in a row, which a busy machine may take its time for.
        eventually(lambda: limiter.check("other").degraded and is_told(limiter, said))


def test_a_user_with_just_enough_rights_works(make: Make) -> None:
    """
    What operators should give it.
    """
    rights = "~tg:* -@all +ping +info +client|setname +config|get +eval +evalsha +time +get +set +del"
    beats = "+zadd +zremrangebyscore +zrevrange +pexpire"
    with Single(acl=["user default off", f"user limiter on >{SECRET} {rights} {beats}"]) as server:
        limiter = make("5/minute; 2 concurrent", store=server.url(login=Login(SECRET, "limiter")))
        decision = limiter.check("key")

        assert (False, 1) == (decision.degraded, limiter.refund("key", decision))
        assert limiter.reset("key") in (True, False)
        assert "ok" == limiter.health().status


def test_a_database_that_does_not_exist_is_told(server: Single, make: Make, eventually: Eventually) -> None:
    """
    With its number.
    """
    limiter = make("5/minute", store=server.url(db=99))

    assert limiter.check("key").degraded
    eventually(lambda: is_told(limiter, "database 99 cannot be used"))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("redis://127.0.0.1:1", ("cannot connect", "refused")),
        ("redis://nowhere.invalid", ("nowhere.invalid", "cannot connect")),
        ("unix:///nowhere.sock", ("/nowhere.sock", "No such file")),
        ("redis+cluster://127.0.0.1:1,127.0.0.1:2", ("127.0.0.1:", "refused")),
        ("redis+sentinel://127.0.0.1:1/mymaster", ("127.0.0.1:1", "refused")),
    ],
)
def test_nobody_at_the_address_is_told(address: str, said: tuple[str, ...], make: Make, eventually: Eventually) -> None:
    """
    Of every kind of address.
    """
    limiter = make("5/minute", store=address)

    assert "store_unavailable" == limiter.check("key").reason
    eventually(lambda: is_told(limiter, *said))


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "volatile-lru"])
def test_a_server_that_forgets_when_it_is_full_is_warned_about(policy: str, make: Make, eventually: Eventually) -> None:
    """
    It works; but to forget a counter is to grant its quota again.
    """
    with Single(maxmemory_policy=policy) as server:
        limiter = make("5/minute", store=server.url())

        assert not limiter.check("key").degraded
        eventually(lambda: any(policy in warning and "noeviction" in warning for warning in limiter.health().warnings))
        assert policy == limiter.health().shards[0].maxmemory_policy


def test_a_server_that_forgets_nothing_is_not_warned_about(make: Make) -> None:
    """
    A healthy store says so, with its version and its role.
    """
    limiter = make("5/minute")
    limiter.check("key")
    health = limiter.health()
    (shard,) = health.shards

    assert ("ok", (), {}) == (health.status, health.warnings, health.degraded)
    assert (True, "closed", "primary", "noeviction") == (shard.is_up, shard.breaker, shard.role, shard.maxmemory_policy)
    assert shard.version
