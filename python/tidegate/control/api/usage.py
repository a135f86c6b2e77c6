"""
How much of its quotas a key has used: `/admin/v1/usage`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from tidegate.control import audit, usage
from tidegate.control.api.access import Caller, Control, InControl, needs
from tidegate.control.api.fields import ApiKey, key_of
from tidegate.control.api.problem import Problem, described
from tidegate.control.roles import Role

router = APIRouter(prefix="/admin/v1/usage", tags=["quotas"])
SPAN = timedelta(hours=1)
SPAN_MAX = timedelta(days=31)


class Used(BaseModel):
    """
    What a key has used of one quota.
    """

    model_config = ConfigDict(from_attributes=True)
    rule: str
    quota: str
    mode: str
    limit: int | None
    used: int
    remaining: int | None
    reset_after: float
    """Seconds until nothing is used any more."""
    reset_at: datetime


class Point(BaseModel):
    """
    Decisions of one minute, by one rule.
    """

    model_config = ConfigDict(from_attributes=True)
    at: datetime
    rule: str
    allowed: int
    denied: int
    shadow_denied: int


class Usage(BaseModel):
    """
    How much of its quotas a key has used.
    """

    digest: str
    shown: str
    now: list[Used] | None
    """By every rule that counts the key, whatever else the rule asks of a request; null if it is not known."""
    why_unknown: str | None
    over_time: list[Point]


class Reset(BaseModel):
    """
    Why a key starts afresh.
    """

    model_config = ConfigDict(extra="forbid")
    reason: Annotated[str, Field(min_length=1, max_length=audit.REASON_MAX)]


class Done(BaseModel):
    """
    What became of it.
    """

    was_used: bool
    """Whether anything was known of the key."""


@router.get("/{api_key:path}", responses=described(401, 403, 422, 503))
def read(
    api_key: ApiKey,
    control: InControl,
    caller: Annotated[Caller, needs(Role.VIEWER)],
    since: AwareDatetime | None = None,
    until: AwareDatetime | None = None,
) -> Usage:
    """
    What a key has used now, by the counters, and over time (the last hour, if nothing else is asked for).
    """
    key = key_of(control, api_key)
    until = until or caller.at + timedelta(minutes=1)
    since = since or until - SPAN
    if not timedelta(0) < until - since <= SPAN_MAX:
        raise Problem(422, f"query.since: it is before until, by at most {SPAN_MAX.days} days")
    with control.database.reading() as session:
        points = [Point.model_validate(point) for point in usage.over_time(session, key, since=since, until=until)]
    now, why = _now(control, caller, key.value)
    return Usage(digest=key.digest, shown=key.shown, now=now, why_unknown=why, over_time=points)


@router.post("/{api_key:path}/reset", responses=described(401, 403, 409, 413, 422, 503))
def reset(api_key: ApiKey, body: Reset, control: InControl, caller: Annotated[Caller, needs(Role.EDITOR)]) -> Done:
    """
    Forgets what a key has used, under every rule that counts it apart from others.
    """
    key = key_of(control, api_key)
    limiter = control.limiter
    if key.value is None:
        raise Problem(422, "api_key: counters are found by the key itself, and not by its digest")
    if limiter is None:
        raise Problem(409, "the counters of this fleet are out of reach here: ask the control plane beside a service, or set `store`")
    # First: what is not written down does not happen.
    with control.database.session() as session:
        audit.record(session, caller, "key.reset", key.subject, reason=body.reason)
    return Done(was_used=limiter.forget(usage.facts(limiter.rule_set, key.value)))


def _now(control: Control, caller: Caller, value: str | None) -> tuple[list[Used] | None, str | None]:
    limiter = control.limiter
    if limiter is None:
        return None, "the counters are out of reach here: ask the control plane beside a service, or set `store`"
    if value is None:
        return None, "counters are found by the key itself, and not by its digest"
    found, why = usage.now(limiter, value)
    if why is not None:
        return None, f"the store cannot be asked: {why}"
    shown = ("rule", "quota", "mode", "limit", "used", "remaining", "reset_after")
    return [
        Used(**{name: getattr(one, name) for name in shown}, reset_at=caller.at + timedelta(seconds=one.reset_after)) for one in found
    ], None
