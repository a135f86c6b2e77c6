"""
The ASGI middleware that asks a running service, over real HTTP on both sides.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tidegate import Client
from tidegate.integrations.starlette import RateLimit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request
    from starlette.responses import Response

    from tests.integrations.serving import Served, left
    from tests.service.running import here
else:
    from service.running import here
    from serving import Served, left

IDENTITY = """
version: 1
identity: [{header: x-api-key}, {ip: {}}]
rules:
  - {name: writes, match: {method: POST, path: /orders/*}, per: client, quotas: 2/minute}
"""
NO_IDENTITY = "{version: 1, rules: [{name: each, per: client, quotas: 1/minute}]}"


async def hello(_request: Request) -> Response:
    """
    Answers.
    """
    return PlainTextResponse("hello")


@contextmanager
def asking(rules: str) -> Iterator[Client]:
    """
    A client of a service with these rules. Its budget is not used up on a busy machine.
    """
    with here(rules) as service, Client(f"http://{service.addresses['http']}", budget=20.0) as client:
        yield client


def make(service: str | None = None, limiter: Client | None = None) -> RateLimit:
    """
    An application whose limits are elsewhere.
    """
    app = Starlette(routes=[Route("/orders/{number}", hello, methods=["GET", "POST"]), Route("/", hello)])
    return RateLimit(app, service=service) if limiter is None else RateLimit(app, limiter=limiter)


def test_the_rules_of_a_service_decide() -> None:
    """They read the request as if they were here: method, path and headers."""
    with asking(IDENTITY) as client, Served(make(limiter=client)) as served:
        writes = [served.ask(f"/orders/{number}", {"X-Api-Key": "a"}, "POST") for number in range(3)]
        others = [served.ask("/orders/1", {"X-Api-Key": "a"}).status, served.ask("/orders/1", {"X-Api-Key": "b"}, "POST").status]

    assert [200, 200, 429] == [answer.status for answer in writes]
    assert [200, 200] == others
    assert [{"writes": count} for count in (1, 0, 0)] == [left(answer) for answer in writes]
    assert "application/problem+json" == writes[2].headers["content-type"]
    assert 1 <= int(writes[2].headers["retry-after"]) <= 60


def test_rules_without_an_identity_count_by_address() -> None:
    """Nobody is free because nobody was named."""
    with asking(NO_IDENTITY) as client, Served(make(limiter=client)) as served:
        assert [200, 429] == [served.ask().status for _ in range(2)]


def test_slots_of_a_service_are_given_back() -> None:
    """Before the response is out: one after the other, nobody is denied."""
    rules = "{version: 1, rules: [{name: slots, per: global, quotas: 1 concurrent}]}"
    with asking(rules) as client, Served(make(limiter=client)) as served:
        assert [200] * 10 == [served.ask().status for _ in range(10)]
        assert client.check({}).allowed


def test_a_service_that_is_away_is_no_outage() -> None:
    """Its policy decides, and requests are answered."""
    with here(IDENTITY) as service:
        address = f"http://{service.addresses['http']}"
    with Served(make(service=address)) as served:
        assert {200} == {served.ask().status for _ in range(5)}
