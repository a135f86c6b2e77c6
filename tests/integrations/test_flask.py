"""
Flask with the extension: the application, views, blueprints, settings, error handlers.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest
from flask import Blueprint, Flask, g
from flask.views import MethodView
from werkzeug.exceptions import TooManyRequests

from tidegate.errors import ConfigError, QuotaError
from tidegate.integrations.flask import RequestDenied, Tidegate, exempt, limit, limit_blueprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from flask import Request

    from tests.integrations.wsgi_serving import Threaded
    from tidegate.testing import ManualClock
else:
    from wsgi_serving import Threaded


@pytest.fixture
def app() -> Flask:
    """
    An application with one view.
    """
    app = Flask("shop")
    app.add_url_rule("/", "index", hello)
    return app


def hello() -> str:
    """
    A view.
    """
    return "hello"


def statuses(app: Flask, *paths: str, **headers: str) -> list[int]:
    """
    The statuses of requests, one after the other.
    """
    client = app.test_client()
    return [client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()}).status_code for path in paths]


def test_every_response_tells_what_is_left(app: Flask, clock: ManualClock) -> None:
    """
    Also those of views that raise and of paths that do not exist, over real HTTP.
    """
    Tidegate(app, "4/minute", clock=clock)
    app.add_url_rule("/broken", "broken", lambda: str(1 // 0))
    with Threaded(app) as site:
        answers = [site.ask("GET", path) for path in ("/", "/broken", "/nowhere", "/", "/")]

    assert [200, 500, 404, 200, 429] == [answer.status for answer in answers]
    assert [3, 2, 1, 0, 0] == [answer.left["limit"]["r"] for answer in answers]
    assert all(answer.policies == {"limit": {"q": 4, "w": 60}} for answer in answers)
    assert "60" == answers[-1].field("Retry-After")


def test_a_denial_is_a_problem_document(app: Flask) -> None:
    """
    RFC 9457, where nobody says otherwise.
    """
    Tidegate(app, "1/minute")
    with Threaded(app) as site:
        site.ask()
        answer = site.ask()

    assert (429, "application/problem+json", "no-store") == (answer.status, answer.field("Content-Type"), answer.field("Cache-Control"))
    assert "Quota Exceeded" == json.loads(answer.body)["title"]


@pytest.mark.parametrize("kind", [429, TooManyRequests, RequestDenied])
def test_an_error_handler_answers_denials(app: Flask, kind: type[Exception] | int, clock: ManualClock) -> None:
    """
    It is told the decision. What it says about when to come back is not said twice.
    """
    Tidegate(app, "1/minute", clock=clock)

    @app.errorhandler(kind)
    def slow_down(error: RequestDenied) -> tuple[str, int, dict[str, str]]:
        return f"limit {error.decision.limit}", 420, {"Retry-After": str(error.retry_after)}

    with Threaded(app) as site:
        site.ask()
        answer = site.ask()

    assert (420, b"limit 1") == (answer.status, answer.body)
    assert "60" == answer.field("Retry-After")
    assert 0 == answer.left["limit"]["r"]


def test_a_view_has_a_limit_of_its_own(app: Flask) -> None:
    """
    Beside that of the application: both count, and both are told.
    """
    Tidegate(app, "10/minute")
    app.add_url_rule("/search", "search", limit("2/minute")(hello))
    app.add_url_rule("/other", "other", limit("2/minute")(hello))
    with Threaded(app) as site:
        answers = [site.ask("GET", path) for path in ("/search", "/search", "/search", "/other")]

    assert [200, 200, 429, 200] == [answer.status for answer in answers]
    assert {"limit": 9, "2-per-minute": 1} == {name: said["r"] for name, said in answers[0].left.items()}
    assert ["2-per-minute"] == list(answers[2].policies)


def test_what_a_view_denies_is_not_charged_by_the_application(app: Flask) -> None:
    """
    A denied request costs nothing, whoever denies it.
    """
    Tidegate(app, "3/minute")
    app.add_url_rule("/search", "search", limit("1/minute")(hello))

    assert [200, 429, 429, 429, 200, 200, 429] == statuses(app, *["/search"] * 4, "/", "/", "/")


def test_two_limits_of_one_view_count_for_themselves(app: Flask) -> None:
    """
    Also if they are written alike: by user and by address.
    """
    Tidegate(app)
    view = limit("3/minute", key=lambda request: request.headers["x-user"])(limit("3/minute")(hello))
    app.add_url_rule("/search", "search", view)

    assert [200, 200] == statuses(app, "/search", "/search", X_User="a")
    assert [200, 429] == statuses(app, "/search", "/search", X_User="b")


def test_views_of_one_scope_are_counted_together(app: Flask) -> None:
    """
    Such as all that send mails.
    """
    Tidegate(app)
    mails = limit("2/minute", scope="mails")
    app.add_url_rule("/invite", "invite", mails(hello))
    app.add_url_rule("/remind", "remind", mails(hello))

    assert [200, 200, 429, 429] == statuses(app, "/invite", "/remind", "/invite", "/remind")


def test_a_limit_above_its_route_is_told_at_the_first_request(app: Flask, caplog: pytest.LogCaptureFixture) -> None:
    """
    It limits nothing, which nobody would notice. A view that is registered with and without a limit is meant so.
    """
    Tidegate(app)

    @limit("1/minute")
    @app.get("/above")
    def above() -> str:
        return "above"

    @app.get("/below")
    @limit("1/minute")
    def below() -> str:
        return "below"

    def twice() -> str:
        return "twice"

    app.add_url_rule("/free", "free", twice)
    app.add_url_rule("/limited", "limited", limit("1/minute")(limit("2/minute")(twice)))
    client = app.test_client()
    assert (above.__name__, below.__name__) == ("above", "below")
    answers = [client.get(path).status_code for path in ("/above", "/above", "/below", "/below", "/limited", "/limited", "/free")]

    assert [200, 200, 200, 429, 200, 429, 200] == answers
    assert ["the view 'above' is not limited"] == [record.getMessage().partition(":")[0] for record in caplog.records]


def test_async_views_are_limited(app: Flask) -> None:
    """
    Flask runs them on an event loop of their own.
    """
    Tidegate(app)

    @app.get("/async")
    @limit("1/minute")
    async def view() -> str:
        return "async"

    assert [200, 429] == statuses(app, "/async", "/async")


def test_methods_of_class_based_views_are_limited(app: Flask) -> None:
    """
    Each method by a decorator, or all of them by the class's list.
    """
    Tidegate(app)

    class Single(MethodView):
        @limit("1/minute")
        def get(self) -> str:
            return "got"

        def post(self) -> str:
            return "posted"

    class Listed(MethodView):
        decorators = [limit("1/minute")]  # noqa: RUF012  # as Flask writes it

        def get(self) -> str:
            return "got"

    app.add_url_rule("/single", view_func=Single.as_view("single"))
    app.add_url_rule("/listed", view_func=Listed.as_view("listed"))

    assert [200, 429, 200, 429] == statuses(app, "/single", "/single", "/listed", "/listed")
    assert 200 == app.test_client().post("/single").status_code


def test_a_blueprint_has_a_limit_of_its_own(app: Flask) -> None:
    """
    For all of its views together, and for those of a blueprint inside it.
    """
    api, admin = Blueprint("api", "api", url_prefix="/api"), Blueprint("admin", "admin", url_prefix="/admin")
    api.add_url_rule("/a", "a", hello)
    admin.add_url_rule("/b", "b", hello)
    limit_blueprint(api, "2/minute")
    api.register_blueprint(admin)
    app.register_blueprint(api)
    Tidegate(app)

    assert [200, 200, 429, 429, 200] == statuses(app, "/api/a", "/api/admin/b", "/api/a", "/api/admin/b", "/")


def test_exempt_views_and_blueprints_are_not_limited(app: Flask) -> None:
    """
    By the application and by blueprints; what a view says of itself still holds.
    """
    internal = Blueprint("internal", "internal", url_prefix="/internal")
    internal.add_url_rule("/a", "a", hello)
    app.register_blueprint(exempt(internal))
    app.add_url_rule("/healthz", "healthz", exempt(lambda: "well"))
    app.add_url_rule("/own", "own", exempt(limit("1/minute")(hello)))
    Tidegate(app, "1/minute", exempt=["/static/*"])

    assert [200] * 4 == statuses(app, "/healthz", "/healthz", "/internal/a", "/internal/a")
    assert [404, 404, 200, 429] == statuses(app, "/static/a.css", "/static/b.css", "/own", "/own")
    assert [200, 429] == statuses(app, "/", "/")


def test_settings_of_the_application_say_the_same(app: Flask) -> None:
    """
    Arguments win over them.
    """
    app.config.update(TIDEGATE_QUOTAS="1/minute", TIDEGATE_HEADERS=False, TIDEGATE_EXEMPT=["/healthz"])
    extension = Tidegate(quotas="2/minute")
    extension.init_app(app)
    client = app.test_client()

    assert [200, 200, 429] == statuses(app, "/", "/", "/")
    assert "RateLimit" not in client.get("/").headers
    assert 404 == client.get("/healthz").status_code


def test_a_test_can_switch_it_off(app: Flask) -> None:
    """
    With all that decorators say.
    """
    app.config["TIDEGATE_ENABLED"] = False
    app.add_url_rule("/search", "search", limit("1/minute")(hello))
    Tidegate(app, "1/minute")

    assert [200] * 4 == statuses(app, "/", "/", "/search", "/search")


def test_wrong_settings_are_refused_at_once(app: Flask) -> None:
    """
    With the names that there are.
    """
    app.config["TIDEGATE_QUOTA"] = "1/minute"
    with pytest.raises(ConfigError, match="TIDEGATE_QUOTAS"):
        Tidegate(app)
    with pytest.raises(QuotaError):
        limit("often")


def test_the_extension_comes_once(app: Flask) -> None:
    """
    Twice would count every request twice.
    """
    Tidegate(app, "1/minute")
    with pytest.raises(ConfigError, match="already"):
        Tidegate(app, "1/minute")


def test_a_decorator_without_the_extension_is_an_error(app: Flask) -> None:
    """
    And not a view that nobody limits.
    """
    app.add_url_rule("/search", "search", limit("1/minute")(hello))
    app.testing = True
    with pytest.raises(ConfigError, match=r"Tidegate\(app\)"):
        app.test_client().get("/search")


def test_quotas_of_views_need_a_store_beside_a_service(app: Flask) -> None:
    """
    The service has rules of its own, and cannot count what stands in the code.
    """
    Tidegate(app, service="http://127.0.0.1:9")
    app.add_url_rule("/search", "search", exempt(limit("1/minute")(hello)))
    app.testing = True
    with pytest.raises(ConfigError, match="store="):
        app.test_client().get("/search")


def test_a_key_can_be_what_an_earlier_function_found(app: Flask) -> None:
    """
    Functions that were registered before the extension run before it.
    """

    @app.before_request
    def who() -> None:
        from flask import request  # noqa: PLC0415

        g.user = request.headers.get("x-user")

    Tidegate(app, "1/minute", key=lambda _: g.user)

    assert [200, 429] == statuses(app, "/", "/", X_User="a")
    assert [200] == statuses(app, "/", X_User="b")


@pytest.mark.parametrize("key", [lambda _: None, lambda _: "", lambda request: request.nonsense], ids=["None", "empty", "raises"])
def test_a_key_of_no_use_counts_by_address(app: Flask, key: Callable[[Request], str], caplog: pytest.LogCaptureFixture) -> None:
    """
    For the application and for views, which count whom the application counts.
    """
    Tidegate(app, "2/minute", key=key)
    app.add_url_rule("/search", "search", exempt(limit("1/minute")(hello)))
    with caplog.at_level(logging.WARNING):
        assert [200, 200, 429, 200, 429] == statuses(app, "/", "/", "/", "/search", "/search")

    assert 2 == len(caplog.records)


def test_a_request_context_made_by_hand_counts_as_well(app: Flask) -> None:
    """
    As in tests of views that need no server.
    """
    Tidegate(app)
    view = limit("1/minute")(hello)
    app.add_url_rule("/search", "search", view)
    with app.test_request_context("/search"):
        assert "hello" == view()
        with pytest.raises(RequestDenied) as denied:
            view()

    assert denied.value.decision.retry_after == pytest.approx(60, abs=10)


def test_the_application_comes_first() -> None:
    """
    Quotas in its place are told.
    """
    with pytest.raises(ConfigError, match="the application comes first"):
        Tidegate("5/minute")  # type: ignore[arg-type]  # what is tested
