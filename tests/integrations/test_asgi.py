"""
The ASGI middleware, over real HTTP: who is counted, what is told, who is let through.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route

from tidegate import Limiter
from tidegate.errors import ConfigError
from tidegate.integrations.asgi import RateLimit, decisions

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request
    from starlette.responses import Response

    from tests.conftest import Eventually
    from tests.integrations.serving import Served, left, policies
    from tidegate import Decision
    from tidegate.testing import ManualClock
else:
    from serving import Served, left, policies


async def hello(request: Request) -> Response:
    """
    Answers what the middleware decided.
    """
    return JSONResponse([decision.remaining for decision in decisions(request.scope)])


async def missing(_request: Request) -> Response:
    """
    An error that the application means.
    """
    raise HTTPException(404, "nothing here")


async def broken(_request: Request) -> Response:
    """
    An error that it does not mean.
    """
    raise ValueError("broken")


def make(*routes: Any) -> Starlette:  # noqa: ANN401  # routes and mounts
    """
    An application.
    """
    return Starlette(routes=[Route("/", hello), Route("/missing", missing), Route("/broken", broken), *routes])


def header(name: str) -> Any:  # noqa: ANN401  # a key function
    """
    A key function that takes a header.
    """

    def key(scope: Any) -> Any:  # noqa: ANN401  # as ASGI has it
        return next((value.decode("latin-1") for field, value in scope["headers"] if field == name.encode()), None)

    return key


def test_every_response_tells_what_is_left(clock: ManualClock) -> None:
    """Also the application's own errors, and those that nobody handled; read by a library of structured fields."""
    with Served(RateLimit(make(), "4/minute, 100/hour", clock=clock)) as served:
        answers = [served.ask(path) for path in ("/", "/missing", "/nowhere", "/broken")]

    assert [200, 404, 404, 500] == [answer.status for answer in answers]
    assert [{"limit:4/minute": count} for count in (3, 2, 1, 0)] == [left(answer) for answer in answers]
    assert {"limit:4/minute": {"q": 4, "w": 60}, "limit:100/hour": {"q": 100, "w": 3600}} == policies(answers[0])


def test_a_denial_is_a_problem_that_tells_the_truth(clock: ManualClock) -> None:
    """429 with problem details. Who waits as long as it says is admitted, and a moment earlier is not."""
    with Served(RateLimit(make(), "2/minute", clock=clock)) as served:
        assert [200, 200] == [served.ask().status for _ in range(2)]
        denied = served.ask()
        wait = int(denied.headers["retry-after"])
        clock.advance_ns(wait * 1_000_000_000 - 1)
        early = served.ask()
        clock.advance_ns(1)
        late = served.ask()

    assert (429, "application/problem+json", "no-store") == (denied.status, denied.headers["content-type"], denied.headers["cache-control"])
    assert {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Quota Exceeded",
        "status": 429,
        "detail": "try again in 60 s",
        "retry_after": 60,
        "rule": "limit",
        "violated-policies": ["limit"],
    } == denied.json
    assert {"limit": 0} == left(denied)
    assert (429, 200) == (early.status, late.status)


def test_a_denied_head_has_no_body() -> None:
    """The length is that of the body which a GET would have."""
    with Served(RateLimit(make(), "0/minute")) as served:
        denied = served.ask(method="HEAD")

    assert (429, b"") == (denied.status, denied.body)
    assert int(denied.headers["content-length"]) > 100


def test_headers_can_be_switched_off(clock: ManualClock) -> None:
    """Then nothing is told, also on a denial; the body still says when to come back."""
    with Served(RateLimit(make(), "1/minute", headers=False, clock=clock)) as served:
        answers = [served.ask() for _ in range(2)]

    assert [200, 429] == [answer.status for answer in answers]
    assert all("ratelimit" not in answer.headers and "retry-after" not in answer.headers for answer in answers)
    assert 60 == answers[1].json["retry_after"]


def test_a_denial_can_be_made_by_the_application(clock: ManualClock) -> None:
    """By a function of the scope and the decision, blocking or async; the fields are added to it."""

    async def denied(scope: Any, decision: Decision) -> Response:  # noqa: ANN401  # as ASGI has it
        return PlainTextResponse(f"{scope['path']} in {decision.retry_after:.0f} s", 503)

    with Served(RateLimit(make(), "1/minute", denied=denied, clock=clock)) as served:
        answer = [served.ask("/missing") for _ in range(2)][1]

    assert (503, b"/missing in 60 s", "60") == (answer.status, answer.body, answer.headers["retry-after"])
    assert {"limit": 0} == left(answer)


def test_a_denial_that_cannot_be_made_is_a_problem(caplog: pytest.LogCaptureFixture) -> None:
    """A function that fails neither fails the request nor lets it pass, and its message is not logged."""

    def denied(_scope: Any, _decision: Decision) -> Response:  # noqa: ANN401  # as ASGI has it
        raise RuntimeError("a secret")

    with Served(RateLimit(make(), "0/minute", denied=denied)) as served:
        answer = served.ask()

    assert (429, "application/problem+json") == (answer.status, answer.headers["content-type"])
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text


def test_exempt_paths_are_neither_limited_nor_counted() -> None:
    """Nor told anything; and `..` does not lead out of what is exempt."""
    app = make(Route("/healthz", hello), Route("/static/{path:path}", hello))
    with Served(RateLimit(app, "1/minute", exempt=["/healthz", "/static/*"])) as served:
        free = [served.ask(path) for path in ("/healthz", "/static/a/b", "/static/c", "/healthz")]
        counted = [served.ask(path) for path in ("/static/../healthz", "/", "/healthz/x")]

    assert [200] * 4 == [answer.status for answer in free]
    assert all("ratelimit" not in answer.headers for answer in free)
    assert [200, 429, 429] == [answer.status for answer in counted]


def test_each_key_is_counted_by_itself() -> None:
    """A key function takes the scope; it may be async."""
    by_header = header("x-api-key")

    async def key(scope: Any) -> Any:  # noqa: ANN401  # as ASGI has it
        return by_header(scope)

    with Served(RateLimit(make(), "2/minute", key=key)) as served:
        statuses = [served.ask(headers={"X-Api-Key": name}).status for name in ("a", "a", "b", "a", "b", "b")]

    assert [200, 200, 200, 429, 200, 429] == statuses


@pytest.mark.parametrize("said", [None, "", b"bytes", True, object(), ValueError("a secret")], ids=repr)
def test_without_a_usable_key_the_address_is_counted(said: object, caplog: pytest.LogCaptureFixture) -> None:
    """Never free and never a 500. It is logged once, without what was said."""

    def key(_scope: Any) -> Any:  # noqa: ANN401  # as ASGI has it
        if isinstance(said, Exception):
            raise said
        return said

    with caplog.at_level(logging.WARNING), Served(RateLimit(make(), "2/minute", key=key)) as served:
        statuses = [served.ask().status for _ in range(3)]

    assert [200, 200, 429] == statuses
    assert 1 == len([record for record in caplog.records if record.name == "tidegate.integrations"])
    assert "secret" not in caplog.text


def test_nobody_can_pose_as_an_address_by_a_key() -> None:
    """A key that spells an address is a client of its own."""
    with Served(RateLimit(make(), "1/minute", key=header("x-api-key"))) as served:
        posing = [served.ask(headers={"x-api-key": name}).status for name in ("127.0.0.1", "ip:127.0.0.1")]
        honest = served.ask()

    assert [200, 200] == posing
    assert 200 == honest.status


def test_forwarded_addresses_are_believed_from_trusted_proxies_only() -> None:
    """Otherwise everybody could be somebody new with each request."""
    forged = [{"x-forwarded-for": f"203.0.113.{number}"} for number in range(3)]
    with Served(RateLimit(make(), "1/minute")) as served:
        untrusted = [served.ask(headers=fields).status for fields in forged]
    with Served(RateLimit(make(), "1/minute", trusted_proxies=["127.0.0.0/8"])) as served:
        trusted = [served.ask(headers=fields).status for fields in [*forged, forged[0]]]
        spoofed = [served.ask(headers={"x-forwarded-for": f"198.51.100.{number}, 203.0.113.9"}).status for number in range(2)]

    assert [200, 429, 429] == untrusted
    assert [200, 200, 200, 429] == trusted
    assert [200, 429] == spoofed


def test_huge_headers_are_keys_like_others() -> None:
    """They cost no more room, and differ by their last letter."""
    huge = "k" * 40_000
    with Served(RateLimit(make(), "1/minute", key=header("x-api-key")), h11_max_incomplete_event_size=200_000, http="h11") as served:
        statuses = [served.ask(headers={"x-api-key": key}).status for key in (huge, huge, huge + "a")]

    assert [200, 429, 200] == statuses


@pytest.mark.parametrize("cost", [3, lambda scope: int(scope["query_string"])], ids=["number", "function"])
def test_a_request_can_cost_more(cost: Any) -> None:  # noqa: ANN401  # as `Cost`
    """By a number, or by a function of the request."""
    with Served(RateLimit(make(), "7/minute", cost=cost)) as served:
        answers = [served.ask("/?3") for _ in range(3)]

    assert [200, 200, 429] == [answer.status for answer in answers]
    assert [{"limit": 4}, {"limit": 1}] == [left(answer) for answer in answers[:2]]


@pytest.mark.parametrize("said", [-1, 2**53 + 1, "3", None, ZeroDivisionError()], ids=repr)
def test_a_cost_that_is_none_is_that_of_the_rules(said: object) -> None:
    """Never free and never a 500."""

    def cost(_scope: Any) -> Any:  # noqa: ANN401  # as ASGI has it
        if isinstance(said, Exception):
            raise said
        return said

    with Served(RateLimit(make(), "1/minute", cost=cost)) as served:
        assert [200, 429] == [served.ask().status for _ in range(2)]


RULES = """
version: 1
identity:
  - header: x-api-key
  - ip: {trusted_proxies: []}
rules:
  - {name: writes, match: {method: POST, path: /orders/**}, per: client, quotas: 1/minute}
  - {name: beta, match: {headers: {x-beta: "yes"}, host: "*.example.com"}, per: client, quotas: 2/minute}
  - {name: exports, match: {query: {export: csv}}, per: client, quotas: 3/minute}
"""


def test_rules_decide_by_everything_that_a_request_says(tmp_path: Path) -> None:
    """Method, path, host, headers, query; and several ways to write the same path are one."""
    (tmp_path / "rules.yaml").write_text(RULES)
    with Served(RateLimit(make(), rules=tmp_path / "rules.yaml")) as served:
        free = [served.ask("/") for _ in range(5)]
        paths = ("/orders/1", "/orders//2", "/x/../orders/3", "/%6Frders/4")
        writes = [served.ask(path, {"x-api-key": "a"}, "POST") for path in paths]
        beta = [served.ask("/", {"X-Beta": "yes", "Host": "api.example.com:80"}) for _ in range(3)]
        exports = [served.ask("/?page=2&export=xls&export=%63sv") for _ in range(4)]

    assert all(answer.status == 200 and "ratelimit" not in answer.headers for answer in free)
    assert [404, 429, 429, 429] == [answer.status for answer in writes]
    assert "writes" == writes[1].json["rule"]
    assert [200, 200, 429] == [answer.status for answer in beta]
    assert [200, 200, 200, 429] == [answer.status for answer in exports]


def test_a_path_is_what_the_application_sees() -> None:
    """An encoded slash is one to the application, so the rule for the path holds; an encoded percent sign is not decoded twice."""
    rules = "{version: 1, rules: [{name: login, match: {path: /api/login}, per: global, quotas: 1/minute}]}"
    with Limiter.from_rules(_loaded(rules)) as limiter:
        app = make(Route("/api/login", hello), Route("/api/{rest}", hello))
        with Served(RateLimit(app, limiter=limiter)) as served:
            statuses = [served.ask(path).status for path in ("/api/login", "/api%2Flogin", "/api/log%2569n", "/api/login%3Fx")]

    assert [200, 429, 200, 200] == statuses


def _loaded(text: str) -> Any:  # noqa: ANN401  # a rule set
    from tidegate import rules  # noqa: PLC0415  # only here

    return rules.load("rules.yaml", text=text)


def test_changed_rules_come_into_force(tmp_path: Path, eventually: Eventually) -> None:
    """Also what they newly read of a request."""
    file = tmp_path / "rules.yaml"
    file.write_text("{version: 1, rules: [{name: all, per: global, quotas: unlimited}]}")
    with Served(RateLimit(make(), rules=file, watch=True)) as served:
        assert 200 == served.ask(headers={"x-beta": "1"}).status
        (tmp_path / "new").write_text("{version: 1, rules: [{name: beta, match: {headers: {x-beta: '1'}}, per: global, quotas: 0/minute}]}")
        (tmp_path / "new").rename(file)
        eventually(lambda: served.ask(headers={"x-beta": "1"}).status == 429)
        assert 200 == served.ask().status


def test_rules_without_an_identity_count_by_key_or_address(tmp_path: Path) -> None:
    """A rule by client applies to everybody: nobody is free because nobody named it."""
    file = tmp_path / "rules.yaml"
    file.write_text("{version: 1, rules: [{name: each, per: client, quotas: 1/minute, overrides: {acme: 3/minute}}]}")
    with Served(RateLimit(make(), rules=file)) as served:
        by_address = [served.ask().status for _ in range(2)]
    with Served(RateLimit(make(), rules=file, key=header("x-api-key"))) as served:
        acme = [served.ask(headers={"x-api-key": "acme"}).status for _ in range(4)]
        nameless = [served.ask().status for _ in range(2)]

    assert [200, 429] == by_address
    assert [200, 200, 200, 429] == acme
    assert [200, 429] == nameless


def test_a_mounted_application_with_the_same_limit_counts_once() -> None:
    """And one with another limit counts for itself."""
    rules = "{version: 1, rules: [{name: limit, per: global, quotas: 3/minute}]}"
    with Limiter.from_rules(_loaded(rules)) as limiter:
        same = RateLimit(make(), limiter=limiter)
        other = RateLimit(make(), "1/minute", name="inner")
        with Served(RateLimit(make(Mount("/same", same), Mount("/other", other)), limiter=limiter)) as served:
            answers = [served.ask(path) for path in ("/same/", "/other/", "/other/")]

    assert [200, 200, 429] == [answer.status for answer in answers]
    assert [{"limit": 2}, {"limit": 1, "inner": 0}, {"limit": 0, "inner": 0}] == [left(answer) for answer in answers]
    assert [[2], [1, 0]] == [json.loads(answer.body) for answer in answers[:2]]


def test_shutdown_closes_the_limiter_and_a_second_life_has_a_new_one() -> None:
    """As when the same application is served twice, which tests of applications do."""
    app = RateLimit(make(), "1/minute")
    for _ in range(2):
        with Served(app) as served:
            assert [200, 429] == [served.ask().status for _ in range(2)]
            limiter = app.guard.limiter
        assert getattr(limiter, "closed")  # noqa: B009  # a property that only limiters of this process have
    with Limiter.from_rules(_loaded(RULES)) as own:
        with Served(RateLimit(make(), limiter=own)) as served:
            assert 200 == served.ask().status
        assert not own.closed


def test_an_application_without_a_lifespan_is_served() -> None:
    """It ends at once when it is asked for one, and its limiter is not closed by that."""

    async def app(scope: Any, _receive: Any, send: Any) -> None:  # noqa: ANN401  # as ASGI has them
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    with Served(RateLimit(app, "1/minute")) as served:
        assert [204, 429] == [served.ask().status for _ in range(2)]


def test_wrong_arguments_say_what_to_write() -> None:
    """Before anything is served."""
    with pytest.raises(ConfigError, match="say by what to decide"):
        RateLimit(make())
    with pytest.raises(ConfigError, match="say by what to decide"):
        RateLimit(make(), "1/minute", rules="rules.yaml")
