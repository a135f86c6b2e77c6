"""
Limits that step in front of their route.

To resolve one dependency takes FastAPI longer than it takes to decide, to tell and to pass the request on together. A limit that asks
nothing of the request but its address needs none of that. So the first request of a route, which finds such limits at the head of its
dependencies, gives the route a second application: without them, and behind a `Front` that asks them first.

Nothing else changes. What the route depends on stays as it is written, for the OpenAPI document and for who replaces dependencies in tests:
while there are any replacements, the route is as it was. Whatever is not as it is expected here stays as it was too.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from fastapi.routing import APIRoute, request_response

from tidegate.integrations._asgi_route import is_told

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from tidegate import Decision
    from tidegate.integrations._asgi_types import Application, Receive, Scope, Send

ADMIT = "tidegate_admit"
"""Under which name a dependency has what a `Front` asks: a function of the scope, which raises if it denies."""

_TRIED = "_tidegate_tried"


class Front:
    """
    The application of a route, behind the limits that were its first dependencies.

    Args:
        limits: Who is asked first, in their order.
        app: The route without them.
        written: The route as it is written.
        provider: Who knows which dependencies are replaced.
    """

    def __init__(
        self,
        limits: Iterable[Callable[[Scope], Awaitable[Decision]]],
        *,
        app: Application,
        written: Application,
        provider: Any,  # noqa: ANN401  # the application, or nobody
    ) -> None:
        self._limits = tuple(limits)
        self._app = app
        self._written = written
        self._provider = provider

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """
        Serves one request.
        """
        if getattr(self._provider, "dependency_overrides", None) or not is_told(scope):
            await self._written(scope, receive, send)
            return
        for admit in self._limits:
            await admit(scope)
        await self._app(scope, receive, send)


def step_forward(scope: Scope) -> None:
    """
    Puts the limits of a route in front of it for all later requests, if that changes nothing but the time that they take.

    Limits stay where they are behind another dependency, which may say who is counted; where the endpoint takes their decision; and on
    routes of a class that handles requests in its own way.

    Args:
        scope: The scope of a request that they have admitted.
    """
    # A route of a router that was included is there in the form that it has by that.
    place = (scope.get("fastapi") or {}).get("effective_route_context") or scope.get("route")
    if hasattr(place, _TRIED):
        return
    # Another version of FastAPI may have other routes. Its limits are dependencies then, which is always right.
    with suppress(AttributeError, TypeError):
        setattr(place, _TRIED, True)
        _step(place)


def _step(place: Any) -> None:  # noqa: ANN401  # a route, or a class that FastAPI does not promise to keep
    if type(getattr(place, "original_route", place)) is not APIRoute:
        return
    written = place.dependant
    first = list(takewhile(_can_step, written.dependencies))
    rest = written.dependencies[len(first) :]
    # A limit that is written twice counts once, as every dependency does.
    limits = dict.fromkeys(one.call for one in first)
    if not limits or any(_uses(one, limits) for one in rest):
        return
    lean = copy(place)
    lean.dependant = copy(written)
    lean.dependant.dependencies = rest
    app = request_response(APIRoute.get_route_handler(lean))
    # Requests that are under way go on by the application that they have begun with.
    place.app = Front(
        [getattr(one, ADMIT) for one in limits], app=app, written=place.app, provider=getattr(place, "dependency_overrides_provider", None)
    )


def _can_step(dependant: Any) -> bool:  # noqa: ANN401  # a class that FastAPI does not promise to keep
    return dependant.name is None and getattr(dependant.call, ADMIT, None) is not None


def _uses(dependant: Any, calls: Iterable[object]) -> bool:  # noqa: ANN401  # as above
    return dependant.call in calls or any(_uses(one, calls) for one in dependant.dependencies)
