"""
The port of gRPC as `grpcio` sees it: rules, refusals, a store that hangs, and the end.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import grpc
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import Single
    from tests.service.grpc_client import HEALTH, RATE_LIMIT, Client
    from tests.service.running import here
    from tidegate.service import Service
else:
    from grpc_client import HEALTH, RATE_LIMIT, Client
    from running import here

RULES = """
version: 1
domain: shop
rules:
  - name: per_user
    per: user
    quotas: 3/day fixed_window
  - name: tokens
    match: {path: /generate}
    per: user
    quotas: 100/day
    on_store_error: deny
"""


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """
    A service that all tests share which do not end it.
    """
    with here(RULES, {"limits.body_bytes": 20_000}) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    """
    A connection to it.
    """
    with Client(service.addresses["grpc"]) as client:
        yield client


def entries(**attributes: str) -> list[dict[str, Any]]:
    """
    One descriptor.
    """
    return [{"entries": list(attributes.items())}]


def test_a_client_is_denied_after_as_many_requests_as_its_quota_has(client: Client) -> None:
    """
    With a limit, a time and the header fields of a denial.
    """
    answers = [client.ask("shop", entries(user="ada")) for _ in range(4)]

    assert ["OK"] * 3 + ["OVER_LIMIT"] == [answer["overall_code"] for answer in answers]
    assert [2, 1, 0, 0] == [answer["statuses"][0]["limit_remaining"] for answer in answers]
    assert {"requests_per_unit": 3, "unit": "DAY", "name": "per_user"} == answers[0]["statuses"][0]["current_limit"]
    assert [] == answers[0]["response_headers_to_add"]
    fields = {field["key"]: field["value"] for field in answers[3]["response_headers_to_add"]}
    assert fields["RateLimit-Policy"] == '"per_user";q=3;w=86400'
    assert int(fields["Retry-After"]) > 0
    assert "per_user" == answers[3]["dynamic_metadata"]["rule"]


def test_threads_of_one_connection_are_let_through_as_often_as_the_quota_says(client: Client) -> None:
    """
    Many calls at a time are many streams of one connection.
    """
    answers: list[str] = []

    def ask() -> None:
        answers.extend(client.ask("shop", entries(user="crowd"))["overall_code"] for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (3, 77) == (answers.count("OK"), answers.count("OVER_LIMIT"))


@pytest.mark.parametrize(
    ("domain", "descriptors", "options", "code"),
    [
        pytest.param("", entries(user="x"), {}, grpc.StatusCode.INVALID_ARGUMENT, id="no domain"),
        pytest.param("shop", [], {}, grpc.StatusCode.INVALID_ARGUMENT, id="no descriptors"),
        pytest.param("shop", entries(user="") * 1_001, {}, grpc.StatusCode.INVALID_ARGUMENT, id="many descriptors"),
        pytest.param("shop", entries(user="x" * 20_000), {}, grpc.StatusCode.RESOURCE_EXHAUSTED, id="large"),
        pytest.param(
            "shop", entries(user="x" * 100), {"compression": grpc.Compression.Gzip}, grpc.StatusCode.UNIMPLEMENTED, id="compressed"
        ),
    ],
)
def test_what_makes_no_sense_gets_a_code_that_says_so(
    client: Client, domain: str, descriptors: list[dict[str, Any]], options: dict[str, Any], code: grpc.StatusCode
) -> None:
    """
    And the connection goes on.
    """
    with pytest.raises(grpc.RpcError) as raised:
        client.ask(domain, descriptors, **options)

    assert code == raised.value.code()
    assert "OK" == client.ask("elsewhere", entries(user="x"))["overall_code"]


def test_a_caller_in_a_hurry_is_answered_by_policy_before_it_gives_up(server: Single) -> None:
    """
    The budget of the store is longer than the test, and the store hangs: only `grpc-timeout` ends the wait.
    """
    store = f"{server.url()}?prefix=h{os.getpid()}:"
    with here(RULES, {"store": store, "budget": "60s"}) as service, Client(service.addresses["grpc"]) as client:
        assert "OK" == client.ask("shop", entries(user="ada", path="/generate"))["overall_code"]
        server.freeze()
        try:
            # A tenth of it is left for the way back: on a busy machine that takes longer than a moment.
            answer = client.ask("shop", entries(user="ada", path="/generate"), timeout=10)
        finally:
            server.thaw()

    assert "OVER_LIMIT" == answer["overall_code"]
    assert "store_timeout" == answer["dynamic_metadata"]["degraded"]


def test_health_is_told_until_the_end() -> None:
    """
    Who watches learns that the service is about to stop, and does not keep it from stopping.
    """
    with here(RULES) as service, Client(service.addresses["grpc"]) as client:
        watching = client.stream(HEALTH, "Watch", {"service": RATE_LIMIT})
        assert {"status": "SERVING"} == next(watching)
        assert {"status": "SERVING"} == client.call(HEALTH, "Check", {"service": "ratelimit"})

        cut: list[int] = []
        draining = threading.Thread(target=lambda: cut.append(service.drain()))
        draining.start()

        assert {"status": "NOT_SERVING"} == next(watching)
        with pytest.raises(grpc.RpcError) as raised:
            next(watching)
        assert grpc.StatusCode.UNAVAILABLE == raised.value.code()
        draining.join()
        assert [0] == cut


def test_health_of_a_service_that_does_not_exist_is_not_found(client: Client) -> None:
    """
    As the protocol of health says.
    """
    with pytest.raises(grpc.RpcError) as raised:
        client.call(HEALTH, "Check", {"service": "nobody"})

    assert grpc.StatusCode.NOT_FOUND == raised.value.code()
