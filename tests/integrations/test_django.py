"""
Django: the middleware and the decorator, sync and async.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client, override_settings

from tidegate.integrations.django._settings import state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.integrations import django_site
else:
    import django_site

WAYS = ["sync", "async"]


class Site:
    """
    The site, asked by Django's own client: as under WSGI, or as under ASGI.
    """

    def __init__(self, way: str) -> None:
        self.way = way

    def ask(self, path: str = "/", method: str = "get", **headers: str) -> Any:  # noqa: ANN401  # Django's response, with what its client adds
        """
        One request.
        """
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.way == "sync":
            return getattr(Client(raise_request_exception=False), method)(path, headers=named)
        return async_to_sync(getattr(AsyncClient(raise_request_exception=False), method))(path, headers=named)

    def statuses(self, *paths: str, **headers: str) -> list[int]:
        """
        The statuses of requests, one after the other.
        """
        return [self.ask(path, **headers).status_code for path in paths]


@pytest.fixture(params=WAYS)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """
    The site, without limits unless the test sets them. Afterwards nothing is held.
    """
    with override_settings(TIDEGATE={}, MIDDLEWARE=[django_site.MIDDLEWARE]):
        yield Site(request.param)


@pytest.fixture
def configure(eventually: Callable[[Callable[[], bool]], None]) -> Iterator[Callable[..., None]]:
    """
    Sets `TIDEGATE` for the rest of the test.
    """
    overrides: list[Any] = []

    def configure(**setting: Any) -> None:  # noqa: ANN401  # whatever the setting has
        overrides.append(override_settings(TIDEGATE=setting))
        overrides[-1].enable()

    yield configure
    guards = [*([found] if (found := state().guard) else []), *state().routes._guards.values()]
    eventually(lambda: not any(guard.held for guard in guards))
    for override in reversed(overrides):
        override.disable()


def test_every_response_tells_what_is_left(site: Site, configure: Callable[..., None]) -> None:
    """
    Also those of views that raise and of paths that do not exist.
    """
    configure(QUOTAS="4/minute")
    answers = [site.ask(path) for path in ("/", "/broken", "/nowhere", "/", "/")]

    assert [200, 500, 404, 200, 429] == [answer.status_code for answer in answers]
    assert ['"limit";r=3;t=60', '"limit";r=2;t=60'] == [answer.headers["RateLimit"] for answer in answers[:2]]
    assert all(answer.headers["RateLimit-Policy"] == '"limit";q=4;w=60' for answer in answers)
    assert "application/problem+json" == answers[-1].headers["Content-Type"]
    assert int(answers[-1].headers["Retry-After"]) == json.loads(answers[-1].content)["retry_after"]


def test_exempt_paths_are_not_limited(site: Site, configure: Callable[..., None]) -> None:
    """
    And tell nothing.
    """
    configure(QUOTAS="1/minute", EXEMPT=["/healthz"])

    assert [200, 200, 200, 200, 429] == site.statuses("/healthz", "/healthz", "/healthz", "/", "/")
    assert "RateLimit" not in site.ask("/healthz").headers


def test_a_view_of_the_site_answers_denials(site: Site, configure: Callable[..., None]) -> None:
    """
    Those of the middleware and those of decorators; the fields are added to its response.
    """
    configure(QUOTAS="4/minute", DENIED=f"{__name__}.slow_down")
    site.statuses("/few", "/few")
    by_view = site.ask("/few")
    site.statuses("/", "/")
    by_site = site.ask("/")

    assert (420, b"limit 2", 420, b"limit 4") == (by_view.status_code, by_view.content, by_site.status_code, by_site.content)
    assert "Retry-After" in by_view.headers
    assert "Retry-After" in by_site.headers


def slow_down(request: HttpRequest, decision: Any) -> HttpResponse:  # noqa: ANN401
    """
    The view of the test above.
    """
    return HttpResponse(f"limit {decision.limit}", status=420)


@pytest.mark.parametrize("path", ["/few", "/few_async", "/classy", "/classy_async"])
def test_a_view_has_a_limit_of_its_own(site: Site, configure: Callable[..., None], path: str) -> None:
    """
    Functions and classes, sync and async; what it denies is not charged by the site.
    """
    configure(QUOTAS="5/minute")
    first = site.ask(path)

    assert "q=5;w=60" in first.headers["RateLimit-Policy"]
    assert '"2-per-minute";q=2;w=60' in first.headers["RateLimit-Policy"]
    assert [200, 429, 429, 429, 200, 200, 200, 429] == site.statuses(path, path, path, path, "/", "/", "/", "/")


def test_two_limits_of_one_view_count_for_themselves(site: Site, configure: Callable[..., None]) -> None:
    """
    By user and by address.
    """
    configure()

    assert [200, 200] == site.statuses("/twice", "/twice", x_user="a")
    assert [200, 429] == site.statuses("/twice", "/twice", x_user="b")


def test_views_tell_without_the_middleware(site: Site) -> None:
    """
    The responses of limited views have the fields of all their limits.
    """
    with override_settings(MIDDLEWARE=[], TIDEGATE={}):
        answer = site.ask("/twice", x_user="a")
        few = [site.ask("/few") for _ in range(3)]

    assert '"3-per-minute";q=3;w=60, "3-per-minute";q=3;w=60' == answer.headers["RateLimit-Policy"]
    assert [200, 200, 429] == [one.status_code for one in few]
    assert "Retry-After" in few[-1].headers


def test_rules_read_paths_and_queries(site: Site, configure: Callable[..., None], tmp_path: Path) -> None:
    """
    A path is what the site sees, however the client spells it.
    """
    (tmp_path / "rules.yaml").write_text(
        "version: 1\nrules:\n"
        "  - {name: health, match: {path: /healthz}, per: client, quotas: 1/minute}\n"
        "  - {name: deep, match: {query: {deep: '1'}}, per: client, quotas: 1/minute}\n",
        encoding="utf-8",
    )
    configure(RULES=str(tmp_path / "rules.yaml"))

    assert [200, 429, 200, 429] == site.statuses("/healthz", "/%68ealthz", "/?deep=1", "/?deep=0&deep=1")


@pytest.mark.parametrize("key", ["nothing", "fails"])
def test_a_key_of_no_use_counts_by_address(site: Site, configure: Callable[..., None], key: str, caplog: pytest.LogCaptureFixture) -> None:
    """
    Such requests are neither free nor an error, and the log says so once, without the key.
    """
    configure(QUOTAS="2/minute", KEY=f"{__name__}.{key}")
    with caplog.at_level(logging.WARNING, logger="tidegate"):
        assert [200, 200, 429] == site.statuses("/", "/", "/", x_user="secret")

    assert 1 == len([record for record in caplog.records if record.name.startswith("tidegate")])
    assert "secret" not in caplog.text


def nothing(request: HttpRequest) -> None:
    """
    A key function of no use.
    """


def fails(request: HttpRequest) -> str:
    """
    One that raises.
    """
    raise KeyError(request.headers["x-user"])


async def by_user_async(request: HttpRequest) -> str:
    """
    One that has to be awaited.
    """
    return request.headers["x-user"]


def test_a_key_function_can_be_async_under_asgi(configure: Callable[..., None]) -> None:
    """
    It is awaited.
    """
    configure(QUOTAS="1/minute", KEY=f"{__name__}.by_user_async")
    site = Site("async")

    assert [200, 429] == site.statuses("/", "/", x_user="a")
    assert [200] == site.statuses("/", x_user="b")


def test_spoofed_addresses_are_not_believed(site: Site, configure: Callable[..., None]) -> None:
    """
    Nor is a key of sixty thousand letters a problem.
    """
    configure(QUOTAS="1/minute")

    assert [200] == site.statuses("/", x_forwarded_for="203.0.113.1")
    assert [429] == site.statuses("/", x_forwarded_for="203.0.113.2" * 5000)


@pytest.mark.parametrize("path", ["/", "/broken", "/file", "/nowhere", "/few", "/few_async"])
@pytest.mark.parametrize("method", ["get", "head"])
def test_a_response_that_has_ended_holds_nothing(site: Site, configure: Callable[..., None], path: str, method: str) -> None:
    """
    Whatever its kind.
    """
    configure(QUOTAS="2 concurrent")
    answer = site.ask(path, method)
    if answer.streaming:
        assert (b"content" if method == "get" else b"") == b"".join(answer)
        answer.close()
    guard = state().guard
    assert guard is not None

    assert 0 == guard.held


def test_everything_can_be_switched_off(site: Site, configure: Callable[..., None]) -> None:
    """
    For tests of the site.
    """
    configure(QUOTAS="1/minute", ENABLED=False)

    assert [200] * 5 == site.statuses("/", "/", "/few", "/few", "/few")
    assert "RateLimit" not in site.ask("/").headers
