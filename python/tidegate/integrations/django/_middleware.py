"""
The middleware: limits the whole site, and tells clients what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.core.exceptions import MiddlewareNotUsed

from tidegate.integrations.django._settings import state
from tidegate.integrations.django._visit import Visit, attributes_for, denial, tell, visit_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from django.http import HttpRequest, HttpResponseBase


class RateLimitMiddleware:
    """
    Limits the requests to a site by the setting `TIDEGATE`, and tells clients on every response what is left.

    What `limit` and the throttle class have to tell is among it. A denied request reaches neither the middleware below it nor a view. Sync
    and async: under ASGI it never blocks the event loop.

    Args:
        get_response: The rest of the site.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)
        if not state().is_enabled:
            raise MiddlewareNotUsed

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """
        Answers a request, or a coroutine that does.
        """
        visit = visit_of(request)
        visit.is_told_outside = True
        return self._answer_async(request, visit) if self._is_async else self._answer(request, visit)

    def _answer(self, request: HttpRequest, visit: Visit) -> HttpResponseBase:
        found = state()
        guard = found.guard
        try:
            if guard is None or guard.is_exempt(request.path) or visit.ask(guard, attributes_for(guard, request), request).allowed:
                response: HttpResponseBase = self._get_response(request)
            else:
                response = denial(found, request, visit)
            visit.hold(request)
            tell(visit, response)
        except BaseException:
            # Errors of views are responses already: this is the end of a worker, and nobody will close the request.
            visit.end()
            raise
        return response

    async def _answer_async(self, request: HttpRequest, visit: Visit) -> HttpResponseBase:
        found = state()
        guard = found.guard
        try:
            if (
                guard is None
                or guard.is_exempt(request.path)
                or (await visit.ask_async(guard, attributes_for(guard, request), request)).allowed
            ):
                response: HttpResponseBase = await self._get_response(request)
            else:
                response = denial(found, request, visit)
            visit.hold(request)
            tell(visit, response)
        except BaseException:
            # The client has gone away, and Django cancels what it asked for.
            await visit.end_async()
            raise
        return response
