"""
FastAPI: limits as dependencies of routes and routers, and middleware for the whole application.

```python
from fastapi import Depends, FastAPI

from tidegate.integrations.fastapi import install, limit

app = FastAPI()
install(app)

@app.get("/search", dependencies=[Depends(limit("5/minute"))])
async def search(): ...
```
"""

from __future__ import annotations

from collections.abc import AsyncIterator  # noqa: TC003  # FastAPI reads the annotations of dependencies
from typing import TYPE_CHECKING, Any, Protocol, cast

from fastapi import FastAPI, HTTPException, routing
from starlette.exceptions import WebSocketException
from starlette.requests import HTTPConnection  # noqa: TC002  # as above
from starlette.responses import Response  # noqa: TC002  # as above

from tidegate import Decision  # noqa: TC001  # as above
from tidegate.integrations._asgi_answer import STARTS, can_answer
from tidegate.integrations._asgi_route import RouteLimit, is_told, tell_of
from tidegate.integrations._fastapi_front import ADMIT, step_forward
from tidegate.integrations._guard import STATUS, problem_members
from tidegate.integrations.starlette import RateLimit, denial

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator
    from typing import Unpack

    from tidegate.integrations._asgi_route import Taken
    from tidegate.integrations._asgi_types import Application, Message, Receive, Scope, Send
    from tidegate.integrations._guard import Guard
    from tidegate.integrations._settings import GuardOptions
    from tidegate.quota import Quotas

__all__ = ["RateLimit", "TooManyRequests", "install", "limit"]

_LIMITED = frozenset({"http", "websocket"})
_POLICY_VIOLATION = 1008


class TooManyRequests(HTTPException):
    """
    A limit of a route denies the request. An exception handler for it, or for status 429, makes another response.

    Args:
        decision: The denial.
        headers: The header fields that tell about it.
    """

    def __init__(self, decision: Decision, headers: dict[str, str]) -> None:
        super().__init__(STATUS, problem_members(decision)["detail"], headers)
        self.decision = decision


class Limit(Protocol):
    """
    What `limit` makes: for `Depends`, and with its guard beside it.
    """

    tidegate_guard: Guard
    """Who decides."""

    def __call__(self, connection: HTTPConnection, response: Response) -> Any:  # noqa: ANN401  # awaited or iterated by FastAPI
        """
        Checks the request. Its value is the decision.
        """
        ...


def limit(quotas: Quotas | None = None, *, scope: str | None = None, **options: Unpack[GuardOptions]) -> Limit:
    """
    Makes a dependency that checks each request: `Depends(limit("5/minute"))`, for a route or for all routes of a router.

    Several limits of one route count together: what one took is given back if another denies. `install` makes them visible.

    Args:
        quotas: Quotas for each client of the endpoint, as for `Limiter`; or `rules`, `limiter` or `service` among the options.
        scope: What is counted together: routes with the same word share their quotas. Default: each endpoint by itself.
        options: As for `Guard`, with functions of the request. Limits with the same quotas and store share one limiter.

    Returns:
        The dependency. Its value is the decision; a denied request raises `TooManyRequests`.

    Raises:
        ConfigError: The arguments do not go together, or one of them is wrong.
    """
    route = RouteLimit(quotas, scope, **options)
    guard = route.guard

    async def admit(asgi: Scope, connection: HTTPConnection | None = None) -> Decision:
        decision = await route.check_async(asgi, connection)
        if not decision.allowed:
            raise _denied(asgi, guard, decision)
        return decision

    async def check(connection: HTTPConnection, response: Response) -> Decision:
        asgi = connection.scope
        decision = await admit(asgi, connection)
        if not is_told(asgi):
            response.raw_headers.extend(decision.header_pairs() if guard.is_telling else ())
        elif guard.is_simple:
            step_forward(asgi)
        return decision

    async def hold(connection: HTTPConnection, response: Response) -> AsyncIterator[Decision]:
        decision = await check(connection, response)
        try:
            yield decision
        finally:
            await guard.release_async(decision)

    # A generator takes a few microseconds more, which only slots need.
    made = cast(Limit, check if quotas is not None and guard.limiter.lease_ttl is None else hold)
    made.tidegate_guard = guard
    setattr(made, ADMIT, admit if guard.is_simple else None)
    return made


def install(app: FastAPI) -> None:
    """
    Makes the limits of an application's routes visible.

    Header fields are on all responses of limited routes, also on errors and on responses that an endpoint returns as such; denied requests
    are answered with problem details; slots are given back before background tasks run; and the OpenAPI document shows it.

    Args:
        app: The application, before it serves.
    """
    app.add_middleware(_Telling)
    app.exception_handlers.setdefault(TooManyRequests, _answer)
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        document = describe()
        for operation in _limited_operations(app, document):
            _describe(operation)
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # the way that FastAPI documents


def _denied(scope: Scope, guard: Guard, decision: Decision) -> Exception:
    if can_answer(scope):
        return TooManyRequests(decision, dict(guard.fields(decision)))
    return WebSocketException(_POLICY_VIOLATION, "too many requests")


async def _answer(connection: HTTPConnection, error: Exception) -> Response:
    denied = cast(TooManyRequests, error)
    response = denial(connection, denied.decision)
    response.headers.update(denied.headers or {})
    return response


class _Telling:
    """
    Middleware that adds to a response what the limits of its route have to tell, and ends what they hold with it.

    Args:
        app: The application.
    """

    def __init__(self, app: Application) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in _LIMITED:
            await self.app(scope, receive, send)
            return
        taken = tell_of(scope)

        # No coroutine of its own, as in `with_fields`.
        def tell(message: Message) -> Awaitable[None]:
            if taken:
                if message["type"] in STARTS:
                    fields = [pair for guard, decision in taken if guard.is_telling for pair in decision.header_pairs()]
                    message = {**message, "headers": [*message.get("headers", ()), *fields]}
                elif message["type"] == "http.response.body" and not message.get("more_body"):
                    held = [(guard, decision) for guard, decision in taken if decision.lease is not None]
                    if held:
                        return _end(held, send, message)
            return send(message)

        await self.app(scope, receive, tell)


async def _end(held: Taken, send: Send, message: Message) -> None:
    # Before the last part goes out: a client that has all of it may ask again at once, and must find its slot free.
    for guard, decision in held:
        await guard.release_async(decision)
    await send(message)


def _limited_operations(app: FastAPI, document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for route in routing.iter_route_contexts(app.routes):
        if _is_limited(getattr(route, "dependant", None)):
            path = document.get("paths", {}).get(route.path_format, {})
            for method in route.methods or ():
                if method.lower() in path:
                    yield path[method.lower()]


def _is_limited(dependant: Any) -> bool:  # noqa: ANN401  # a class that FastAPI does not promise to keep
    if dependant is None:
        return False
    return hasattr(dependant.call, "tidegate_guard") or any(map(_is_limited, dependant.dependencies))


def _describe(operation: dict[str, Any]) -> None:
    responses: dict[str, Any] = operation.setdefault("responses", {})
    for status, response in responses.items():
        if status.startswith("2"):
            response.setdefault("headers", {}).update(_HEADERS)
    responses.setdefault(str(STATUS), _TOO_MANY)


def _header(description: str, example: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}, "example": example}


_HEADERS = {
    "RateLimit-Policy": _header("The quotas that apply.", '"limit";q=5;w=60'),
    "RateLimit": _header("What is left of the tightest one, and for how many seconds.", '"limit";r=4;t=60'),
}

_TOO_MANY: dict[str, Any] = {
    "description": "Too Many Requests",
    "headers": {
        **_HEADERS,
        "Retry-After": {"description": "Seconds after which the same request is admitted.", "schema": {"type": "integer", "minimum": 1}},
    },
    "content": {
        "application/problem+json": {
            "schema": {
                "type": "object",
                "title": "TooManyRequests",
                "required": ["type", "title", "status", "detail", "violated-policies"],
                "properties": {
                    "type": {"type": "string", "format": "uri"},
                    "title": {"type": "string"},
                    "status": {"type": "integer", "const": STATUS},
                    "detail": {"type": "string"},
                    "retry_after": {"type": "integer", "description": "Seconds; absent if the request is never admitted."},
                    "rule": {"type": "string"},
                    "violated-policies": {"type": "array", "items": {"type": "string"}},
                },
            }
        }
    },
}
