"""
WSGI applications and Flask that ask a running service, over real HTTP on both sides.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from flask import Flask

from tidegate import Client
from tidegate.errors import ConfigError
from tidegate.integrations.flask import Tidegate, limit
from tidegate.integrations.wsgi import RateLimit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from wsgiref.types import WSGIApplication

    from tests.integrations.wsgi_serving import Threaded
    from tests.service.running import here
else:
    from service.running import here
    from wsgi_serving import Threaded

RULES = """
version: 1
identity: [{header: x-api-key}, {ip: {}}]
rules:
  - {name: writes, match: {method: POST, path: /orders/*, query: {dry: {not: "1"}}}, per: client, quotas: 2/minute}
"""


@pytest.fixture
def client() -> Iterator[Client]:
    """
    A client of a service. Its budget is not used up on a busy machine.
    """
    with here(RULES) as service, Client(f"http://{service.addresses['http']}", budget=20.0) as client:
        yield client


def make(kind: str, limiter: Client) -> WSGIApplication:
    """
    An application whose limits are elsewhere.
    """
    app = Flask("shop")
    app.add_url_rule("/orders/<number>", "order", lambda number: number, methods=["GET", "POST"])
    if kind == "wsgi":
        return RateLimit(app, limiter=limiter)
    Tidegate(app, limiter=limiter)
    return app


@pytest.mark.parametrize("kind", ["wsgi", "flask"])
def test_the_rules_of_a_service_decide(client: Client, kind: str) -> None:
    """
    They read the request as if they were here: method, path, query and headers.
    """
    with Threaded(make(kind, client)) as site:
        key = {"X-Api-Key": "a"}
        free = [site.ask("POST", "/orders/1?dry=1", key), site.ask("GET", "/orders/1", key)]
        writes = [site.ask("POST", f"/orders/{number}", key) for number in range(3)]
        other = site.ask("POST", "/orders/1", {"X-Api-Key": "b"})

    assert [200, 200, 200, 200, 429, 200] == [answer.status for answer in (*free, *writes, other)]
    assert "writes" == json.loads(writes[2].body)["rule"]
    assert 1 <= int(writes[2].field("Retry-After") or 0) <= 60


def test_views_have_limits_of_their_own_beside_a_service(client: Client) -> None:
    """
    They count in a store of the application, which it has to name.
    """

    def make(**options: Any) -> Flask:  # noqa: ANN401  # as the extension takes them
        app = Flask("shop")
        Tidegate(app, limiter=client, **options)
        app.add_url_rule("/few", "few", limit("1/minute")(lambda: "few"))
        app.testing = True
        return app

    with pytest.raises(ConfigError, match="store="):
        make().test_client().get("/few")
    asked = make(store="memory://").test_client()
    assert [200, 429] == [asked.get("/few").status_code for _ in range(2)]


@pytest.mark.parametrize("kind", ["wsgi", "flask"])
def test_a_service_that_is_away_is_no_outage(kind: str) -> None:
    """
    The policy of the client decides.
    """
    with Client("http://127.0.0.1:9", on_service_error="allow") as client, Threaded(make(kind, client)) as site:
        assert [200, 200, 200] == site.statuses(3, "/orders/1")
    with Client("http://127.0.0.1:9", on_service_error="deny") as client, Threaded(make(kind, client)) as site:
        answer = site.ask("GET", "/orders/1")

    assert 429 == answer.status
    assert "Temporary Reduced Capacity" == json.loads(answer.body)["title"]
