"""
Starlette: middleware for the whole application, and a decorator for single endpoints.

```python
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from tidegate.integrations.starlette import RateLimit, limit

@limit("5/minute")
async def login(request): ...

app = Starlette(routes=[Route("/login", login)], middleware=[Middleware(RateLimit, "100/minute")])
```
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.websockets import WebSocket

from tidegate.errors import UsageError
from tidegate.integrations import asgi
from tidegate.integrations._asgi_answer import can_answer, with_fields
from tidegate.integrations._asgi_route import RouteLimit
from tidegate.integrations._guard import PROBLEM_JSON, STATUS, problem

if TYPE_CHECKING:
    from typing import Unpack

    from tidegate import Decision
    from tidegate.integrations._asgi_types import Application, Receive, Scope, Send
    from tidegate.integrations._guard import Guard
    from tidegate.integrations._settings import GuardOptions
    from tidegate.quota import Quotas

__all__ = ["RateLimit", "denial", "limit"]

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Denial: TypeAlias = "Callable[[HTTPConnection, Decision], Response]"
"""Makes the response to a denied request."""


class RateLimit(asgi.RateLimit):
    """
    Middleware for the whole application: `app.add_middleware(RateLimit, "100/minute")`.

    The functions `key` and `cost` take an `HTTPConnection`, which is what a request and a WebSocket have in common.

    Args:
        app: The application.
        quotas: Quotas for each client, as for `Limiter`; or `rules`, `limiter` or `service` among the options.
        denied: As for `tidegate.integrations.asgi.RateLimit`.
        options: The same.
    """

    def __init__(
        self, app: Application, quotas: Quotas | None = None, *, denied: asgi.Denial | None = None, **options: Unpack[GuardOptions]
    ) -> None:
        super().__init__(app, quotas, denied=denied, request=HTTPConnection, **options)


def limit(
    quotas: Quotas | None = None, *, scope: str | None = None, denied: Denial | None = None, **options: Unpack[GuardOptions]
) -> Callable[[Endpoint], Endpoint]:
    """
    Decorates an endpoint, blocking or async, for requests or for a WebSocket, so that each call is checked first.

    Args:
        quotas: Quotas for each client of the endpoint, as for `Limiter`; or `rules`, `limiter` or `service` among the options.
        scope: What is counted together: endpoints with the same word share their quotas. Default: each endpoint by itself.
        denied: Makes the response to a denied request, of the request and the decision. Default: problem details.
        options: As for `Guard`, with functions of the request. Limits with the same quotas and store share one limiter.

    Returns:
        The decorator.

    Raises:
        ConfigError: The arguments do not go together, or one of them is wrong.
    """
    route = RouteLimit(quotas, scope, **options)
    deny = denied or denial

    def decorator(endpoint: Endpoint) -> Endpoint:
        if inspect.isclass(endpoint):
            raise UsageError("a class cannot be decorated: decorate its methods, such as get and post")
        wrap = _wrap_async if inspect.iscoroutinefunction(endpoint) else _wrap
        return cast(Endpoint, wrap(endpoint, route, deny))

    return decorator


def denial(_request: HTTPConnection, decision: Decision) -> Response:
    """
    The response to a denied request, where nobody makes another one: 429 with problem details.

    Args:
        _request: The request.
        decision: The denial.

    Returns:
        The response, without the header fields of the decision.
    """
    return Response(problem(decision), STATUS, {"cache-control": "no-store"}, PROBLEM_JSON)


def _wrap_async(endpoint: Callable[..., Awaitable[Any]], route: RouteLimit, deny: Denial) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(endpoint)
    async def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as the endpoint takes and returns them
        connection = _connection(args, kwargs)
        decision = await route.check_async(connection.scope, connection, endpoint)
        if not decision.allowed and isinstance(connection, WebSocket):
            return await _refuse(connection, deny(connection, decision), route.guard, decision)
        if not decision.allowed:
            return _Answer(deny(connection, decision), route.guard, decision)
        try:
            answer = await endpoint(*args, **kwargs)
        except BaseException as error:
            _tell(error, route.guard, decision)
            await route.guard.release_async(decision)
            raise
        if isinstance(connection, WebSocket):
            await route.guard.release_async(decision)
            return answer
        return _Answer(answer, route.guard, decision)

    return call


def _wrap(endpoint: Callable[..., Any], route: RouteLimit, deny: Denial) -> Callable[..., Any]:
    if any(getattr(function, "is_async", False) for function in (route.guard.key, route.guard.cost)):
        raise UsageError("a blocking endpoint cannot await its key or cost: make the endpoint async, or the function blocking")

    @functools.wraps(endpoint)
    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as the endpoint takes and returns them
        connection = _connection(args, kwargs)
        decision = route.check(connection, endpoint)
        if not decision.allowed:
            return _Answer(deny(connection, decision), route.guard, decision)
        try:
            answer = endpoint(*args, **kwargs)
        except BaseException as error:
            _tell(error, route.guard, decision)
            route.guard.release(decision)
            raise
        return _Answer(answer, route.guard, decision)

    return call


class _Answer:
    """
    A response with header fields, that gives slots back when it has ended. Everything else is asked of the response itself.

    Args:
        response: The response.
        guard: Who decided.
        decision: What was decided.
    """

    def __init__(self, response: Any, guard: Guard, decision: Decision) -> None:  # noqa: ANN401  # any ASGI application
        self._response, self._guard, self._decision = response, guard, decision

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # what the response has
        return getattr(self._response, name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        told = with_fields(send, self._decision.header_pairs()) if self._guard.is_telling else send
        await asgi.run_held(self._response, (scope, receive, told), self._guard, self._decision)

    def __del__(self) -> None:
        # A response that somebody threw away is never sent.
        self._guard.release(self._decision)


async def _refuse(websocket: WebSocket, response: Response, guard: Guard, decision: Decision) -> None:
    if can_answer(websocket.scope):
        response.raw_headers.extend(decision.header_pairs() if guard.is_telling else [])
        await websocket.receive()  # the handshake: before it nothing can be answered
        await websocket.send_denial_response(response)
    else:
        await websocket.close(1008, "too many requests")


def _tell(error: BaseException, guard: Guard, decision: Decision) -> None:
    if isinstance(error, HTTPException):
        error.headers = {**(error.headers or {}), **dict(guard.fields(decision))}


def _connection(args: tuple[Any, ...], kwargs: dict[str, Any]) -> HTTPConnection:
    for given in (*args, *kwargs.values()):
        if isinstance(given, HTTPConnection):
            return given
    raise UsageError("a limited endpoint is called with its request")
