"""
What stored rules have been, and what has changed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict

from tidegate.control import rules
from tidegate.control.api.access import Caller, InControl, needs
from tidegate.control.api.change_forms import Difference, differences
from tidegate.control.api.problem import described
from tidegate.control.refused import Refused
from tidegate.control.roles import Role

router = APIRouter(prefix="/api/v1/rate-limit/rules/{rule_id}", tags=["rules"])

RuleId = Annotated[str, Path(max_length=128)]
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
Viewer = Annotated[Caller, needs(Role.VIEWER)]
_READ = described(401, 403, 404, 422, 503)


class Revision(BaseModel):
    """
    What a rule was.
    """

    model_config = ConfigDict(from_attributes=True)
    rule_id: str
    revision: int
    body: dict[str, Any] | None
    """Null where it was removed."""
    at: datetime
    by: str
    reason: str
    change_id: int | None


class RevisionPage(BaseModel):
    """
    Revisions, newest first.
    """

    revisions: list[Revision]
    next: int | None
    """What `before` has to be for the next page; null on the last one."""


class Differences(BaseModel):
    """
    What changed between two revisions, in words.
    """

    rule_id: str
    old: int
    new: int
    differences: list[Difference]


@router.get("/revisions", responses=_READ)
def list_all(
    rule_id: RuleId,
    control: InControl,
    _caller: Viewer,
    before: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> RevisionPage:
    """
    Lists what a rule has been, also if it was removed.
    """
    with control.database.reading() as session:
        found = rules.revisions(session, rule_id, before=before, limit=limit + 1)
    if not found and before is None:
        raise Refused("unknown", f"there is no stored rule `{rule_id:.80}`, and never was")
    page = [Revision.model_validate(one) for one in found[:limit]]
    return RevisionPage(revisions=page, next=page[-1].revision if len(found) > limit else None)


@router.get("/revisions/{number}", responses=_READ)
def read(rule_id: RuleId, number: Number, control: InControl, _caller: Viewer) -> Revision:
    """
    Reads one revision.
    """
    with control.database.reading() as session:
        return Revision.model_validate(rules.revision(session, rule_id, number))


@router.get("/diff", responses=_READ)
def compare(
    rule_id: RuleId,
    control: InControl,
    _caller: Viewer,
    old: Annotated[int, Query(ge=0, le=2**31 - 1)],
    new: Annotated[int, Query(ge=0, le=2**31 - 1)],
) -> Differences:
    """
    Says in words what changed between two revisions. Revision 0 is before the first.
    """
    with control.database.reading() as session:
        was, now = (None if number == 0 else rules.revision(session, rule_id, number).body for number in (old, new))
    found = differences(rule_id, was, now, control.follower.files.identity)
    return Differences(rule_id=rule_id, old=old, new=new, differences=found)
