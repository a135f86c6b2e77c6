"""
The audit log, to read.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict

from tidegate.control import audit
from tidegate.control.api.access import Caller, InControl, needs
from tidegate.control.roles import Role

router = APIRouter(prefix="/admin/v1/audit", tags=["audit"])
LIMIT_MAX = 1000

Word = Annotated[str | None, Query(max_length=300)]


class Entry(BaseModel):
    """
    Who changed what, when, why and from where.
    """

    model_config = ConfigDict(from_attributes=True)
    id: int
    at: datetime
    actor: str
    address: str
    action: str
    subject: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    reason: str


class Page(BaseModel):
    """
    A page of the log, newest first.
    """

    entries: list[Entry]
    next: int | None
    """What `before` has to be for the next page; null on the last one."""


@router.get("")
def read(  # noqa: PLR0913, PLR0917  # as many filters
    control: InControl,
    _caller: Annotated[Caller, needs(Role.VIEWER)],
    actor: Word = None,
    action: Word = None,
    subject: Word = None,
    since: AwareDatetime | None = None,
    until: AwareDatetime | None = None,
    before: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = 100,
) -> Page:
    """
    Reads the audit log. An `action` that ends in `.`, and a `subject` that ends in `:`, ask for all that begin so.
    """
    wanted = audit.Filter(actor, action, subject, since, until)
    with control.database.reading() as session:
        found = audit.entries(session, wanted, before_id=before, limit=limit + 1)
        entries = [Entry.model_validate(entry) for entry in found[:limit]]
    return Page(entries=entries, next=entries[-1].id if len(found) > limit else None)
