"""
What every gateway that asks over HTTP has to do, with the files of `examples/gateways`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.gateways.client import BALANCER
    from tests.gateways.gateway import Gateway
    from tests.gateways.starting import open_gateway, open_service
    from tests.gateways.upstream import Upstream
    from tests.service.running import Running
else:
    from gateways.client import BALANCER
    from gateways.starting import open_gateway, open_service

NAMES = ("nginx", "traefik", "caddy", "caddy-short", "haproxy", "envoy-ext-authz")

TELLS_ALLOWED = {"nginx", "caddy", "haproxy", "envoy-ext-authz"}
"""Those that can tell the client of an allowed request what is left."""

BELIEVES_BALANCERS = {"nginx", "traefik", "caddy", "envoy-ext-authz"}
"""Those whose example has a load balancer in front."""


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    """
    The service that all gateways of this file ask.
    """
    with open_service("rules.yaml") as service:
        yield service


@pytest.fixture(scope="module", params=NAMES)
def gateway(request: pytest.FixtureRequest, upstream: Upstream, service: Running, running_gateways: list[Gateway]) -> Iterator[Gateway]:
    """
    Each of them, one after the other.
    """
    with open_gateway(request.param, upstream, service) as gateway:
        running_gateways.append(gateway)
        yield gateway
        running_gateways.remove(gateway)


def test_an_allowed_request_reaches_the_api_as_it_was(gateway: Gateway, key: str) -> None:
    """
    With its method, its path, its query and all of its body.
    """
    answer = gateway.client(x_api_key=key).ask("PUT", "/orders/7?color=blue%20sky", body=b"x" * 100_000)

    assert 200 == answer.status
    seen = answer.json()
    assert ("PUT", "/orders/7?color=blue%20sky", 100_000) == (seen["method"], seen["path"], seen["body_bytes"])


def test_an_allowed_request_is_told_what_is_left(gateway: Gateway, key: str) -> None:
    """
    By the gateways that can.
    """
    answer = gateway.client(x_api_key=key).get("/")

    expected = ('"per_client";r=59', '"per_client";q=60;w=60') if gateway.name in TELLS_ALLOWED else ("", "")
    told = tuple(answer.headers.get(name, "") for name in ("ratelimit", "ratelimit-policy"))
    assert expected == (told[0].partition(";t=")[0], told[1])


def test_a_denied_request_gets_429_and_does_not_reach_the_api(gateway: Gateway, upstream: Upstream, key: str) -> None:
    """
    With the headers and with a body that says so.
    """
    client = gateway.client(x_api_key=key)
    assert [200, 200, 200] == [client.post(f"/orders/{key}").status for _ in range(3)]
    upstream.seen.clear()

    answer = client.post(f"/orders/{key}")

    assert 429 == answer.status
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert answer.headers["ratelimit"].startswith('"write_orders";r=0;t=')
    assert '"write_orders";q=3;w=60' in answer.headers["ratelimit-policy"]
    assert "application/problem+json" == answer.headers["content-type"]
    assert 429 == answer.json()["status"]
    assert [] == upstream.seen


def test_a_denied_head_has_headers_and_no_body(gateway: Gateway, key: str) -> None:
    """
    As for any other method.
    """
    client = gateway.client(x_api_key=key)
    for _ in range(60):
        client.ask("HEAD", "/page")

    answer = client.ask("HEAD", "/page")

    assert (429, b"") == (answer.status, answer.body)
    assert "retry-after" in answer.headers


def test_rules_see_the_method_and_the_path(gateway: Gateway, key: str) -> None:
    """
    Of the client's request, not of the gateway's question.
    """
    client = gateway.client(x_api_key=key)
    for _ in range(4):
        client.post("/orders/1")

    assert [429, 429, 429] == [client.post(path).status for path in ("/orders/1", "/orders/2/items", "/orders/1?x=%2F")]
    assert [200, 200] == [client.get("/orders/1").status, client.post("/carts/1").status]


def test_what_no_rule_limits_is_not_limited(gateway: Gateway, key: str) -> None:
    """
    And is told nothing.
    """
    client = gateway.client(x_api_key=key)

    answers = [client.get("/healthz") for _ in range(70)]

    assert {200} == {answer.status for answer in answers}
    assert not any("ratelimit" in answer.headers for answer in answers)


def test_a_rule_in_shadow_denies_nobody(gateway: Gateway, key: str) -> None:
    """
    It is only counted.
    """
    client = gateway.client(x_api_key=key)

    assert [200] * 5 == [client.get("/search?q=x").status for _ in range(5)]


def test_clients_with_keys_do_not_share(gateway: Gateway, key: str) -> None:
    """
    Each key has its own quota.
    """
    for _ in range(4):
        gateway.client(x_api_key=key).post("/orders/1")

    assert 429 == gateway.client(x_api_key=key).post("/orders/1").status
    assert 200 == gateway.client(x_api_key=f"{key}-other").post("/orders/1").status


@pytest.fixture
def address(gateway: Gateway) -> str:
    """
    An address that no other gateway's test uses. The last number is free.
    """
    return f"127.0.{NAMES.index(gateway.name) + 10}."


def test_clients_without_keys_are_known_by_their_address(gateway: Gateway, address: str) -> None:
    """
    That of the connection.
    """
    for _ in range(4):
        gateway.client(source=f"{address}1").post("/orders/1")

    assert 429 == gateway.client(source=f"{address}1").post("/orders/1").status
    assert 200 == gateway.client(source=f"{address}2").post("/orders/1").status


def test_a_client_cannot_claim_another_address(gateway: Gateway, address: str) -> None:
    """
    What it writes into X-Forwarded-For counts for nothing.
    """
    client = gateway.client(source=f"{address}3")

    statuses = [client.post("/orders/1", X_Forwarded_For=f"198.51.100.{number}").status for number in range(4)]

    assert [200, 200, 200, 429] == statuses


@pytest.mark.parametrize(
    "claims",
    [
        {"X_Forwarded_Method": "GET", "X_Forwarded_Uri": "/healthz"},
        {"X_Original_Method": "GET", "X_Original_URI": "/healthz"},
        {"X_Original_URL": "/healthz", "X_HTTP_Method_Override": "GET", "X_Rewrite_URL": "/healthz"},
    ],
    ids=["forwarded", "original", "others"],
)
def test_a_client_cannot_claim_another_request(gateway: Gateway, key: str, claims: dict[str, str]) -> None:
    """
    The gateway alone says what was asked for.
    """
    client = gateway.client(x_api_key=key)

    assert [200, 200, 200, 429] == [client.post("/orders/1", **claims).status for _ in range(4)]


def test_a_load_balancer_is_believed(gateway: Gateway, address: str) -> None:
    """
    But only the last address that it adds, and not what its client had claimed before.
    """
    if gateway.name not in BELIEVES_BALANCERS:
        pytest.skip(f"the example of {gateway.name} has no load balancer in front of it")
    balancer = gateway.client(source=BALANCER)
    behind = f"203.0.113.{NAMES.index(gateway.name)}"

    statuses = [balancer.post("/orders/1", X_Forwarded_For=f"198.51.100.{number}, {behind}").status for number in range(4)]

    assert [200, 200, 200, 429] == statuses
    assert 200 == balancer.post("/orders/1", X_Forwarded_For=f"2001:db8:{NAMES.index(gateway.name)}::1").status


def test_a_refusal_of_the_api_stays_what_it_is(gateway: Gateway, key: str) -> None:
    """
    A 403 or a 429 of the API is not ours, and an error is not an outage.
    """
    client = gateway.client(x_api_key=key)

    assert [401, 403, 429, 500] == [client.get(f"/status/{status}").status for status in (401, 403, 429, 500)]
