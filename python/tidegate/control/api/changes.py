"""
Change requests: to read, to approve or decline, and to take through their steps.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict

from tidegate.control import changes, edits
from tidegate.control.api.access import Caller, Control, InControl, needs
from tidegate.control.api.change_forms import ShownChange, shown_change
from tidegate.control.api.problem import Problem, described
from tidegate.control.api.rule_forms import Reason
from tidegate.control.roles import Role

router = APIRouter(prefix="/api/v1/rate-limit/changes", tags=["changes"])

ChangeId = Annotated[int, Path(ge=1, le=2**63 - 1)]
Viewer = Annotated[Caller, needs(Role.VIEWER)]
Editor = Annotated[Caller, needs(Role.EDITOR)]
Approver = Annotated[Caller, needs(Role.APPROVER)]
_DECIDED = described(401, 403, 404, 409, 413, 422, 503)


class Decide(BaseModel):
    """
    Why.
    """

    model_config = ConfigDict(extra="forbid")
    reason: Reason = ""


class ChangePage(BaseModel):
    """
    Change requests, newest first.
    """

    changes: list[ShownChange]
    next: int | None
    """What `before` has to be for the next page; null on the last one."""


@router.get("", responses=described(401, 403, 422, 503))
def list_all(  # as many filters
    control: InControl,
    _caller: Viewer,
    state: Annotated[list[str] | None, Query(max_length=10)] = None,
    rule_id: Annotated[str | None, Query(max_length=128)] = None,
    before: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> ChangePage:
    """
    Lists change requests. `state=open` asks for those that wait or roll out.
    """
    wanted = set(changes.STATES) if not state else {name for one in state for name in (changes.OPEN if one == "open" else {one})}
    if not wanted <= set(changes.STATES):
        raise Problem(422, f"states are open, {', '.join(changes.STATES)}")
    with control.database.reading() as session:
        found = changes.listed(session, states=wanted, rule_id=rule_id, before=before, limit=limit + 1)
        shown = [shown_change(control, session, change) for change in found[:limit]]
    return ChangePage(changes=shown, next=shown[-1].id if len(found) > limit else None)


@router.get("/{change_id}", responses=described(401, 403, 404, 422, 503))
def read(change_id: ChangeId, control: InControl, _caller: Viewer) -> ShownChange:
    """
    Reads a change request.
    """
    with control.database.reading() as session:
        return shown_change(control, session, changes.get(session, change_id))


@router.post("/{change_id}/approve", responses=_DECIDED)
def approve(change_id: ChangeId, control: InControl, caller: Approver, body: Decide | None = None) -> ShownChange:
    """
    Agrees to a change that somebody else proposed, and begins it. Of two who approve at once exactly one does.
    """
    return _take(control, caller, "approve", change_id, body)


@router.post("/{change_id}/reject", responses=_DECIDED)
def reject(change_id: ChangeId, control: InControl, caller: Editor, body: Decide | None = None) -> ShownChange:
    """
    Declines a change, as an approver, or takes it back, as its author.
    """
    return _take(control, caller, "reject", change_id, body)


@router.post("/{change_id}/advance", responses=_DECIDED)
def advance(change_id: ChangeId, control: InControl, caller: Editor, body: Decide | None = None) -> ShownChange:
    """
    Takes the next step; after the last one the change is done.
    """
    return _take(control, caller, "advance", change_id, body)


@router.post("/{change_id}/finish", responses=_DECIDED)
def finish(change_id: ChangeId, control: InControl, caller: Editor, body: Decide | None = None) -> ShownChange:
    """
    Skips the steps that are left: the new rule is in force for everybody. Where changes need approval, it needs the role of an approver.
    """
    return _take(control, caller, "finish", change_id, body)


@router.post("/{change_id}/stop", responses=_DECIDED)
def stop(change_id: ChangeId, control: InControl, caller: Editor, body: Decide | None = None) -> ShownChange:
    """
    Stops a change that rolls out: the old rule is in force for everybody again.
    """
    return _take(control, caller, "stop", change_id, body)


def _take(control: Control, caller: Caller, word: str, change_id: int, body: Decide | None) -> ShownChange:
    edits.decide(control, caller, word, change_id, "" if body is None else body.reason)
    return read(change_id, control, caller)
