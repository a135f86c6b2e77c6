"""
Keys that are refused: `/admin/v1/blocks`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from tidegate.control import blocks
from tidegate.control.api.access import Caller, InControl, needs
from tidegate.control.api.fields import ApiKey, Limit, key_of
from tidegate.control.api.problem import Problem, described
from tidegate.control.audit import REASON_MAX
from tidegate.control.roles import Role

router = APIRouter(prefix="/admin/v1/blocks", tags=["quotas"])
SECONDS_MAX = 10 * 366 * 86_400

Why = Annotated[str, Field(min_length=1, max_length=REASON_MAX)]


class NewBlock(BaseModel):
    """
    For how long, and why: `seconds` or `until`, and for good without either.
    """

    model_config = ConfigDict(extra="forbid")
    seconds: Annotated[int | None, Field(ge=1, le=SECONDS_MAX)] = None
    until: AwareDatetime | None = None
    reason: Why


class ShownBlock(BaseModel):
    """
    A key that is refused.
    """

    model_config = ConfigDict(from_attributes=True)
    digest: str
    shown: str
    """What may be seen of the key."""
    until: datetime | None
    reason: str
    at: datetime
    by: str


class Blocks(BaseModel):
    """
    A page of blocks.
    """

    blocks: list[ShownBlock]
    next: str | None
    """What `after` has to be for the next page; null on the last one."""


@router.get("", responses=described(401, 403, 422, 503))
def list_all(
    control: InControl,
    caller: Annotated[Caller, needs(Role.VIEWER)],
    after: Annotated[str, Query(max_length=32)] = "",
    limit: Limit = 100,
) -> Blocks:
    """
    Lists the keys that are refused now.
    """
    with control.database.reading() as session:
        found = blocks.listed(session, caller.at, after=after, limit=limit + 1)
        shown = [ShownBlock.model_validate(block) for block in found[:limit]]
    return Blocks(blocks=shown, next=shown[-1].digest if len(found) > limit else None)


@router.put("/{api_key:path}", responses=described(401, 403, 413, 422, 503))
def block(api_key: ApiKey, body: NewBlock, control: InControl, caller: Annotated[Caller, needs(Role.EDITOR)]) -> ShownBlock:
    """
    Refuses a key from now on, until a time or for good.
    """
    if body.seconds is not None and body.until is not None:
        raise Problem(422, "body: give seconds or until, and not both")
    until = body.until if body.seconds is None else caller.at + timedelta(seconds=body.seconds)
    if until is not None and until <= caller.at:
        raise Problem(422, "body.until: this is over already")
    key = key_of(control, api_key)
    with control.database.session() as session:
        found = ShownBlock.model_validate(blocks.block(session, caller, key, until=until, reason=body.reason))
        control.database.changed(session)
    return found


@router.delete("/{api_key:path}", status_code=204, responses=described(401, 403, 404, 422, 503))
def unblock(
    api_key: ApiKey,
    control: InControl,
    caller: Annotated[Caller, needs(Role.EDITOR)],
    reason: Annotated[str, Query(min_length=1, max_length=REASON_MAX)],
) -> None:
    """
    Ends a block.
    """
    key = key_of(control, api_key)
    with control.database.session() as session:
        if not blocks.unblock(session, caller, key, reason=reason):
            raise Problem(404, "this key is not blocked")
        control.database.changed(session)
