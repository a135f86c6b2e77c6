"""
Who asks, and whether they may: what every route depends on.

    @router.put("/admin/v1/things/{name}")
    def put(name: str, control: InControl, caller: Annotated[Caller, needs(Role.EDITOR)]) -> Thing:
        with control.database.session() as session:
            ...
            audit.record(session, caller, "thing.update", f"thing:{name}", before=..., after=...)

A program shows its token in `Authorization: Bearer`. A browser has the cookie of its session, and sends along what only our pages know
(`X-CSRF-Token`, or the field `csrf` of a form) with everything that changes something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Request

from tidegate.control import sessions, tokens
from tidegate.control.api.problem import Problem
from tidegate.control.caller import Caller
from tidegate.control.control import Control
from tidegate.control.roles import Role

__all__ = ["Caller", "Control", "InControl", "Needs", "address_of", "needs"]

CSRF_HEADER: Final = "x-csrf-token"
CSRF_FIELD: Final = "csrf"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_FORMS: Final = ("application/x-www-form-urlencoded", "multipart/form-data")


def _control(request: Request) -> Control:
    control: Control = request.app.state.control
    return control


InControl = Annotated[Control, Depends(_control)]
"""The control plane of this process, for a parameter of a route."""


def address_of(request: Request) -> str:
    """
    Where somebody asks from.

    Args:
        request: The request.

    Returns:
        An address; `unix` for a socket in the file system.
    """
    return request.client.host if request.client and request.client.host else "unix"


async def _sent_along(request: Request) -> str | None:
    sent = request.headers.get(CSRF_HEADER)
    if sent is None and request.method not in SAFE and request.headers.get("content-type", "").startswith(_FORMS):
        field = (await request.form()).get(CSRF_FIELD)
        sent = field if isinstance(field, str) else None
    return sent


@dataclass(frozen=True)
class Needs:
    """
    A dependency that lets through who has a role, and hands over who it is.

    Args:
        role: The role.
    """

    role: Role

    def __call__(self, request: Request, sent_along: Annotated[str | None, Depends(_sent_along)]) -> Caller:
        """
        Finds out who asks.

        Args:
            request: The request.
            sent_along: What only our own pages know.

        Returns:
            Who asks.

        Raises:
            Problem: 401 if nobody is known, 403 if they may not.
        """
        control = _control(request)
        bearer = _bearer(request)
        caller = _by_cookie(control, request, sent_along) if bearer is None else _by_token(control, request, bearer)
        if not caller.role.may(self.role):
            raise Problem(403, f"this needs the role {self.role}, and the token `{caller.name}` has the role {caller.role}")
        return caller


def needs(role: Role) -> Any:  # noqa: ANN401  # stands where FastAPI takes any default
    """
    What a route declares to be called only by some.

    Args:
        role: The least that they have to be.

    Returns:
        The dependency, whose value is the `Caller`.
    """
    return Depends(Needs(role))


def _by_token(control: Control, request: Request, secret: str) -> Caller:
    now = control.now()
    with control.database.reading() as session:
        token = tokens.find(session, secret, now)
    if token is None:
        raise _unknown("the token is not good: it is unknown, was revoked or has ended")
    if not tokens.is_noted(token, now):
        with control.database.session() as session:
            tokens.note_use(session, token.id, now)
    return Caller(token.name, Role(token.role), address_of(request), now, token.id)


def _by_cookie(control: Control, request: Request, sent_along: str | None) -> Caller:
    now = control.now()
    secret = request.cookies.get(sessions.COOKIE)
    if secret is None:
        raise _unknown("show a token in `Authorization: Bearer`, or sign in")
    with control.database.reading() as session:
        found = sessions.find(session, secret, now)
    if found is None:
        raise _unknown("the session has ended; sign in again")
    opened, token = found
    if request.method not in SAFE and not sessions.is_from_its_page(opened, sent_along):
        raise Problem(403, "the request does not come from a page of this control plane; load the page again")
    if not sessions.is_noted(opened, now):
        with control.database.session() as session:
            sessions.note_use(session, opened.digest, now)
    return Caller(token.name, Role(token.role), address_of(request), now, token.id, opened.csrf)


def _bearer(request: Request) -> str | None:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None


def _unknown(detail: str) -> Problem:
    return Problem(401, detail, headers={"WWW-Authenticate": 'Bearer realm="tidegate"'})
