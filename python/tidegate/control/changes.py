"""
Change requests: proposed, approved by a second person, rolled out step by step, finished or stopped.

```
             reject, withdraw                     stop
 proposed ─────────────────────▶ rejected    ┌──────────────▶ stopped (the old rule alone again)
    │ approve                                │
    ├──────────────▶ shadow ──▶ rolling ─────┤
    │                 advance, by hand or    └──────────────▶ done (the new rule alone, as its next revision)
    └─ no steps ──────by the clock ───────────── finish ────▶
```

Every function works in a transaction of `rules.changing`: of two who decide at once the second finds what the first has left.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import select

from tidegate.control import audit, rules
from tidegate.control.caller import Caller
from tidegate.control.compose import ROLLING, share_of
from tidegate.control.models import ChangeRequest
from tidegate.control.refused import Refused
from tidegate.control.roles import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from tidegate.control.rules import Edit

OPEN: Final = frozenset({"proposed", *ROLLING})
STATES: Final = ("proposed", "rejected", "withdrawn", "shadow", "rolling", "done", "stopped")
STEPS_MAX: Final = 20
STEP_SECONDS_MAX: Final = 30 * 24 * 3600
_CLOCK: Final = "tidegate"
"""Who takes a step when its time has come."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """
    How a change comes into force.

    Args:
        steps: Shares of keys in percent, rising; 0 is shadow. None: at once.
        step_seconds: How long each step lasts; 0 waits to be told.
    """

    steps: tuple[int, ...] = ()
    step_seconds: int = 0


def check_rollout(rollout: Rollout) -> None:
    """
    Refuses steps that make no sense.

    Args:
        rollout: The steps.

    Raises:
        Refused: They do not rise from 0 to 100, or there are too many.
    """
    steps = rollout.steps
    is_rising = all(before < after for before, after in pairwise(steps))
    if len(steps) > STEPS_MAX or not all(0 <= step <= 100 for step in steps) or not is_rising:  # noqa: PLR2004  # percent
        raise Refused("wrong", f"steps are up to {STEPS_MAX} whole percentages that rise, from 0 (shadow) to 100: [0, 5, 25, 100]")
    if not 0 <= rollout.step_seconds <= STEP_SECONDS_MAX:
        raise Refused("wrong", f"step_seconds is between 0 (each step is taken by hand) and {STEP_SECONDS_MAX}")


def get(session: Session, change_id: int) -> ChangeRequest:
    """
    A change request as it is now.

    Args:
        session: The transaction.
        change_id: Its number.

    Returns:
        The change.

    Raises:
        Refused: There is none.
    """
    found = session.get(ChangeRequest, change_id, populate_existing=True)
    if found is None:
        raise Refused("unknown", f"there is no change {change_id}")
    return found


def listed(
    session: Session, *, states: Iterable[str] = STATES, rule_id: str | None = None, before: int | None = None, limit: int = 100
) -> list[ChangeRequest]:
    """
    Change requests, newest first.

    Args:
        session: The transaction.
        states: In which states.
        rule_id: Of which rule; by default of all.
        before: Only those below this number.
        limit: At most so many.

    Returns:
        The changes.
    """
    query = select(ChangeRequest).where(ChangeRequest.state.in_(list(states))).order_by(ChangeRequest.id.desc()).limit(limit)
    if rule_id is not None:
        query = query.where(ChangeRequest.rule_id == rule_id)
    if before is not None:
        query = query.where(ChangeRequest.id < before)
    return list(session.scalars(query))


def propose(session: Session, caller: Caller, edit: Edit, rollout: Rollout, *, needs_approval: bool) -> ChangeRequest:
    """
    Asks for a change.

    Args:
        session: The transaction.
        caller: Who asks.
        edit: The change.
        rollout: How it comes into force.
        needs_approval: Whether a second person has to agree; otherwise it begins at once.

    Returns:
        The change request.

    Raises:
        Refused: The author has not seen the rule as it is, or a change of it rolls out.
    """
    check_rollout(rollout)
    current = rules.check_base(session, edit)
    change = ChangeRequest(
        rule_id=edit.rule_id,
        base_revision=edit.base,
        body=edit.body,
        state="proposed",
        steps=list(rollout.steps),
        step=0,
        step_seconds=rollout.step_seconds,
        reason=edit.reason,
        by=caller.name,
        at=caller.at,
    )
    session.add(change)
    session.flush()
    before = None if current is None else current.body
    _record(session, caller, "change.propose", change, before=before, after=edit.body, reason=edit.reason)
    if not needs_approval:
        _begin(session, caller, change)
    return change


def approve(session: Session, caller: Caller, change_id: int, *, reason: str = "") -> ChangeRequest:
    """
    Agrees to a change that somebody else proposed, and begins it.

    Args:
        session: The transaction.
        caller: Who agrees.
        change_id: The change.
        reason: Why.

    Returns:
        The change.

    Raises:
        Refused: It is one's own, has been decided, or the rule has changed since it was proposed.
    """
    change = _proposed(session, change_id)
    if change.by == caller.name:
        raise Refused("own", "a second person has to approve a change, not its author")
    change.decided_by, change.decided_at = caller.name, caller.at
    _record(session, caller, "change.approve", change, reason=reason)
    _begin(session, caller, change)
    return change


def reject(session: Session, caller: Caller, change_id: int, *, reason: str = "") -> ChangeRequest:
    """
    Declines a change; its author may take it back in the same way.

    Args:
        session: The transaction.
        caller: Who declines.
        change_id: The change.
        reason: Why.

    Returns:
        The change.

    Raises:
        Refused: It has been decided, or the caller may not: neither the author nor an approver.
    """
    change = _proposed(session, change_id)
    is_own = change.by == caller.name
    if not is_own and not caller.role.may(Role.APPROVER):
        raise Refused("own", f"a change is declined by an approver, or withdrawn by {change.by}")
    change.decided_by, change.decided_at = caller.name, caller.at
    _end(session, caller, change, "withdrawn" if is_own else "rejected", "change.withdraw" if is_own else "change.reject", reason)
    return change


def advance(session: Session, caller: Caller, change_id: int, *, reason: str = "") -> ChangeRequest:
    """
    Takes the next step of a change that rolls out; after the last one it is finished.

    Args:
        session: The transaction.
        caller: Who takes it.
        change_id: The change.
        reason: Why.

    Returns:
        The change.

    Raises:
        Refused: It does not roll out.
    """
    change = _rolling(session, change_id)
    if change.step + 1 >= len(change.steps):
        return _finish(session, caller, change, reason)
    before = share_of(change)
    change.step += 1
    change.step_at, change.state = caller.at, _state(change)
    _record(session, caller, "change.advance", change, before={"share": before}, after={"share": share_of(change)}, reason=reason)
    return change


def finish(session: Session, caller: Caller, change_id: int, *, reason: str = "") -> ChangeRequest:
    """
    Puts a change that rolls out into force for everybody.

    Args:
        session: The transaction.
        caller: Who does it.
        change_id: The change.
        reason: Why.

    Returns:
        The change.

    Raises:
        Refused: It does not roll out.
    """
    return _finish(session, caller, _rolling(session, change_id), reason)


def stop(session: Session, caller: Caller, change_id: int, *, reason: str = "") -> ChangeRequest:
    """
    Ends a change that rolls out: the old rule is in force for everybody again.

    Args:
        session: The transaction.
        caller: Who does it.
        change_id: The change.
        reason: Why.

    Returns:
        The change.

    Raises:
        Refused: It does not roll out.
    """
    change = _rolling(session, change_id)
    _end(session, caller, change, "stopped", "change.stop", reason)
    return change


def due_at(changes: Iterable[ChangeRequest]) -> datetime | None:
    """
    When the next step is to be taken by the clock.

    Args:
        changes: Changes that roll out.

    Returns:
        The time; `None` if all wait to be told.
    """
    return min((due for change in changes if (due := _due(change)) is not None), default=None)


def advance_due(session: Session, now: datetime) -> Sequence[ChangeRequest]:
    """
    Takes the steps whose time has come, one of each change: a clock that is set forward skips none.

    Args:
        session: The transaction.
        now: The time.

    Returns:
        The changes that took a step.
    """
    clock = Caller(_CLOCK, Role.EDITOR, "", now)
    query = select(ChangeRequest).where(ChangeRequest.state.in_(ROLLING))
    found = [change for change in session.scalars(query) if (due := _due(change)) is not None and due <= now]
    for change in found:
        advance(session, clock, change.id, reason=f"{change.step_seconds} seconds have passed")
    return found


def is_early(change: ChangeRequest, now: datetime) -> bool:
    """
    Whether the step that a change has taken is to last longer.

    Args:
        change: The change.
        now: The time.

    Returns:
        Never of steps that are taken by hand.
    """
    due = _due(change)
    return due is not None and now < due


def _due(change: ChangeRequest) -> datetime | None:
    # What was read from the cache does not say it: steps are taken only together with the database.
    if not change.step_seconds or change.step_at is None:
        return None
    return change.step_at + timedelta(seconds=change.step_seconds)


def _begin(session: Session, caller: Caller, change: ChangeRequest) -> None:
    rules.check_idle(session, change.rule_id)
    try:
        rules.check_base(session, _edit(change))
    except Refused as refused:
        raise Refused("over", f"the rule has changed since this was proposed, propose it again: {refused}") from None
    if not change.steps:
        _finish(session, caller, change, change.reason)
    else:
        change.step, change.step_at = 0, caller.at
        change.state = _state(change)


def _finish(session: Session, caller: Caller, change: ChangeRequest, reason: str) -> ChangeRequest:
    # The revision is the work of who wrote it; the audit log says who finished it.
    rules.put(session, caller, _edit(change), change_id=change.id)
    _end(session, caller, change, "done", "change.finish", reason)
    return change


def _end(session: Session, caller: Caller, change: ChangeRequest, state: str, action: str, reason: str) -> None:  # noqa: PLR0913, PLR0917  # two of them say how it ended
    change.state, change.ended_at = state, caller.at
    _record(session, caller, action, change, reason=reason)


def _edit(change: ChangeRequest) -> Edit:
    return rules.Edit(change.rule_id, change.body, change.base_revision, change.reason)


def _state(change: ChangeRequest) -> str:
    return "shadow" if share_of(change) == 0 else "rolling"


def _proposed(session: Session, change_id: int) -> ChangeRequest:
    change = get(session, change_id)
    if change.state != "proposed":
        by = f" by {change.decided_by}" if change.decided_by else ""
        raise Refused("over", f"change {change_id} has been decided{by}: it is {change.state}")
    return change


def _rolling(session: Session, change_id: int) -> ChangeRequest:
    change = get(session, change_id)
    if change.state not in ROLLING:
        raise Refused("over", f"change {change_id} does not roll out: it is {change.state}")
    return change


def _record(  # noqa: PLR0913  # as many as an entry has
    session: Session,
    caller: Caller,
    action: str,
    change: ChangeRequest,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    reason: str,
) -> None:
    audit.record(session, caller, action, f"change:{change.id}:{change.rule_id}", before=before, after=after, reason=reason)
