"""
Counters that are elsewhere: every integration takes `store=`, the address of a store, or `service=`, that of a service.

Of each there are two in these tests, as two processes would have them, and what they admit is counted together.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from django.test import AsyncClient, override_settings
from django.test import Client as DjangoClient
from fastapi import Depends, FastAPI
from flask import Flask
from starlette.applications import Starlette
from starlette.requests import Request  # noqa: TC002  # FastAPI reads the annotations of endpoints
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from werkzeug.test import Client as WerkzeugClient

from tidegate.errors import Denied
from tidegate.integrations import asgi, celery, fastapi, flask, starlette, wsgi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integrations import django_site
    from tests.servers import Single
    from tests.service.running import here
else:
    import django_site
    from service.running import here

LIMIT = 3
RULES = f"{{version: 1, rules: [{{name: all, per: global, quotas: {LIMIT}/hour}}]}}"

_NUMBERS = itertools.count()


async def hello(request: Request) -> PlainTextResponse:  # frameworks pass it
    """
    Answers.
    """
    return PlainTextResponse("hello")


def _asked(client: Any) -> Callable[[], int]:  # noqa: ANN401  # a client of any framework's tests
    return lambda: int(client.get("/").status_code)


def _awaited(app: Any) -> Callable[[], int]:  # noqa: ANN401  # an ASGI application
    async def ask() -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
            return (await client.get("/")).status_code

    return lambda: asyncio.run(ask())


def _asgi(**where: Any) -> Callable[[], int]:  # noqa: ANN401  # as the integration takes them
    return _awaited(asgi.RateLimit(Starlette(routes=[Route("/", hello)]), **where))


def _starlette(**where: Any) -> Callable[[], int]:  # noqa: ANN401  # as above
    return _awaited(Starlette(routes=[Route("/", starlette.limit(**where)(hello))]))


def _fastapi_route(**where: Any) -> Callable[[], int]:  # noqa: ANN401  # as above
    app = FastAPI()
    app.add_api_route("/", hello, dependencies=[Depends(fastapi.limit(**where))])
    return _awaited(app)


def _fastapi(**where: Any) -> Callable[[], int]:  # noqa: ANN401  # as above
    app = FastAPI()
    app.add_middleware(fastapi.RateLimit, **where)
    app.add_api_route("/", hello)
    return _awaited(app)


def _flask(**where: Any) -> Callable[[], int]:  # noqa: ANN401  # as above
    app = Flask("shop")
    app.add_url_rule("/", "hello", lambda: "hello")
    flask.Tidegate(app, **where)
    return _asked(app.test_client())


def _wsgi(**where: Any) -> Callable[[], int]:  # noqa: ANN401  # as above
    def app(_environ: Any, start_response: Any) -> list[bytes]:  # noqa: ANN401  # as WSGI has them
        start_response("200 OK", [])
        return [b"hello"]

    return _asked(WerkzeugClient(wsgi.RateLimit(app, **where)))


def _django(**where: Any) -> Callable[[], int]:  # noqa: ANN401  # as above
    setting = {name.upper(): value for name, value in where.items()}

    def ask() -> int:
        # Settings exist once in a process. Each time they are set, everything is made anew, as in another process.
        with override_settings(TIDEGATE=setting, MIDDLEWARE=[django_site.MIDDLEWARE]):
            return DjangoClient().get("/").status_code

    return ask


async def _django_async(**where: Any) -> int:  # noqa: ANN401  # as above
    setting = {name.upper(): value for name, value in where.items()}
    with override_settings(TIDEGATE=setting, MIDDLEWARE=[django_site.MIDDLEWARE]):
        return int((await AsyncClient().get("/")).status_code)


def _celery(**where: Any) -> Callable[[], int]:  # noqa: ANN401  # as above
    @celery.limit(denied="raise", **where)
    def task() -> int:
        return 200

    def ask() -> int:
        try:
            return int(task())
        except Denied:
            return 429

    return ask


INTEGRATIONS = {
    "asgi": _asgi,
    "starlette": _starlette,
    "fastapi route": _fastapi_route,
    "fastapi": _fastapi,
    "flask": _flask,
    "wsgi": _wsgi,
    "django": _django,
    "celery": _celery,
}


@pytest.fixture(params=["store", "service"])
def where(request: pytest.FixtureRequest, server: Single, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """
    What an integration is told, so that its counters are on a store or in a service.
    """
    if request.param == "store":
        prefix = f"remote{os.getpid()}.{next(_NUMBERS)}:"
        yield {"quotas": f"{LIMIT}/hour", "store": f"{server.url()}?prefix={prefix}&connect_timeout=10s", "budget": 20.0}
        return
    # The budget of a client is shorter than a busy machine may take.
    monkeypatch.setattr("tidegate.client.options.BUDGET", 10.0)
    with here(RULES) as service:
        yield {"service": f"http://{service.addresses['http']}"}


@pytest.mark.parametrize("integration", INTEGRATIONS)
def test_two_of_each_admit_the_limit_together(integration: str, where: dict[str, Any]) -> None:
    """
    Whichever of them is asked.
    """
    two = [INTEGRATIONS[integration](**where) for _ in range(2)]

    assert [200] * LIMIT + [429] * 2 == [ask() for _, ask in zip(range(LIMIT + 2), itertools.cycle(two), strict=False)]


async def test_django_under_asgi_does_so_too(where: dict[str, Any]) -> None:
    """
    By views that are awaited.
    """
    assert [200] * LIMIT + [429] * 2 == [await _django_async(**where) for _ in range(LIMIT + 2)]
