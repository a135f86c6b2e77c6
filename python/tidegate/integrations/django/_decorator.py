"""
The decorator: limits single views.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction

from tidegate.integrations._routes import RouteLimit
from tidegate.integrations.django._settings import state
from tidegate.integrations.django._visit import attributes_for, denial, tell, visit_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase

    from tidegate import Decision
    from tidegate.integrations._functions import Cost, Key
    from tidegate.quota import Quotas

View = TypeVar("View", bound=Callable[..., Any])

_DEPTH = "_tidegate_depth"


def limit(
    quotas: Quotas, *, key: Key | None = None, cost: Cost | None = None, scope: str | None = None, name: str | None = None
) -> Callable[[View], View]:
    """
    Limits a view. The limit of the whole site applies as well, and a request that one of several limits denies is charged by none.

    Methods of class-based views are decorated by Django's `method_decorator(limit(...), name="dispatch")`.

    Args:
        quotas: Quotas for each client, as for `Limiter`.
        key: Makes of the request who is counted; by default whoever the setting `TIDEGATE` counts.
        cost: How much a request takes: a number, or a function of the request.
        scope: What is counted together: views with the same scope share one count. By default each is counted for itself.
        name: Its name in headers and metrics; by default the text of the quotas.

    Returns:
        A decorator for views, sync or async.

    Raises:
        QuotaError: The quotas are wrong.
    """
    found = RouteLimit.of(quotas, key=key, cost=cost, scope=scope, name=name)

    def decorate(view: View) -> View:
        # The second limit of a view counts for itself also if it says the same as the first one.
        depth = getattr(view, _DEPTH, 0) + 1

        async def limited_async(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:  # noqa: ANN401  # whatever the view takes
            visit = visit_of(request)
            try:
                decision = await _admit_async(found, _scope(found, request, view, depth), request)
                if decision is None or decision.allowed:
                    response = view(request, *args, **kwargs)
                    response = await response if inspect.isawaitable(response) else response
                else:
                    response = denial(state(), request, decision)
            except asyncio.CancelledError:
                # The client has gone away. Django answers nobody, and closes nothing.
                await visit.end_async()
                raise
            return _told(request, response)

        @functools.wraps(view)
        def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as above, or a coroutine
            # `dispatch` of an async class-based view is called on the event loop without being a coroutine function itself.
            if is_async or _is_on_event_loop():
                return limited_async(request, *args, **kwargs)
            decision = _admit(found, _scope(found, request, view, depth), request)
            is_admitted = decision is None or decision.allowed
            return _told(request, view(request, *args, **kwargs) if is_admitted else denial(state(), request, cast("Decision", decision)))

        is_async = iscoroutinefunction(view)
        if is_async:
            markcoroutinefunction(limited)
        setattr(limited, _DEPTH, depth)
        return cast(View, limited)

    return decorate


def _is_on_event_loop() -> bool:
    return asyncio._get_running_loop() is not None  # noqa: SLF001  # `get_running_loop` raises, which is ten times slower


def _scope(limit: RouteLimit, request: HttpRequest, view: Callable[..., Any], depth: int) -> str:
    if limit.scope is not None:
        return limit.scope
    match = request.resolver_match
    found = match.view_name if match is not None else getattr(view, "__qualname__", "view")
    return found if depth == 1 else f"{found} {depth}"


def _admit(limit: RouteLimit, scope: str, request: HttpRequest) -> Decision | None:
    found = state()
    if not found.is_enabled:
        return None
    guard = found.routes.guard_of(limit)
    visit = visit_of(request)
    decision = visit.ask(guard, attributes_for(guard, request, scope), request)
    visit.hold(request)
    return decision


async def _admit_async(limit: RouteLimit, scope: str, request: HttpRequest) -> Decision | None:
    found = state()
    if not found.is_enabled:
        return None
    guard = found.routes.known(limit)
    if guard is None:
        # Making one may wait for the first connection to a store.
        guard = await asyncio.get_running_loop().run_in_executor(None, found.routes.guard_of, limit)
    visit = visit_of(request)
    decision = await visit.ask_async(guard, attributes_for(guard, request, scope), request)
    visit.hold(request)
    return decision


def _told(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    visit = visit_of(request)
    if not visit.is_told_outside:
        # The outermost limit of the view tells all of them: it is the last to see the response.
        for name, _ in visit.fields():
            response.headers.pop(name, None)
        tell(visit, response)
    return response
