"""
Envoy's rate limit filter and native rules, with the files of `examples/gateways/envoy`.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tests.gateways.client import Client
    from tests.gateways.conftest import StartGateway, StartService
    from tests.gateways.gateway import Gateway
    from tests.gateways.starting import open_gateway, open_service
    from tests.gateways.upstream import Upstream
else:
    from gateways.starting import open_gateway, open_service

COUNTERS = "cluster.api.ratelimit."
"""They belong to the cluster to which the request would go."""

OPEN: dict[str, str] = {}
CLOSED = {"failure_mode_deny: false": "failure_mode_deny: true"}


@pytest.fixture(scope="module")
def envoy(upstream: Upstream, running_gateways: list[Gateway]) -> Iterator[Gateway]:
    """
    One in front of a service that tells Envoy about every decision.
    """
    with open_service("envoy/rules.yaml", {"rls.metadata": "all"}) as service, open_gateway("envoy", upstream, service) as gateway:
        running_gateways.append(gateway)
        yield gateway
        running_gateways.remove(gateway)


def logged(envoy: Gateway, path: str) -> dict[str, Any] | None:
    """
    The line of the access log about a path that was asked for once.
    """
    # What is behind the last line feed is half of a line.
    whole = (envoy.folder / "log").read_text(encoding="utf-8", errors="replace").rpartition("\n")[0]
    lines = (line for line in whole.splitlines() if line.startswith("{"))
    found: list[dict[str, Any]] = [line for line in map(json.loads, lines) if line["path"] == path]
    return found[0] if found else None


class Failures(NamedTuple):
    """
    How often there was no answer to a question of Envoy, and how often the request went on all the same.
    """

    errors: int
    allowed: int


def failures(envoy: Gateway) -> Failures:
    """
    What Envoy has counted until now.
    """
    counters = envoy.stats(COUNTERS)
    return Failures(counters.get("error", 0), counters.get("failure_mode_allowed", 0))


def is_asked(client: Client) -> bool:
    """
    Whether the service is asked, and answers.
    """
    return "x-ratelimit-limit" in client.get("/").headers


def test_an_allowed_request_reaches_the_api_and_is_told_what_is_left(envoy: Gateway, key: str) -> None:
    """
    In the headers that Envoy makes of our answer.
    """
    answer = envoy.client(x_api_key=key).get("/things")

    assert (200, "/things") == (answer.status, answer.json()["path"])
    assert answer.headers["x-ratelimit-limit"].startswith("60, 60;w=60")
    assert "59" == answer.headers["x-ratelimit-remaining"]
    assert 1 <= int(answer.headers["x-ratelimit-reset"]) <= 60


def test_a_denied_request_gets_429_and_does_not_reach_the_api(envoy: Gateway, upstream: Upstream, key: str) -> None:
    """
    With Envoy's headers, with ours, and with our body.
    """
    client = envoy.client(x_api_key=key)
    assert [200, 200, 200] == [client.post(f"/orders/{key}").status for _ in range(3)]
    upstream.seen.clear()

    answer = client.post(f"/orders/{key}")

    assert (429, "true") == (answer.status, answer.headers["x-envoy-ratelimited"])
    assert answer.headers["x-ratelimit-limit"].startswith("3, 3;w=60")
    assert "0" == answer.headers["x-ratelimit-remaining"]
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert answer.headers["ratelimit"].startswith('"write_orders";r=0;t=')
    assert "application/problem+json" == answer.headers["content-type"]
    assert ["write_orders"] == answer.json()["violated-policies"]
    assert [] == upstream.seen


def test_rules_see_the_method_and_the_path(envoy: Gateway, key: str) -> None:
    """
    A query is no part of the path.
    """
    client = envoy.client(x_api_key=key)
    for _ in range(4):
        client.post("/orders/1")

    assert [429, 429] == [client.post("/orders/2?x=1").status, client.ask("PUT", "/orders/3/items", body=b"{}").status]
    assert [200, 200] == [client.get("/orders/1").status, client.post("/carts/1").status]


def test_keys_do_not_share(envoy: Gateway, key: str) -> None:
    """
    Each has its own quota.
    """
    for _ in range(4):
        envoy.client(x_api_key=key).post("/orders/1")

    assert 429 == envoy.client(x_api_key=key).post("/orders/1").status
    assert 200 == envoy.client(x_api_key=f"{key}-other").post("/orders/1").status


def test_clients_without_keys_are_known_by_their_address(envoy: Gateway) -> None:
    """
    That of the connection, whatever they write into X-Forwarded-For.
    """
    client = envoy.client(source="127.0.0.31")
    statuses = [client.get("/", X_Forwarded_For=f"198.51.100.{number}").status for number in range(21)]

    assert [200] * 20 + [429] == statuses
    assert 200 == envoy.client(source="127.0.0.32").get("/").status


def test_a_client_cannot_choose_its_plan(envoy: Gateway, key: str) -> None:
    """
    The header that names it is dropped at the edge.
    """
    answer = envoy.client(x_api_key=key).get("/", X_Tier="gold")

    assert answer.headers["x-ratelimit-limit"].startswith("60, ")


def test_the_access_log_says_which_rule_denied(envoy: Gateway, key: str, eventually: Eventually) -> None:
    """
    By the dynamic metadata of our answer.
    """
    client = envoy.client(x_api_key=key)
    for _ in range(3):
        client.post("/orders/1")

    client.post(f"/orders/{key}?denied")

    eventually(lambda: logged(envoy, f"/orders/{key}?denied") is not None)
    line = logged(envoy, f"/orders/{key}?denied")
    assert line is not None
    assert (429, "RL") == (line["status"], line["flags"])
    assert ("write_orders", None) == (line["rule"], line["degraded"])


def test_the_access_log_says_what_a_rule_in_shadow_would_have_done(envoy: Gateway, key: str, eventually: Eventually) -> None:
    """
    The request itself goes on.
    """
    client = envoy.client(x_api_key=key)

    assert [200, 200, 200] == [client.get(path).status for path in ("/search", "/search", f"/search?{key}")]

    eventually(lambda: logged(envoy, f"/search?{key}") is not None)
    line = logged(envoy, f"/search?{key}")
    assert line is not None
    assert ("per_key", ["search"]) == (line["rule"], line["shadowed"])


def test_envoy_counts_the_answers(envoy: Gateway, key: str) -> None:
    """
    None of them is an error.
    """
    client = envoy.client(x_api_key=key)
    before = envoy.stats(COUNTERS)

    statuses = [client.post("/orders/1").status for _ in range(5)]

    after = envoy.stats(COUNTERS)
    assert [200, 200, 200, 429, 429] == statuses
    assert (3, 2, 0) == tuple(after.get(name, 0) - before.get(name, 0) for name in ("ok", "over_limit", "error"))


def test_all_requests_get_our_headers_if_they_are_asked_for(start_service: StartService, start_gateway: StartGateway) -> None:
    """
    With Envoy's own ones off, as the example says.
    """
    service = start_service("envoy/rules.yaml", {"rls.headers": "all"})
    envoy = start_gateway("envoy", service, {"enable_x_ratelimit_headers: DRAFT_VERSION_03": "enable_x_ratelimit_headers: 'OFF'"})

    answer = envoy.client(x_api_key="somebody").get("/")

    assert 200 == answer.status
    assert answer.headers["ratelimit"].startswith('"per_key";r=59;t=')
    assert '"per_key";q=60;w=60' == answer.headers["ratelimit-policy"]
    assert "x-ratelimit-limit" not in answer.headers


@pytest.mark.parametrize("end", ["kill", "freeze"])
def test_without_the_service_envoy_does_what_its_file_says(
    end: str, start_service: StartService, start_gateway: StartGateway, eventually: Eventually
) -> None:
    """
    Whether it is gone or does not answer: one Envoy lets requests through, the other refuses them.
    """
    service = start_service("envoy/rules.yaml")
    gateways = [start_gateway("envoy", service, changes, is_patient=False) for changes in (OPEN, CLOSED)]
    clients = [gateway.client(x_api_key="somebody") for gateway in gateways]
    for client in clients:
        # A service that is late, on a busy machine, is counted as well.
        eventually(partial(is_asked, client))
    before = [failures(gateway) for gateway in gateways]

    getattr(service.process, end)()

    assert [[200] * 5, [503] * 5] == [[client.get("/").status for _ in range(5)] for client in clients]
    assert [(5, 5), (5, 0)] == [
        (after.errors - counted.errors, after.allowed - counted.allowed)
        for after, counted in zip(map(failures, gateways), before, strict=True)
    ]


def test_a_service_that_comes_back_is_asked_again(start_service: StartService, start_gateway: StartGateway, eventually: Eventually) -> None:
    """
    As soon as Envoy's health checks find it.
    """
    service = start_service("envoy/rules.yaml")
    envoy = start_gateway("envoy", service, {"interval: 1s": "interval: 0.1s"})
    client = envoy.client(x_api_key="somebody")
    service.kill()
    eventually(lambda: not is_asked(client))

    service.start()

    eventually(partial(is_asked, client), within=30)
