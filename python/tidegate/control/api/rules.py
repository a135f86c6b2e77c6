"""
Rules: those of files to read, those of the database to change.

A change names the revision that its author has seen (`If-Match`), so that two editors do not overwrite each other. Where changes need
approval, or are to come into force by steps, the answer is 202 and a change request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from tidegate.control import bodies, changes, edits, rules
from tidegate.control.api.access import Caller, Control, InControl, needs
from tidegate.control.api.change_forms import ShownChange, shown_change
from tidegate.control.api.problem import Problem, described
from tidegate.control.api.rule_forms import Reason, RuleChange, ShownRule, Steps, shown, to_yaml
from tidegate.control.audit import REASON_MAX
from tidegate.control.roles import Role
from tidegate.control.rules import Edit
from tidegate.rules import Rule

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from tidegate.control.models import StoredRule

router = APIRouter(prefix="/api/v1/rate-limit/rules", tags=["rules"])
LIMIT_MAX = 1000
CHANGES = "/api/v1/rate-limit/changes"

RuleId = Annotated[str, Path(max_length=128)]
IfMatch = Annotated[str | None, Header(alias="If-Match", max_length=200)]
Viewer = Annotated[Caller, needs(Role.VIEWER)]
Editor = Annotated[Caller, needs(Role.EDITOR)]
Percent = Annotated[int, Field(ge=0, le=100)]
_CHANGED: dict[int | str, dict[str, Any]] = {
    202: {"model": ShownChange, "description": "It waits for approval, or rolls out: the change request."}
}


class RulePage(BaseModel):
    """
    Rules, in the order of their names.
    """

    rules: list[ShownRule]
    next: str | None
    """What `after` has to be for the next page; null on the last one."""
    number: int
    """The last change that is in force in this process."""


class Rollback(BaseModel):
    """
    A revision to go back to.
    """

    model_config = ConfigDict(extra="forbid")
    revision: int = Field(ge=1, le=2**31 - 1)
    reason: Reason = ""
    rollout: Steps | None = None


@router.get("", responses=described(401, 403, 422, 503))
def list_all(  # as many filters
    control: InControl,
    _caller: Viewer,
    source: Literal["database", "file"] | None = None,
    q: Annotated[str, Query(max_length=200)] = "",
    after: Annotated[str, Query(max_length=128)] = "",
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = 100,
) -> RulePage:
    """
    Lists rules. `q` finds a text in their names, summaries, descriptions and owners.
    """
    with control.database.reading() as session:
        stored = {} if source == "file" else {rule.rule_id: rule for rule in rules.listed(session)}
        pending = {change.rule_id: change.id for change in changes.listed(session, states=changes.OPEN, limit=LIMIT_MAX)}
    files = {} if source == "database" else {rule.name: rule for rule in control.follower.files.rules}
    found = []
    for name in sorted(stored.keys() | files.keys()):
        if name <= after:
            continue
        # Both, if a file has taken the name of a stored rule.
        both = [_of_file(control, files[name])] if name in files else []
        both += [_stored(control, stored[name], pending.get(name))] if name in stored else []
        found += [made for made in both if q.casefold() in f"{made.rule_id}\n{made.summary}\n{made.description}\n{made.owner}".casefold()]
        if len(found) > limit:
            break
    page = found[:limit]
    return RulePage(rules=page, next=page[-1].rule_id if len(found) > limit else None, number=control.follower.number)


@router.get("/{rule_id}", responses=described(401, 403, 404, 422, 503))
def read(rule_id: RuleId, response: Response, control: InControl, _caller: Viewer) -> ShownRule:
    """
    Reads a rule. The header `ETag` of a stored one is what `If-Match` has to be to change it.
    """
    with control.database.reading() as session:
        return _read(control, session, rule_id, response)


@router.post("", status_code=201, response_model=ShownRule | ShownChange, responses=_CHANGED | described(401, 403, 409, 413, 422, 503))
def create(body: RuleChange, response: Response, control: InControl, caller: Editor) -> ShownRule | ShownChange:
    """
    Makes a rule.
    """
    rule, kept = body.good(None, control.follower.composition.rule_set)
    return _apply(control, caller, Edit(rule.name, kept, 0, body.reason), body.rollout, response)


@router.put(
    "/{rule_id}", response_model=ShownRule | ShownChange, responses=_CHANGED | described(401, 403, 404, 409, 412, 413, 422, 428, 503)
)
def replace(  # noqa: PLR0913, PLR0917  # what FastAPI hands over
    rule_id: RuleId, body: RuleChange, response: Response, control: InControl, caller: Editor, if_match: IfMatch = None
) -> ShownRule | ShownChange:
    """
    Replaces a rule as a whole.
    """
    base = _base(control, rule_id, if_match)
    _, kept = body.good(rule_id, control.follower.composition.rule_set)
    return _apply(control, caller, Edit(rule_id, kept, base, body.reason), body.rollout, response)


@router.delete("/{rule_id}", status_code=204, response_model=None, responses=_CHANGED | described(401, 403, 404, 409, 412, 422, 428, 503))
def delete(  # noqa: PLR0913, PLR0917  # what FastAPI hands over
    rule_id: RuleId,
    response: Response,
    control: InControl,
    caller: Editor,
    if_match: IfMatch = None,
    reason: Annotated[str, Query(max_length=REASON_MAX)] = "",
    steps: Annotated[list[Percent] | None, Query(max_length=changes.STEPS_MAX)] = None,
    step_seconds: Annotated[int, Query(ge=0, le=changes.STEP_SECONDS_MAX)] = 0,
) -> Response | ShownChange:
    """
    Removes a rule. What it was stays among its revisions. With `steps=50&steps=100` it fades out.
    """
    edit = Edit(rule_id, None, _base(control, rule_id, if_match), reason)
    with rules.changing(control.database) as session:
        change = _propose(control, session, caller, edit, Steps(steps=steps or [], step_seconds=step_seconds), response)
        if change is None:
            rules.put(session, caller, edit)
    control.follower.ring()
    return Response(status_code=204) if change is None else change


@router.post(
    "/{rule_id}/rollback",
    response_model=ShownRule | ShownChange,
    responses=_CHANGED | described(401, 403, 404, 409, 412, 413, 422, 428, 503),
)
def roll_back(  # noqa: PLR0913, PLR0917  # what FastAPI hands over
    rule_id: RuleId, body: Rollback, response: Response, control: InControl, caller: Editor, if_match: IfMatch = None
) -> ShownRule | ShownChange:
    """
    Makes a rule what it was at some revision, as a new revision. A rule that was removed comes back without `If-Match`.
    """
    with control.database.reading() as session:
        wanted = rules.revision(session, rule_id, body.revision).body
        is_there = any(rule.rule_id == rule_id for rule in rules.listed(session))
    if wanted is None:
        raise Problem(422, f"revision {body.revision} is where the rule was removed; use DELETE")
    base = _base(control, rule_id, if_match) if is_there else 0
    _, kept = RuleChange(rule=wanted).good(rule_id, control.follower.composition.rule_set)
    return _apply(control, caller, Edit(rule_id, kept, base, body.reason or f"back to revision {body.revision}"), body.rollout, response)


def _apply(control: Control, caller: Caller, edit: Edit, steps: Steps | None, response: Response) -> ShownRule | ShownChange:
    with rules.changing(control.database) as session:
        answer: ShownRule | ShownChange | None = _propose(control, session, caller, edit, steps, response)
        if answer is None:
            rules.put(session, caller, edit)
            answer = _read(control, session, edit.rule_id, response)
    control.follower.ring()
    return answer


def _propose(  # noqa: PLR0913, PLR0917  # all that a change is
    control: Control, session: Session, caller: Caller, edit: Edit, steps: Steps | None, response: Response
) -> ShownChange | None:
    change = edits.propose(control, session, caller, edit, (steps or Steps()).rollout())
    if change is None:
        return None
    response.status_code = 202
    response.headers["Location"] = f"{CHANGES}/{change.id}"
    return shown_change(control, session, change)


def _base(control: Control, rule_id: str, if_match: str | None) -> int:
    if any(rule.name == rule_id for rule in control.follower.files.rules):
        raise Problem(409, f"`{rule_id}` is a rule of a file, and only the file can change it")
    if if_match is None:
        raise Problem(428, "say which revision you have seen: If-Match with the ETag that GET answers")
    with control.database.reading() as session:
        current = rules.get(session, rule_id)
    if if_match.strip() == "*" or f'"{current.revision}"' in {tag.strip() for tag in if_match.split(",")}:
        return current.revision
    raise Problem(
        412, f"`{rule_id}` has revision {current.revision} by {current.updated_by}; read it, and change that", headers=_etag(current)
    )


def _read(control: Control, session: Session, rule_id: str, response: Response) -> ShownRule:
    files = control.follower.files
    of_file = next((rule for rule in files.rules if rule.name == rule_id), None)
    if of_file is not None:
        body = bodies.of_file(of_file, files.identity)
        return _of_file(control, of_file).model_copy(update={"rule": body, "text": None if body is None else to_yaml(body)})
    stored = rules.get(session, rule_id)
    pending = changes.listed(session, states=changes.OPEN, rule_id=rule_id, limit=1)
    response.headers.update(_etag(stored))
    return _stored(control, stored, pending[0].id if pending else None)


def _stored(control: Control, stored: StoredRule, change_id: int | None) -> ShownRule:
    identity = control.follower.files.identity
    rule, problems = bodies.read_stored(stored.rule_id, bodies.to_text(stored.body), identity)
    problem = control.follower.composition.left_out.get(stored.rule_id)
    if rule is None:
        # It was good when it was stored, and cannot be read with the identity that files have now.
        rule, problem = Rule(name=stored.rule_id, mode="off", file=bodies.DATABASE), problems[0].message
    return shown(rule, stored, identity, change_id=change_id, problem=problem)


def _of_file(control: Control, rule: Rule) -> ShownRule:
    return shown(rule, None, control.follower.files.identity, change_id=None, problem=None)


def _etag(stored: StoredRule) -> dict[str, str]:
    return {"ETag": f'"{stored.revision}"'}
