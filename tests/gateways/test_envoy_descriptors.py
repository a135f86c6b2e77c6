"""
Envoy's rate limit filter and a file of the Envoy rate limit service, with the files of `examples/gateways/envoy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tests.gateways.conftest import StartGateway, StartService
    from tests.gateways.gateway import Gateway
    from tests.gateways.starting import open_gateway, open_service
    from tests.gateways.upstream import Upstream
    from tests.servers import Single
else:
    from gateways.starting import open_gateway, open_service

RULES = "envoy/descriptors.yaml"
NAME = "envoy-descriptors"


@pytest.fixture(scope="module")
def envoy(upstream: Upstream, running_gateways: list[Gateway]) -> Iterator[Gateway]:
    """
    One in front of a service that counts in memory.
    """
    with open_service(RULES) as service, open_gateway(NAME, upstream, service) as gateway:
        running_gateways.append(gateway)
        yield gateway
        running_gateways.remove(gateway)


def test_a_tenant_has_its_limit(envoy: Gateway, key: str) -> None:
    """
    And whoever comes too often is told so by Envoy.
    """
    client = envoy.client(x_tenant=key)

    answers = [client.get("/") for _ in range(11)]

    assert [200] * 10 + [429] == [answer.status for answer in answers]
    assert [str(left) for left in (*reversed(range(10)), 0)] == [answer.headers["x-ratelimit-remaining"] for answer in answers]
    assert '10, 10;w=3600;name="tenant_rph"' == answers[0].headers["x-ratelimit-limit"].partition(", 100000;")[0]
    assert "application/problem+json" == answers[10].headers["content-type"]
    assert 1 <= int(answers[10].headers["retry-after"]) <= 3600


def test_one_tenant_has_another_limit(envoy: Gateway) -> None:
    """
    The exact value wins over the key alone.
    """
    answer = envoy.client(x_tenant="acme").get("/")

    assert answer.headers["x-ratelimit-limit"].startswith('100, 100;w=3600;name="acme_rph"')


def test_an_export_counts_as_five(envoy: Gateway, key: str) -> None:
    """
    By hits_addend of the route.
    """
    client = envoy.client(x_tenant=key)

    answers = [client.get("/export") for _ in range(3)]

    assert [200, 200, 429] == [answer.status for answer in answers]
    assert ["5", "0", "0"] == [answer.headers["x-ratelimit-remaining"] for answer in answers]


def test_what_is_watched_denies_nobody(envoy: Gateway) -> None:
    """
    A limit with shadow_mode.
    """
    assert [200] * 4 == [envoy.client().get("/search").status for _ in range(4)]


def test_bytes_are_paid_for_afterwards(envoy: Gateway, key: str, eventually: Eventually) -> None:
    """
    A look before the request charges nothing; the size of the response is charged when it is known.
    """
    client = envoy.client(x_tenant=key)
    assert [200, 200] == [client.get("/bytes/10").status for _ in range(2)]

    assert 200 == client.get("/bytes/200000").status

    eventually(lambda: client.get("/bytes/10").status == 429)


def test_a_request_without_a_tenant_is_not_limited(envoy: Gateway) -> None:
    """
    Envoy sends no descriptor for it.
    """
    assert {200} == {envoy.client().get("/").status for _ in range(12)}


def test_without_the_service_requests_are_refused(start_service: StartService, start_gateway: StartGateway) -> None:
    """
    As this file says.
    """
    service = start_service(RULES)
    envoy = start_gateway(NAME, service)
    assert 200 == envoy.client(x_tenant="somebody").get("/").status

    service.kill()

    assert 503 == envoy.client(x_tenant="somebody").get("/").status


def test_instances_share_what_a_tenant_has_on_a_redis(
    start_service: StartService, start_gateway: StartGateway, server: Single, key: str
) -> None:
    """
    Two instances behind two Envoys, and one counter.
    """
    store = {"store": f"{server.url()}?prefix={key}:", "budget": 5}
    clients = [start_gateway(NAME, start_service(RULES, store)).client(x_tenant=key) for _ in range(2)]

    statuses = [client.get("/").status for client in clients * 6]

    assert [200] * 10 + [429] * 2 == statuses
