"""
TLS: whom the limiter trusts, and who it says it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tests.redis.conftest import Make
    from tests.servers import Certificates, Cluster, Missing, Sentinel, Single, certificates
    from tidegate import Limiter
else:
    from servers import Cluster, Missing, Sentinel, Single, certificates


@pytest.fixture(scope="module", params=["valkey", "redis70"])
def encrypted(request: pytest.FixtureRequest) -> Iterator[Single]:
    """
    A server that speaks TLS and knows no clients; by itself, or by a proxy in front of it.
    """
    try:
        server = Single(server=request.param, tls=True)
    except Missing as missing:
        pytest.skip(str(missing))
    with server:
        yield server


@pytest.fixture(scope="module", params=["valkey", "redis70"])
def mutual(request: pytest.FixtureRequest) -> Iterator[Single]:
    """
    A server that wants to see certificates.
    """
    try:
        server = Single(server=request.param, tls=True, tls_auth_clients=True)
    except Missing as missing:
        pytest.skip(str(missing))
    with server:
        yield server


def files(server: Single) -> Certificates:
    """
    The certificates of a server.
    """
    found = server.certificates
    assert found
    return found


def is_told(limiter: Limiter, *parts: str) -> bool:
    """
    Whether `health` says what a person needs.
    """
    health = limiter.health()
    said = " ".join((*health.warnings, *(shard.why for shard in health.shards)))
    return health.status == "down" and all(part in said for part in parts)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_is_trusted_by_its_authority(host: str, encrypted: Single, make: Make, prefix: str) -> None:
    """
    Under each of its names.
    """
    limiter = make("3/hour", store=f"{encrypted.url(host=host)}?tls_ca={files(encrypted).ca}&prefix={prefix}")
    said = [limiter.check("key") for _ in range(4)]

    assert [True, True, True, False] == [decision.allowed for decision in said]
    assert not any(decision.degraded for decision in said)


def test_a_server_of_an_unknown_authority_is_not_trusted(encrypted: Single, make: Make, eventually: Eventually) -> None:
    """
    The system's authorities do not know it.
    """
    limiter = make("3/hour", store=encrypted.url())

    assert limiter.check("key").degraded
    eventually(lambda: is_told(limiter, "certificate of the server is not trusted", "tls_ca"))


def test_a_server_with_another_name_is_not_trusted(make: Make, eventually: Eventually) -> None:
    """
    Its authority alone is not enough.
    """
    with Single(tls=True, tls_hosts=("elsewhere.example",)) as server:
        limiter = make("3/hour", store=f"{server.url()}?tls_ca={files(server).ca}")

        assert limiter.check("key").degraded
        eventually(lambda: is_told(limiter, "certificate of the server is not trusted"))


def test_a_server_can_be_trusted_blindly(make: Make) -> None:
    """
    For who says so in the address.
    """
    with Single(tls=True, tls_hosts=("elsewhere.example",)) as server:
        limiter = make("3/hour", store=f"{server.url()}?tls_insecure=true")

        assert not limiter.check("key").degraded


def test_a_certificate_is_shown_to_who_wants_to_see_it(mutual: Single, make: Make, prefix: str) -> None:
    """
    Together with its key.
    """
    limiter = make("3/hour", store=f"{files(mutual).in_url(mutual.url())}&prefix={prefix}")

    assert not limiter.check("key").degraded


def test_who_shows_no_certificate_is_told_so(mutual: Single, make: Make, eventually: Eventually) -> None:
    """
    With the parameters that name it.
    """
    limiter = make("3/hour", store=f"{mutual.url()}?tls_ca={files(mutual).ca}")

    assert limiter.check("key").degraded
    eventually(lambda: is_told(limiter, "tls_cert"))


def test_the_certificate_of_a_stranger_is_refused(mutual: Single, make: Make, eventually: Eventually) -> None:
    """
    It was issued by another authority.
    """
    stranger = certificates(("stranger.example",))
    address = f"{mutual.url()}?tls_ca={files(mutual).ca}&tls_cert={stranger.client_cert}&tls_key={stranger.client_key}"
    limiter = make("3/hour", store=address)

    assert limiter.check("key").degraded
    # TLS of its own says why; a proxy just closes.
    eventually(lambda: is_told(limiter, "UnknownCA") or is_told(limiter, "cannot be reached"))


def test_a_password_and_a_database_go_with_tls(make: Make) -> None:
    """
    As without it.
    """
    with Single(tls=True, password="p@ss w/rd") as server:
        limiter = make("3/hour", store=f"{server.url(db=2)}?tls_ca={files(server).ca}")

        assert not limiter.check("key").degraded
        assert "p@ss" not in repr(limiter.health())


def test_plain_and_tls_are_told_apart(server: Single, encrypted: Single, make: Make, eventually: Eventually) -> None:
    """
    With a hint in both directions.
    """
    plain = make("3/hour", store=f"redis://127.0.0.1:{encrypted.port}?connect_timeout=300ms")
    tls = make("3/hour", store=f"rediss://127.0.0.1:{server.port}?connect_timeout=300ms&tls_insecure=true")

    assert plain.check("key").degraded
    assert tls.check("key").degraded
    eventually(lambda: is_told(plain, "TLS"))
    eventually(lambda: is_told(tls, "TLS"))


def test_a_cluster_speaks_tls_with_clients_that_it_knows(make: Make) -> None:
    """
    All of its servers, by the names that the cluster tells.
    """
    try:
        cluster = Cluster(tls=True, tls_auth_clients=True, replicas=0)
    except Missing as missing:
        pytest.skip(str(missing))
    with cluster:
        found = cluster.certificates
        assert found
        limiter = make("3/hour", store=found.in_url(cluster.url()))

        assert not any(limiter.check(f"key {number}").degraded for number in range(50))
        assert 3 == len(limiter.health().shards)


def test_sentinels_and_their_primary_speak_tls(make: Make) -> None:
    """
    Both ways, with the same certificates.
    """
    try:
        sentinel = Sentinel(server="redis70", tls=True)
    except Missing as missing:
        pytest.skip(str(missing))
    with sentinel:
        found = sentinel.certificates
        assert found
        limiter = make("3/hour", store=found.in_url(sentinel.url()))

        assert not limiter.check("key").degraded
