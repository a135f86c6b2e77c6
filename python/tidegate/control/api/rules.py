"""
Rules: those of files to read, those of the database to change.

A change names the revision that its author has seen (`If-Match`), so that two editors do not overwrite each other. Where changes need approval, or
are to come into force by steps, the answer is 202 and a change request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from tidegate.control import bodies, changes, rules
from tidegate.control.api.access import Caller, Control, InControl, needs
from tidegate.control.api.change_forms import ShownChange, shown_change
from tidegate.control.api.problem import Problem, described
from tidegate.control.api.rule_forms import Reason, RuleChange, ShownRule, Steps, shown, to_yaml
from tidegate.control.audit import REASON_MAX
from tidegate.control.refused import Refused
from tidegate.control.roles import Role
from tidegate.control.rules import Edit

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
_CHANGED = {202: {"model": ShownChange, "description": "It waits for approval, or rolls out: the change request."}}


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
def list_all(  # noqa: PLR0913, PLR0917  # as many filters
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
        both = [files[name]] if name in files else []
        rows = [(rule, None) for rule in both] + ([(None, stored[name])] if name in stored else [])
        for rule, row in rows:
            made = _shown(control, name, rule, row, pending.get(name))
            if q.casefold() in f"{made.rule_id}\n{made.summary}\n{made.description}\n{made.owner}".casefold():
                found.append(made)
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
) -> Response | ShownChange:
    """
    Removes a rule. What it was stays among its revisions.
    """
    base = _base(control, rule_id, if_match)
    made = _apply(control, caller, Edit(rule_id, None, base, reason), None, response)
    return made if isinstance(made, ShownChange) else Response(status_code=204)


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


def _apply(control: Control, caller: Caller, edit: Edit, steps: Steps | None, response: Response) -> Any:  # noqa: ANN401  # one of two answers
    rollout = (steps or Steps()).rollout()
    needs_approval = control.needs_approval
    with rules.changing(control.database) as session:
        if needs_approval or rollout.steps:
            _check_steps(control, session, edit, has_steps=bool(rollout.steps))
            change = changes.propose(session, caller, edit, rollout, needs_approval=needs_approval)
            answer: ShownRule | ShownChange = shown_change(control, session, change)
            response.status_code = 202
            response.headers["Location"] = f"{CHANGES}/{change.id}"
        elif edit.body is None:
            rules.put(session, caller, edit)
            answer = ShownRule.model_construct()
        else:
            rules.put(session, caller, edit)
            answer = _read(control, session, edit.rule_id, response)
    control.follower.ring()
    return answer


def _check_steps(control: Control, session: Session, edit: Edit, *, has_steps: bool) -> None:
    current = rules.check_base(session, edit)
    identity = control.follower.files.identity
    both = [body for body in (edit.body, None if current is None else current.body) if body is not None]
    stops = [bool(rule and rule.stop) for rule, _ in (bodies.read_stored(edit.rule_id, bodies.to_text(body), identity) for body in both)]
    if has_steps and any(stops):
        raise Refused("wrong", "a rule with `stop` comes into force at once: of two versions only the first would be looked at")


def _base(control: Control, rule_id: str, if_match: str | None) -> int:
    if any(rule.name == rule_id for rule in control.follower.files.rules):
        raise Problem(409, f"`{rule_id}` is a rule of a file, and only the file can change it")
    if if_match is None:
        raise Problem(428, "say which revision you have seen: If-Match with the ETag that GET answers")
    with control.database.reading() as session:
        current = rules.get(session, rule_id)
    if if_match.strip() == "*" or f'"{current.revision}"' in {tag.strip() for tag in if_match.split(",")}:
        return current.revision
    raise Problem(412, f"`{rule_id}` has revision {current.revision} by {current.updated_by}; read it, and change that", headers=_etag(current))


def _read(control: Control, session: Session, rule_id: str, response: Response) -> ShownRule:
    file_rule = next((rule for rule in control.follower.files.rules if rule.name == rule_id), None)
    stored = None if file_rule is not None else rules.get(session, rule_id)
    pending = changes.listed(session, states=changes.OPEN, rule_id=rule_id, limit=1)
    if stored is not None:
        response.headers.update(_etag(stored))
    made = _shown(control, rule_id, file_rule, stored, pending[0].id if pending else None)
    if file_rule is not None and (body := bodies.of_file(file_rule, control.follower.files.identity)) is not None:
        made = made.model_copy(update={"rule": body, "text": to_yaml(body)})
    return made


def _shown(control: Control, rule_id: str, rule: Any, stored: StoredRule | None, change_id: int | None) -> ShownRule:  # noqa: ANN401  # a rule or none
    follower = control.follower
    identity = follower.files.identity
    if stored is None:
        return shown(rule, None, identity, change_id=None, problem=None)
    found, problems = bodies.read_stored(rule_id, bodies.to_text(stored.body), identity)
    problem = follower.composition.left_out.get(rule_id)
    if found is None:
        # It was good when it was stored, and cannot be read with the identity that files have now.
        found = bodies.read(rule_id, bodies.to_text({"per": "global", "quotas": "unlimited", "mode": "off"}), identity).rule
        assert found is not None
        problem = problems[0].message
    return shown(found, stored, identity, change_id=change_id, problem=problem)


def _etag(stored: StoredRule) -> dict[str, str]:
    return {"ETag": f'"{stored.revision}"'}
