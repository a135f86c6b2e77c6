"""
A request to Django, and what it took.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any, cast

from django.http import HttpResponse

from tidegate.integrations._environ import attributes_of
from tidegate.integrations._exchange import LISTS, Exchange
from tidegate.integrations._guard import PROBLEM_JSON, STATUS, problem

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase

    from tidegate import Decision
    from tidegate.integrations._guard import Guard
    from tidegate.integrations.django._settings import State

_ATTRIBUTE = "_tidegate"


class Visit(Exchange):
    """
    An exchange that ends when Django closes the request, which it does after the response.
    """

    __slots__ = ("_is_closing", "is_told_outside")

    def __init__(self) -> None:
        super().__init__()
        self._is_closing = False
        self.is_told_outside = False
        """Whether the middleware adds the header fields, so that nobody else needs to."""

    def hold(self, request: HttpRequest) -> None:
        """
        Keeps slots, if there are any, until the request is closed.

        Args:
            request: The request.
        """
        if self.has_slots and not self._is_closing:
            self._is_closing = True
            # By a weak reference, so that an exchange whose response is dropped ends at once and not when cycles are collected.
            request.close = functools.partial(_close, self, weakref.ref(request))  # type: ignore[method-assign]  # Django calls what is there


def visit_of(request: HttpRequest) -> Visit:
    """
    The exchange that a request belongs to.

    Args:
        request: The request.

    Returns:
        The exchange, the same for all who ask.
    """
    found: Visit | None = getattr(request, _ATTRIBUTE, None)
    if found is None:
        found = Visit()
        setattr(request, _ATTRIBUTE, found)
    return found


def attributes_for(guard: Guard, request: HttpRequest, scope: str | None = None) -> dict[str, Any]:
    """
    The facts about a request.

    Args:
        guard: Who wants to know them.
        request: The request.
        scope: What a limit of a view counts separately.

    Returns:
        The attributes, without `client`.
    """
    attributes = attributes_of(request.META, guard.reads, request.path)
    if scope is not None:
        attributes["scope"] = scope
    return attributes


def tell(visit: Visit, response: HttpResponseBase) -> None:
    """
    Adds the header fields to a response.

    Args:
        visit: What the request took.
        response: The response.
    """
    headers = response.headers
    for name, value in visit.fields():
        if name not in headers:
            headers[name] = value
        elif name in LISTS:
            headers[name] = f"{headers[name]}, {value}"


def denial(state: State, request: HttpRequest, visit: Visit) -> HttpResponseBase:
    """
    The response to a denied request, without the header fields.

    Args:
        state: Who may answer instead.
        request: The request.
        visit: The exchange, with the denial.

    Returns:
        The response.
    """
    decision = cast("Decision", visit.decision)
    if state.denied is not None:
        return state.denied(request, decision)
    return HttpResponse(problem(decision), status=STATUS, content_type=PROBLEM_JSON, headers={"Cache-Control": "no-store"})


def _close(visit: Visit, reference: weakref.ref[HttpRequest]) -> None:
    try:
        request = reference()
        if request is not None:
            type(request).close(request)
    finally:
        visit.end()
