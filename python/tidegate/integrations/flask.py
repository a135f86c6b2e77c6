"""
Tidegate in Flask: an extension for the whole application, and decorators for views and blueprints.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from flask import Blueprint, Flask
from flask.globals import request_ctx
from werkzeug.exceptions import TooManyRequests

from tidegate.errors import ConfigError
from tidegate.integrations._address import peer_address
from tidegate.integrations._environ import attributes_of, path_of
from tidegate.integrations._exchange import Exchange
from tidegate.integrations._flask_order import note, tell_misplaced
from tidegate.integrations._guard import PROBLEM_JSON, Guard, problem, problem_members
from tidegate.integrations._routes import LimitOptions, RouteGuards, RouteLimit, application_options
from tidegate.integrations._settings import GuardOptions
from tidegate.integrations.wsgi import DECISION, serve

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from flask import Request

    from tidegate import Decision
    from tidegate.quota import Quotas

__all__ = ["RequestDenied", "Tidegate", "exempt", "limit", "limit_blueprint"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Exempted = TypeVar("Exempted", bound=Callable[..., Any] | Blueprint)

PREFIX = "TIDEGATE_"
"""What the names of settings begin with."""

# Once for each request: every look through the proxy itself takes a third of a microsecond.
_current: Callable[[], Any] = request_ctx._get_current_object  # type: ignore[attr-defined]  # noqa: SLF001  # the proxy has it, and it is documented

_EXTENSION = "tidegate"
_EXCHANGE = "tidegate.exchange"
_EXEMPT = "_tidegate_exempt"
_DEPTH = "_tidegate_depth"


class RequestDenied(TooManyRequests):
    """
    A request was denied. Error handlers for it, for `TooManyRequests` or for 429 can answer instead of the problem details (RFC 9457).

    Args:
        decision: The denial.
    """

    def __init__(self, decision: Decision) -> None:
        members = problem_members(decision)
        super().__init__(members["detail"], retry_after=members.get("retry_after"))
        self.decision = decision
        """The denial: `retry_after`, `rule`, `quotas` and the rest."""

    def get_body(self, environ: WSGIEnvironment | None = None, scope: dict[str, Any] | None = None) -> str:  # noqa: ARG002  # werkzeug passes them
        """
        The problem details.
        """
        return problem(self.decision).decode()

    def get_headers(self, environ: WSGIEnvironment | None = None, scope: dict[str, Any] | None = None) -> list[tuple[str, str]]:
        """
        Their type, and when to come back.
        """
        others = [field for field in super().get_headers(environ, scope) if field[0] != "Content-Type"]
        return [("Content-Type", PROBLEM_JSON), ("Cache-Control", "no-store"), *others]


class Tidegate:
    """
    Limits the requests to a Flask application.

    ```python
    from flask import Flask
    from tidegate.integrations.flask import Tidegate, limit

    app = Flask("shop")
    Tidegate(app, "100/minute", exempt=["/static/*"])


    @app.get("/search")
    @limit("5/second")
    def search():
        return "found"
    ```

    Settings of the application say the same: `TIDEGATE_QUOTAS`, and `TIDEGATE_` with the name of any other argument, such as
    `TIDEGATE_STORE`. Arguments win over settings. `TIDEGATE_ENABLED = False` switches everything off, for tests.

    Args:
        app: The application; without it, `init_app` is told later.
        quotas: Quotas for each client of the application, as for `Limiter`; or one of `rules`, `limiter` and `service`. Without all of
            them only decorated views are limited.
        options: As for `Guard`. The functions `key` and `cost` take the request.

    Raises:
        ConfigError: The arguments do not go together, or one of them is wrong.
    """

    def __init__(self, app: Flask | None = None, quotas: Quotas | None = None, **options: Unpack[GuardOptions]) -> None:
        self._quotas, self._options = quotas, options
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """
        Limits the requests to an application, by the arguments of the constructor and the application's settings.

        The check is one of the `before_request` functions: those that are registered earlier, such as one that finds out who the user is,
        run before it.

        Args:
            app: The application.

        Raises:
            ConfigError: A setting is wrong, or the application has the extension already.
        """
        if not isinstance(app, Flask):
            raise ConfigError(f'the application comes first, then the quotas: Tidegate(app, "100/minute"), not {type(app).__name__}')
        if _EXTENSION in app.extensions:
            raise ConfigError("the application has the extension already: limit single views with @limit")
        settings = _settings_of(app) | {key: value for key, value in self._options.items() if value is not None}
        if self._quotas is not None:
            settings["quotas"] = self._quotas
        state = app.extensions[_EXTENSION] = _State(settings)
        app.wsgi_app = _Entry(app.wsgi_app, app)  # type: ignore[method-assign]  # as Flask tells to do it
        if state.guard is not None:
            app.before_request(state.admit)


class _State:
    """
    What an application knows of its limits.

    Args:
        settings: The arguments of the extension and the settings of the application, together.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.is_enabled = bool(settings.pop("enabled", True))
        self.routes = RouteGuards(settings)
        is_limited = any(settings.get(name) is not None for name in ("quotas", "rules", "limiter", "service"))
        self.guard = Guard(settings.get("quotas"), **application_options(settings)) if is_limited else None

    def admit(self) -> None:
        """
        Asks for the whole application, before anything else happens to a request.
        """
        guard = self.guard
        context = _current()
        request = context.request
        if guard is None or not self.is_enabled or _is_exempt(context.app, request):
            return
        if guard.has_exemptions and guard.is_exempt(path_of(request.environ)):
            return
        _ask(guard, request, None)


class _Entry:
    """
    Where requests come in and responses go out: the fields are added here, and slots are held until the body has ended.
    """

    def __init__(self, app: WSGIApplication, flask: Flask) -> None:
        self._app = app
        self._unchecked: Flask | None = flask

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if self._unchecked is not None:
            # All views are there by the first request.
            flask, self._unchecked = self._unchecked, None
            tell_misplaced(flask)
        exchange = environ[_EXCHANGE] = Exchange()
        return serve(self._app, environ, start_response, exchange)


def limit(quotas: Quotas, **options: Unpack[LimitOptions]) -> Callable[[Decorated], Decorated]:
    """
    Limits a view: it stands below `@app.route`. The application's own limit applies as well.

    A request that one of several limits denies is charged by none.

    Args:
        quotas: Quotas for each client, as for `Limiter`.
        options: `key`, a function of the request that says who is counted, by default whoever the application counts. `cost`, how much a
            request takes: a number, or a function of the request. `scope`: views with the same one are counted together, by default each
            for itself. `name`, in headers and metrics, by default the text of the quotas.

    Returns:
        A decorator for views, sync or async, and for methods of class-based ones.

    Raises:
        QuotaError: The quotas are wrong.
    """
    found = RouteLimit.of(quotas, **options)

    def decorate(view: Decorated) -> Decorated:
        # The second limit of a view counts for itself also if it says the same as the first one.
        depth = getattr(view, _DEPTH, 0) + 1
        is_async = inspect.iscoroutinefunction(view)

        @functools.wraps(view)
        def limited(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # whatever the view takes and returns
            context = _current()
            endpoint = context.request.endpoint or view.__qualname__
            _admit(context, found, endpoint if depth == 1 else f"{endpoint} {depth}")
            return context.app.ensure_sync(view)(*args, **kwargs) if is_async else view(*args, **kwargs)

        setattr(limited, _DEPTH, depth)
        note(view, limited)
        return cast(Decorated, limited)

    return decorate


def limit_blueprint(blueprint: Blueprint, quotas: Quotas, **options: Unpack[LimitOptions]) -> None:
    """
    Limits all views of a blueprint together, those of blueprints inside it too. To be called before the blueprint is registered.

    Args:
        blueprint: The blueprint.
        quotas: Quotas for each client, as for `Limiter`.
        options: As for `limit`.

    Raises:
        QuotaError: The quotas are wrong.
    """
    found = RouteLimit.of(quotas, **options)

    def admit() -> None:
        context = _current()
        if not _is_exempt(context.app, context.request):
            _admit(context, found, f"blueprint {blueprint.name}")

    blueprint.before_request(admit)


def exempt(target: Exempted) -> Exempted:
    """
    Frees a view, or all views of a blueprint, from the limits of the application and of blueprints. What `limit` says of a view holds.

    Args:
        target: The view, or the blueprint.

    Returns:
        The same.
    """
    setattr(target, _EXEMPT, True)
    return target


def _admit(context: Any, found: RouteLimit, route: str) -> None:  # noqa: ANN401  # a class that Flask is about to merge with another
    state: _State | None = context.app.extensions.get(_EXTENSION)
    if state is None:
        raise ConfigError("the application has no limits: write Tidegate(app), which tells @limit where to count")
    if state.is_enabled:
        _ask(state.routes.guard_of(found), context.request, state.routes.scope_of(found, route))


def _ask(guard: Guard, request: Request, scope: str | None) -> None:
    environ = request.environ
    exchange: Exchange | None = environ.get(_EXCHANGE)
    if exchange is None:
        # A request context made by hand: nobody sends a response, and the exchange ends when the context is dropped.
        exchange = environ[_EXCHANGE] = Exchange()
    attributes = {"ip": peer_address(environ.get("REMOTE_ADDR"))} if guard.is_simple else attributes_of(environ, guard.reads)
    if scope is not None:
        attributes["scope"] = scope
    decision = environ[DECISION] = exchange.ask(guard, attributes, request)
    if not decision.allowed:
        raise RequestDenied(decision)


def _is_exempt(app: Flask, request: Request) -> bool:
    endpoint = request.endpoint
    if endpoint is None:
        return False
    if hasattr(app.view_functions.get(endpoint), _EXEMPT):
        return True
    return "." in endpoint and any(hasattr(app.blueprints.get(name), _EXEMPT) for name in request.blueprints)


def _settings_of(app: Flask) -> dict[str, Any]:
    known = ("quotas", "enabled", *GuardOptions.__annotations__)
    found: dict[str, Any] = {}
    for setting, value in app.config.items():
        if setting.startswith(PREFIX):
            name = setting.removeprefix(PREFIX).lower()
            if name not in known:
                names = ", ".join(f"{PREFIX}{one.upper()}" for one in known)
                raise ConfigError(f"the setting {setting:.80} is not known: there are {names}")
            if value is not None:
                found[name] = value
    return found
