"""
WSGI applications under `RateLimit`, over real HTTP: what is counted, for whom, and what clients are told.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from tidegate import Limiter
from tidegate.errors import ConfigError
from tidegate.integrations.wsgi import DECISION, RateLimit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from wsgiref.types import StartResponse, WSGIEnvironment

    from tests.integrations.wsgi_serving import Threaded
    from tidegate.testing import ManualClock
else:
    from wsgi_serving import Threaded

RULES = """
version: 1
identity: [{header: x-api-key}, {ip: {}}]
rules:
  - {name: per_client, per: client, quotas: 100/minute}
  - {name: search, match: {path: /search/**, query: {deep: "1"}}, per: client, quotas: 1/minute}
  - {name: umlaut, match: {path: /größe}, per: client, quotas: 2/minute}
"""


class Application:
    """
    Answers what was asked, and counts how often it was.
    """

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """
        The face of a WSGI application.
        """
        self.paths.append(environ["PATH_INFO"])
        start_response("200 OK", [("Content-Type", "text/plain"), ("X-Own", "1")])
        return [b"hello"]


@pytest.fixture
def application() -> Application:
    """
    An application that anybody may call.
    """
    return Application()


def test_every_response_tells_what_is_left(application: Application, clock: ManualClock) -> None:
    """
    Fields that a library for structured fields understands, beside those of the application.
    """
    with Threaded(RateLimit(application, "3/minute", clock=clock)) as site:
        answers = [site.ask() for _ in range(4)]

    assert [200, 200, 200, 429] == [answer.status for answer in answers]
    assert [2, 1, 0, 0] == [answer.left["limit"]["r"] for answer in answers]
    assert all(answer.policies == {"limit": {"q": 3, "w": 60}} for answer in answers)
    assert ["1", "1", "1", None] == [answer.field("X-Own") for answer in answers]
    assert [None, None, None, "60"] == [answer.field("Retry-After") for answer in answers]
    assert 3 == len(application.paths)


def test_a_denial_is_a_problem_document(application: Application, clock: ManualClock) -> None:
    """
    RFC 9457, with the wait that the header says, and not to be stored by anybody.
    """
    with Threaded(RateLimit(application, "1/minute", clock=clock)) as site:
        site.ask()
        denied = site.ask()
        head = site.ask("HEAD")

    assert "application/problem+json" == denied.field("Content-Type")
    assert "no-store" == denied.field("Cache-Control")
    members = json.loads(denied.body)
    assert (429, 60, "limit") == (members["status"], members["retry_after"], members["rule"])
    assert (429, b"", str(len(denied.body))) == (head.status, head.body, head.field("Content-Length"))


def test_who_waits_as_told_is_admitted(application: Application, clock: ManualClock) -> None:
    """
    And one second earlier is not.
    """
    with Threaded(RateLimit(application, "1/minute", clock=clock)) as site:
        site.ask()
        wait = int(site.ask().field("Retry-After") or 0)
        clock.advance(wait - 1)
        early = site.ask().status
        clock.advance(1)
        in_time = site.ask().status

    assert (429, 200) == (early, in_time)


def test_exempt_paths_are_neither_counted_nor_told(application: Application) -> None:
    """
    Exactly, or by a prefix. A path that climbs out of an exempt folder is not exempt.
    """
    with Threaded(RateLimit(application, "1/minute", exempt=["/healthz", "/static/*"])) as site:
        free = [site.ask("GET", path) for path in ("/healthz", "/static/a.css", "/healthz")]
        climbing = [site.ask("GET", "/static/../admin").status for _ in range(2)]

    assert [200, 200, 200] == [answer.status for answer in free]
    assert all(answer.field("RateLimit") is None for answer in free)
    assert [200, 429] == climbing


def test_an_own_application_answers_denials(application: Application) -> None:
    """
    It finds the decision, and its response has the fields; its own word on when to come back stays alone.
    """

    def denied(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        start_response("503 Busy", [("Retry-After", "7")])
        return [str(environ[DECISION].limit).encode()]

    with Threaded(RateLimit(application, "1/minute", denied=denied)) as site:
        site.ask()
        answer = site.ask()

    assert (503, b"1", "7") == (answer.status, answer.body, answer.field("Retry-After"))
    assert 0 == answer.left["limit"]["r"]


def test_an_application_finds_its_decision() -> None:
    """
    In the environment, so that it can say what is left in its own words.
    """

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        return [str(environ[DECISION].remaining).encode()]

    with Threaded(RateLimit(application, "5/minute")) as site:
        assert b"4" == site.ask().body


def test_clients_are_counted_by_key(application: Application) -> None:
    """
    By what a function makes of the environment; a name that looks like an address is not that address.
    """
    limited = RateLimit(application, "1/minute", key=lambda environ: environ.get("HTTP_X_API_KEY"))
    with Threaded(limited) as site:
        statuses = [site.ask(headers={"X-Api-Key": name}).status for name in ("a", "b", "a", "127.0.0.1", "ip:127.0.0.1")]
        without = site.ask().status

    assert [200, 200, 429, 200, 200, 200] == [*statuses, without]


@pytest.mark.parametrize("said", [None, "", 1.5, object()], ids=["None", "empty", "float", "object"])
def test_a_key_of_no_use_counts_by_address(application: Application, said: object, caplog: pytest.LogCaptureFixture) -> None:
    """
    Such requests are neither free nor an error, and the log says so once.
    """
    with Threaded(RateLimit(application, "2/minute", key=lambda _: said)) as site, caplog.at_level(logging.WARNING):
        assert [200, 200, 429] == site.statuses(3)

    assert 1 == len(caplog.records)


def test_a_key_function_that_raises_counts_by_address(application: Application, caplog: pytest.LogCaptureFixture) -> None:
    """
    Its message is not logged: it may hold the key.
    """

    def key(environ: WSGIEnvironment) -> str:
        raise KeyError(environ["HTTP_X_API_KEY"])

    with Threaded(RateLimit(application, "2/minute", key=key)) as site, caplog.at_level(logging.WARNING):
        statuses = [site.ask(headers={"X-Api-Key": f"secret-{number}"}).status for number in range(3)]

    assert [200, 200, 429] == statuses
    assert 1 == len(caplog.records)
    assert "secret" not in caplog.text


def test_a_forwarded_address_is_believed_only_from_trusted_proxies(application: Application) -> None:
    """
    Otherwise everybody could be somebody new with every request.
    """
    headers = [{"X-Forwarded-For": f"203.0.113.{number}"} for number in range(3)]
    with Threaded(RateLimit(application, "1/minute")) as site:
        spoofed = [site.ask(headers=fields).status for fields in headers]
    with Threaded(RateLimit(application, "1/minute", trusted_proxies=["127.0.0.0/8"])) as site:
        forwarded = [site.ask(headers=fields).status for fields in (*headers, headers[0])]

    assert [200, 429, 429] == spoofed
    assert [200, 200, 200, 429] == forwarded


def test_a_huge_key_is_a_key(application: Application) -> None:
    """
    Sixty thousand letters that differ in the last one are two clients.
    """
    limited = RateLimit(application, "1/minute", key=lambda environ: environ["HTTP_X_API_KEY"])
    with Threaded(limited) as site:
        statuses = [site.ask(headers={"X-Api-Key": "a" * 60_000 + end}).status for end in ("a", "b", "a")]

    assert [200, 200, 429] == statuses


def test_rules_read_paths_queries_and_headers(application: Application, tmp_path: Path) -> None:
    """
    A path is what the application sees, however the client spells it.
    """
    (tmp_path / "rules.yaml").write_text(RULES, encoding="utf-8")
    with Threaded(RateLimit(application, rules=tmp_path / "rules.yaml")) as site:
        search = [site.ask("GET", f"/search/{path}").status for path in ("a?deep=1", "b?deep=0", "%61?deep=1", "a?deep=0&deep=1")]
        umlauts = [site.ask("GET", "/gr%C3%B6%C3%9Fe").status for _ in range(3)]
        other = site.ask("GET", "/search/a?deep=1", headers={"X-Api-Key": "somebody"}).status
        # Decoded once it is `/search%2Fa`, which is another path.
        encoded = site.ask("GET", "/search%252Fa?deep=1").status

    assert [200, 200, 429, 429] == search
    assert [200, 200, 429] == umlauts
    assert (200, 200) == (other, encoded)


def test_a_thousand_parameters_are_no_way_around(application: Application, tmp_path: Path) -> None:
    """
    Nor an error.
    """
    (tmp_path / "rules.yaml").write_text(RULES, encoding="utf-8")
    padding = "&".join(f"p{number}=1" for number in range(2000))
    with Threaded(RateLimit(application, rules=tmp_path / "rules.yaml")) as site:
        assert [200, 429] == site.statuses(2, f"/search/a?{padding}&deep=1")


def test_the_same_limit_twice_counts_once(application: Application) -> None:
    """
    As for an application that is mounted in another one with the same limit.
    """
    inner = RateLimit(application, "2/minute")
    with Threaded(RateLimit(inner, "2/minute")) as site:
        assert [200, 200, 429] == site.statuses(3)


def test_two_limits_both_count_and_both_tell(application: Application) -> None:
    """
    One for everything and a tighter one for a part.
    """
    inner = RateLimit(application, "2/minute", name="inner")
    with Threaded(RateLimit(inner, "10/minute", name="outer")) as site:
        answers = [site.ask() for _ in range(3)]

    assert [200, 200, 429] == [answer.status for answer in answers]
    assert {"inner": {"q": 2, "w": 60}, "outer": {"q": 10, "w": 60}} == answers[0].policies


def test_fields_can_be_switched_off(application: Application) -> None:
    """
    Then a denial is all that clients learn.
    """
    with Threaded(RateLimit(application, "1/minute", headers=False)) as site:
        answers = [site.ask(), site.ask()]

    assert [200, 429] == [answer.status for answer in answers]
    assert all(answer.field("RateLimit") is None for answer in answers)


def test_a_cost_can_be_asked_of_the_request(application: Application) -> None:
    """
    A function of the environment; a number of no use costs what the rules say.
    """
    costs = iter([3, "many", 7, 1])
    with Threaded(RateLimit(application, "10/minute", cost=lambda _: next(costs))) as site:
        assert [7, 6, 6, 5] == [site.ask().left["limit"]["r"] for _ in range(4)]


def test_a_limiter_that_exists_can_decide(application: Application, tmp_path: Path) -> None:
    """
    It is not closed with the middleware.
    """
    (tmp_path / "rules.yaml").write_text("version: 1\nrules: [{name: all, per: client, quotas: 1/minute}]", encoding="utf-8")
    with Limiter.from_rules(tmp_path / "rules.yaml") as limiter:
        limited = RateLimit(application, limiter=limiter)
        with Threaded(limited) as site:
            assert [200, 429] == site.statuses(2)
        limited.close()

        assert not limiter.closed


@pytest.mark.parametrize(
    "arguments", [{}, {"quotas": "1/minute", "rules": "rules.yaml"}, {"quotas": "often"}, {"quotas": "1/minute", "key": "x"}]
)
def test_wrong_arguments_are_refused(application: Application, arguments: dict[str, Any]) -> None:
    """
    When the application is made, and not at its first request.
    """
    with pytest.raises(ConfigError):
        RateLimit(application, **arguments)


def test_a_leaky_bucket_delays_the_start(application: Application, clock: ManualClock) -> None:
    """
    The second request starts when its turn has come: the clock that stands still is moved by as much.
    """
    before = clock.time()
    with Threaded(RateLimit(application, "1/second queue 10s", clock=clock)) as site:
        assert [200, 200, 200] == site.statuses(3)

    assert 2.0 == pytest.approx(clock.time() - before)
