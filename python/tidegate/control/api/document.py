"""
The OpenAPI document: what FastAPI makes of the routes, with what holds for all of them.

Who may call a route, and the problems that each can answer with, are known from its dependencies and its parameters; no route repeats them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema

from tidegate.control.api.access import Needs
from tidegate.control.api.problem import PROBLEM_JSON, ProblemDetails, described
from tidegate.control.sessions import COOKIE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastapi import APIRouter
    from fastapi.dependencies.models import Dependant

    from tidegate.control.roles import Role

_SECURITY: Final[list[dict[str, list[str]]]] = [{"token": []}, {"session": []}]
_SCHEMES: Final = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token of the control plane."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "The session of a browser; what changes something also needs the header X-CSRF-Token.",
    },
}
_NAMELESS: Final = {"HTTPValidationError", "ValidationError"}
"""What FastAPI would answer where we answer problem details."""


def routes_of(routers: Sequence[APIRouter]) -> Iterator[APIRoute]:
    """
    All routes of the API and of the pages.

    Args:
        routers: The groups of routes.

    Yields:
        Each route.
    """
    for router in routers:
        yield from (route for route in router.routes if isinstance(route, APIRoute))


def role_of(route: APIRoute) -> Role | None:
    """
    Who may call a route.

    Args:
        route: The route.

    Returns:
        The least that they have to be; `None` if anybody may.
    """
    found = [dependant.call.role for dependant in _all(route.dependant) if isinstance(dependant.call, Needs)]
    return found[0] if found else None


def complete(document: dict[str, Any], routers: Sequence[APIRouter]) -> dict[str, Any]:
    """
    Adds what holds for all routes.

    Args:
        document: The document of FastAPI.
        routers: The groups of routes.

    Returns:
        The same document.
    """
    _, made = models_json_schema([(ProblemDetails, "serialization")], ref_template="#/components/schemas/{model}")
    components = document.setdefault("components", {})
    schemas = {**components.get("schemas", {}), **made["$defs"]}
    components["schemas"] = {name: schema for name, schema in sorted(schemas.items()) if name not in _NAMELESS}
    components["securitySchemes"] = _SCHEMES
    for route in routes_of(routers):
        if route.include_in_schema:
            for method in route.methods or ():
                _complete(document["paths"][route.path_format][method.lower()], route)
    return document


def _complete(operation: dict[str, Any], route: APIRoute) -> None:
    statuses = {503} if route.dependant.dependencies else set()
    if role_of(route) is not None:
        statuses |= {401, 403}
        operation["security"] = _SECURITY
    if "requestBody" in operation:
        statuses |= {400, 413, 422}
    if "parameters" in operation:
        statuses |= {422}
    responses = operation["responses"]
    if PROBLEM_JSON not in responses.get("422", {}).get("content", {}):
        responses.pop("422", None)
    for status, response in described(*sorted(statuses)).items():
        responses.setdefault(str(status), response)


def _all(dependant: Dependant) -> Iterator[Dependant]:
    for inner in dependant.dependencies:
        yield inner
        yield from _all(inner)
