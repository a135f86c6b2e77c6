"""
Whether the control plane lives, and whether it can work. Anybody may ask: gateways and supervisors have no token.
"""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel

from tidegate.control.api.access import InControl

router = APIRouter(tags=["health"])


class Alive(BaseModel):
    """
    It lives.
    """

    status: Literal["alive"] = "alive"


class Ready(BaseModel):
    """
    Whether it can work, and why not.
    """

    status: Literal["ready", "degraded"]
    reasons: list[str]


@router.get("/healthz")
def healthz() -> Alive:
    """
    Says that it lives.
    """
    return Alive()


@router.get("/readyz", responses={503: {"model": Ready, "description": "The database cannot be used; decisions go on without it."}})
def readyz(response: Response, control: InControl) -> Ready:
    """
    Says whether the database can be used.
    """
    reasons = control.reasons()
    if reasons:
        response.status_code = 503
    return Ready(status="degraded" if reasons else "ready", reasons=reasons)
