"""
Everything that is wrong, in one form: problem details (RFC 9457), as the service writes them.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from tidegate.control.errors import DatabaseError, DatabaseFull, ValueRefused
from tidegate.control.refused import Refused, Why
from tidegate.service.log import LOG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import FastAPI
    from starlette.requests import Request

PROBLEM_JSON: Final = "application/problem+json"
SIGN_IN: Final = "/sign-in"
"""Where people are sent who have to sign in first."""

_REFUSED: Final[dict[Why, int]] = {"unknown": 404, "taken": 409, "stale": 412, "busy": 409, "over": 409, "own": 403, "wrong": 422}
_RETRY_S: Final = 2
_DETAIL_MAX: Final = 400


class Wrong(BaseModel):
    """
    One of several things that are wrong.
    """

    path: str
    """Where: in the body such as `body.limit`, in the query such as `query.since`, or in a rule such as `quotas[0]`."""
    message: str
    code: str | None = None
    hint: str | None = None
    line: int | None = None
    column: int | None = None


class ProblemDetails(BaseModel):
    """
    What is wrong with a request.
    """

    type: str
    title: str
    status: int
    detail: str
    problems: list[Wrong] | None = None


class Problem(Exception):
    """
    Ends a request with problem details.

    Args:
        status: The status.
        detail: What is wrong, and what to do about it.
        problems: Each thing that is wrong, if there are several.
        headers: Header fields of the response.
    """

    def __init__(
        self, status: int, detail: str, *, problems: Sequence[Mapping[str, Any]] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.problems = problems
        self.headers = headers or {}

    def response(self) -> Response:
        """
        The same as a response.

        Returns:
            The response.
        """
        members: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail[:_DETAIL_MAX],
        }
        if self.problems:
            members["problems"] = list(self.problems)
        # What a client sent may hold half a pair of surrogates, which is no UTF-8.
        body = json.dumps(members, separators=(",", ":"))
        return Response(body, self.status, dict(self.headers), PROBLEM_JSON)


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """
    The problems that a route answers with, for its OpenAPI document.

    Args:
        statuses: Their statuses.

    Returns:
        What FastAPI takes as `responses`.
    """
    content = {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def install(app: FastAPI) -> None:
    """
    Lets an application answer everything that is wrong in this form.

    Args:
        app: The application.
    """
    # Handlers are looked up by the class of the error, and Starlette's types do not say so.
    app.add_exception_handler(Problem, _problem)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _http)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, _invalid)  # type: ignore[arg-type]
    app.add_exception_handler(DatabaseError, _database)  # type: ignore[arg-type]
    app.add_exception_handler(Refused, _refused)  # type: ignore[arg-type]


def unexpected(error: Exception) -> Response:
    """
    The answer to what nobody foresaw. What it was stands in the log only.

    Args:
        error: What happened.

    Returns:
        The response.
    """
    LOG.error("the control plane failed to answer", exc_info=error)
    return Problem(500, "the control plane failed; its log says why").response()


async def _problem(request: Request, error: Problem) -> Response:
    # People who open a page have to sign in; programs are told so.
    if error.status == HTTPStatus.UNAUTHORIZED and request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        path = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        return RedirectResponse(SIGN_IN if path == "/" else f"{SIGN_IN}?{urlencode({'next': path})}", 303)
    return error.response()


async def _http(_request: Request, error: HTTPException) -> Response:
    # What stops the reading of a body, such as its size, FastAPI takes for a mistake in it.
    if isinstance(error.__cause__, Problem):
        return error.__cause__.response()
    detail = error.detail
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = "there is nothing here; /openapi.json says what there is"
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        detail = f"it is asked by {(error.headers or {}).get('Allow', 'another method')}"
    return Problem(error.status_code, detail, headers=error.headers).response()


async def _invalid(_request: Request, error: RequestValidationError) -> Response:
    # Not what was sent: it may be a secret.
    problems = [
        {"path": _path(found["loc"]), "message": str(found["msg"])[:_DETAIL_MAX], "code": found["type"]} for found in error.errors()
    ]
    return Problem(422, "; ".join(f"{found['path']}: {found['message']}" for found in problems), problems=problems).response()


async def _database(_request: Request, error: DatabaseError) -> Response:
    if isinstance(error, ValueRefused):
        return Problem(422, str(error)).response()
    LOG.error("the control plane cannot use its database: %s", error)
    if isinstance(error, DatabaseFull):
        return Problem(507, str(error)).response()
    return Problem(503, str(error), headers={"Retry-After": str(_RETRY_S)}).response()


async def _refused(_request: Request, error: Refused) -> Response:
    return Problem(_REFUSED[error.why], str(error)).response()


def _path(steps: Sequence[int | str]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")
