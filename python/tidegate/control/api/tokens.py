"""
Tokens: made, listed and revoked by admins.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from tidegate.control import tokens
from tidegate.control.api.access import Caller, InControl, needs
from tidegate.control.api.problem import Problem, described
from tidegate.control.audit import REASON_MAX
from tidegate.control.models import Token
from tidegate.control.roles import Role

router = APIRouter(prefix="/admin/v1/tokens", tags=["tokens"])
ID_MAX = 2**63 - 1

TokenId = Annotated[int, Path(ge=1, le=ID_MAX)]


class NewToken(BaseModel):
    """
    A token to make.
    """

    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1, max_length=tokens.NAME_MAX, pattern=r"^[^\x00-\x1f\x7f]+$")
    """Whose it is: the audit log names them by it."""
    role: Role
    expires_at: AwareDatetime | None = None


class ShownToken(BaseModel):
    """
    What may be known of a token.
    """

    id: int
    name: str
    role: Role
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None
    """About when it was used last."""
    is_good: bool
    """Whether it still opens anything."""


class MadeToken(ShownToken):
    """
    A token that was just made.
    """

    token: str
    """The token itself. It cannot be shown again."""


@router.post("", status_code=201, responses=described(409))
def create(body: NewToken, control: InControl, caller: Annotated[Caller, needs(Role.ADMIN)]) -> MadeToken:
    """
    Makes a token, and shows it this once.
    """
    if body.expires_at is not None and body.expires_at <= caller.at:
        raise Problem(422, "expires_at: a token that has ended opens nothing")
    try:
        with control.database.session() as session:
            token, secret = tokens.create(session, caller, body.name, body.role, expires_at=body.expires_at)
    except tokens.NameTaken:
        raise Problem(409, "there is a token of that name; names are never given twice, because the audit log goes by them") from None
    return MadeToken(**_members(token, caller.at), token=secret)


@router.get("")
def list_all(control: InControl, caller: Annotated[Caller, needs(Role.ADMIN)]) -> list[ShownToken]:
    """
    Lists all tokens, also those that have ended.
    """
    with control.database.reading() as session:
        return [ShownToken(**_members(token, caller.at)) for token in tokens.listed(session)]


@router.delete("/{token_id}", responses=described(404))
def revoke(
    token_id: TokenId,
    control: InControl,
    caller: Annotated[Caller, needs(Role.ADMIN)],
    reason: Annotated[str, Query(max_length=REASON_MAX)] = "",
) -> ShownToken:
    """
    Revokes a token at once, and ends the sessions that were opened with it.
    """
    with control.database.session() as session:
        token = tokens.revoke(session, caller, token_id, reason=reason)
    if token is None:
        raise Problem(404, "there is no token of that number")
    return ShownToken(**_members(token, caller.at))


def _members(token: Token, now: datetime) -> dict[str, Any]:
    names = ("id", "name", "role", "created_at", "created_by", "expires_at", "revoked_at", "used_at")
    return {**{name: getattr(token, name) for name in names}, "is_good": tokens.is_good(token, now)}
