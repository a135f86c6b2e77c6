"""
What the last hour would have looked like: recorded traffic, decided again by other rules.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import func, select

from tidegate.control import recorded
from tidegate.control.api.access import Caller, InControl, needs
from tidegate.control.api.problem import Problem, described
from tidegate.control.api.rule_forms import RuleDraft
from tidegate.control.api.trial import with_draft, without
from tidegate.control.models import Usage
from tidegate.control.roles import Role
from tidegate.errors import RuleError, UsageError
from tidegate.rules.replay import Outcome, Replayed, enforced, replay

router = APIRouter(prefix="/api/v1/rate-limit/rules", tags=["rules"])

Viewer = Annotated[Caller, needs(Role.VIEWER)]
Minutes = Annotated[int, Field(ge=1, le=24 * 60)]
_NONE: Final = Outcome()
# Each takes a core for seconds, and the decisions of this machine need it too.
_ONE_AT_A_TIME: Final = threading.Lock()


class WhatIf(BaseModel):
    """
    Other rules than those in force. Without any, the question is what those in force make of the traffic.
    """

    model_config = ConfigDict(extra="forbid")
    minutes: Minutes = 60
    draft: RuleDraft | None = None
    """A rule that is not in force, or another version of one that is."""
    remove: list[Annotated[str, Field(max_length=128)]] = Field(default_factory=list, max_length=100)
    """Stored rules that are left out."""
    enforce: list[Annotated[str, Field(max_length=128)]] = Field(default_factory=list, max_length=100)
    """Rules in shadow, or on their way, that are enforced for everybody."""


class Count(BaseModel):
    """
    Requests, by what was decided.
    """

    allowed: int
    denied: int
    shadow_denied: int


class RuleThen(BaseModel):
    """
    What a rule says, by the rules in force and by the others.
    """

    rule_id: str
    now: Count
    then: Count


class Comparison(BaseModel):
    """
    The same traffic, decided twice.
    """

    since: datetime
    until: datetime
    requests: int
    """How many recorded requests were decided again."""
    stands_for: int
    """How many requests they stand for. All counts are of these."""
    is_exact: bool
    """Whether every request of that time is among them, as far as anybody knows."""
    notes: list[str]
    now: Count
    """By the rules in force."""
    then: Count
    """By the others."""
    rules: list[RuleThen]


class IfEnforced(BaseModel):
    """
    What a rule in shadow has said, counted by the data planes: exact, not replayed.
    """

    rule_id: str
    since: datetime
    decided: int
    """Requests that it applied to."""
    would_deny: int
    """Of those, requests that were allowed and that it would have denied."""


@router.post("/replay", responses=described(401, 403, 413, 422, 429, 503))
def what_if(body: WhatIf, control: InControl, caller: Viewer) -> Comparison:
    """
    Decides recorded traffic again, by the rules in force and by others, from empty counters.
    """
    in_force = control.follower.composition.rule_set
    other = in_force if body.draft is None else with_draft(control, body.draft)
    other = enforced(without(other, body.remove), body.enforce)
    since = caller.at - timedelta(minutes=body.minutes)
    if not _ONE_AT_A_TIME.acquire(blocking=False):
        raise Problem(429, "somebody else's question is being answered; ask again in a moment", headers={"Retry-After": "3"})
    try:
        with control.database.reading() as session:
            requests = recorded.read(session, since, caller.at)
        now, then = replay(in_force, requests), replay(other, requests)
    except (UsageError, RuleError) as error:
        raise Problem(422, f"the traffic cannot be decided again: {error}") from None
    finally:
        _ONE_AT_A_TIME.release()
    names = sorted(now.rules.keys() | then.rules.keys())
    return Comparison(
        since=since,
        until=caller.at,
        requests=now.requests,
        stands_for=now.stands_for,
        is_exact=bool(requests) and now.requests == now.stands_for and now.requests < recorded.REQUESTS_MAX,
        notes=recorded.notes(requests, other),
        now=_count(now.total),
        then=_count(then.total),
        rules=[RuleThen(rule_id=name, now=_of(now, name), then=_of(then, name)) for name in names],
    )


@router.get("/{rule_id}/if-enforced", responses=described(401, 403, 422, 503))
def if_enforced(
    rule_id: Annotated[str, Path(max_length=128)],
    control: InControl,
    caller: Viewer,
    minutes: Annotated[int, Query(ge=1, le=7 * 24 * 60)] = 60,
) -> IfEnforced:
    """
    Says how many requests a rule in shadow would have denied, by the counts of all instances.
    """
    since = caller.at - timedelta(minutes=minutes)
    sums = select(func.sum(Usage.allowed), func.sum(Usage.denied), func.sum(Usage.shadow_denied))
    with control.database.reading() as session:
        row = session.execute(sums.where(Usage.rule_id == rule_id, Usage.digest == "", Usage.minute >= since)).one()
    allowed, denied, shadow_denied = (int(value or 0) for value in row)
    return IfEnforced(rule_id=rule_id, since=since, decided=allowed + denied + shadow_denied, would_deny=shadow_denied)


def _of(replayed: Replayed, name: str) -> Count:
    return _count(replayed.rules.get(name, _NONE))


def _count(outcome: Outcome) -> Count:
    return Count(allowed=outcome.allowed, denied=outcome.denied, shadow_denied=outcome.shadow_denied)
