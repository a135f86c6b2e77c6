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
    from typing import Unpack

    from django.http import HttpRequest, HttpResponseBase

    from tidegate.integrations._routes import LimitOptions
    from tidegate.integrations.django._visit import Visit
    from tidegate.quota import Quotas

View = TypeVar("View", bound=Callable[..., Any])

_DEPTH = "_tidegate_depth"


def limit(quotas: Quotas, **options: Unpack[LimitOptions]) -> Callable[[View], View]:
    """
    Limits a view. The limit of the whole site applies as well, and a request that one of several limits denies is charged by none.

    Methods of class-based views are decorated by Django's `method_decorator(limit(...), name="dispatch")`.

    Args:
        quotas: Quotas for each client, as for `Limiter`.
        options: `key`, a function of the request that says who is counted, by default whoever the setting counts. `cost`, how much a
            request takes: a number, or a function of the request. `scope`: views with the same one are counted together, by default each
            for itself. `name`, in headers and metrics, by default the text of the quotas.

    Returns:
        A decorator for views, sync or async.

    Raises:
        QuotaError: The quotas are wrong.
    """
    found = RouteLimit.of(quotas, **options)

    def decorate(view: View) -> View:
        # The second limit of a view counts for itself also if it says the same as the first one.
        depth = getattr(view, _DEPTH, 0) + 1

        async def limited_async(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:  # noqa: ANN401  # whatever the view takes
            visit = visit_of(request)
            try:
                if await _admit_async(found, _route(request, view, depth), request):
                    response = view(request, *args, **kwargs)
                    response = await response if inspect.isawaitable(response) else response
                else:
                    response = denial(state(), request, visit)
            except asyncio.CancelledError:
                # The client has gone away. Django answers nobody, and closes nothing.
                await visit.end_async()
                raise
            return _told(visit, response)

        @functools.wraps(view)
        def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as above, or a coroutine
            if is_async or _is_on_event_loop():
                return limited_async(request, *args, **kwargs)
            visit = visit_of(request)
            is_admitted = _admit(found, _route(request, view, depth), request)
            return _told(visit, view(request, *args, **kwargs) if is_admitted else denial(state(), request, visit))

        is_async = iscoroutinefunction(view) or _is_async_class(view)
        if is_async:
            markcoroutinefunction(limited)
        setattr(limited, _DEPTH, depth)
        return cast(View, limited)

    return decorate


def _is_async_class(view: Callable[..., Any]) -> bool:
    # `dispatch` of an async class-based view returns what has to be awaited without being a coroutine function. `method_decorator` passes a
    # function with the method inside, for each request.
    method = getattr(view, "func", view)
    return bool(getattr(getattr(method, "__self__", None), "view_is_async", False))


def _is_on_event_loop() -> bool:
    return asyncio._get_running_loop() is not None  # noqa: SLF001  # `get_running_loop` raises, which is ten times slower


def _route(request: HttpRequest, view: Callable[..., Any], depth: int) -> str:
    match = request.resolver_match
    found = match.view_name if match is not None else getattr(view, "__qualname__", "view")
    return found if depth == 1 else f"{found} {depth}"


def _admit(limit: RouteLimit, route: str, request: HttpRequest) -> bool:
    found = state()
    if not found.is_enabled:
        return True
    guard = found.routes.guard_of(limit)
    visit = visit_of(request)
    decision = visit.ask(guard, attributes_for(guard, request, found.routes.scope_of(limit, route)), request)
    visit.hold(request)
    return decision.allowed


async def _admit_async(limit: RouteLimit, route: str, request: HttpRequest) -> bool:
    found = state()
    if not found.is_enabled:
        return True
    guard = found.routes.known(limit)
    if guard is None:
        # Making one may wait for the first connection to a store.
        guard = await asyncio.get_running_loop().run_in_executor(None, found.routes.guard_of, limit)
    visit = visit_of(request)
    decision = await visit.ask_async(guard, attributes_for(guard, request, found.routes.scope_of(limit, route)), request)
    visit.hold(request)
    return decision.allowed


def _told(visit: Visit, response: HttpResponseBase) -> HttpResponseBase:
    if not visit.is_told_outside:
        # The outermost limit of the view tells all of them: it is the last to see the response.
        for name, _ in visit.fields():
            response.headers.pop(name, None)
        tell(visit, response)
    return response
