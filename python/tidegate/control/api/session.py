"""
Signing in and out, and who one is.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from tidegate.control import sessions
from tidegate.control.api.access import Caller, InControl, address_of, needs
from tidegate.control.api.problem import Problem, described
from tidegate.control.roles import Role
from tidegate.control.signin import Refused

router = APIRouter(prefix="/api/v1/session", tags=["session"])


class SignInBody(BaseModel):
    """
    What is shown to sign in.
    """

    model_config = ConfigDict(extra="forbid")
    token: str = Field(min_length=1, max_length=200)


class Me(BaseModel):
    """
    Who asks.
    """

    name: str
    role: Role
    csrf: str | None = None
    """What a page of this control plane sends along in `X-CSRF-Token`; null for who shows a token."""
    expires_at: datetime | None = None


@router.post("", responses=described(401, 429))
def sign_in(body: SignInBody, request: Request, response: Response, control: InControl) -> Me:
    """
    Opens a session for the owner of a token: the answer sets its cookie.
    """
    try:
        caller, opened = control.sign_in.attempt(body.token, address_of(request), control.now())
    except Refused as refused:
        raise refusal(refused) from None
    set_cookie(request, response, opened)
    return Me(name=caller.name, role=caller.role, csrf=opened.csrf, expires_at=opened.expires_at)


@router.get("")
def who(caller: Annotated[Caller, needs(Role.VIEWER)]) -> Me:
    """
    Says who asks.
    """
    return Me(name=caller.name, role=caller.role, csrf=caller.csrf)


@router.delete("", status_code=204)
def sign_out(request: Request, response: Response, control: InControl, _caller: Annotated[Caller, needs(Role.VIEWER)]) -> None:
    """
    Ends the session of a browser. A token stays what it is.
    """
    if (secret := request.cookies.get(sessions.COOKIE)) is not None:
        with control.database.session() as session:
            sessions.close_session(session, secret)
    response.delete_cookie(sessions.COOKIE, path="/", httponly=True, samesite="strict")


def set_cookie(request: Request, response: Response, opened: sessions.Opened) -> None:
    """
    Gives a browser the cookie of its session.

    Args:
        request: What it asked.
        response: What it gets.
        opened: The session.
    """
    response.set_cookie(
        sessions.COOKIE,
        opened.secret,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
        # Not a date: a browser whose clock is ahead of ours would never send the cookie back.
        max_age=round(opened.lasts.total_seconds()),
    )


def refusal(refused: Refused) -> Problem:
    """
    Why nobody was signed in.

    Args:
        refused: The same, for programs.

    Returns:
        401, or 429 if there were too many attempts.
    """
    if refused.retry_after is None:
        return Problem(401, "the token is not good: it is unknown, was revoked or has ended")
    wait_s = max(1, math.ceil(refused.retry_after))
    return Problem(429, f"too many attempts to sign in; try again in {wait_s} s", headers={"Retry-After": str(wait_s)})
