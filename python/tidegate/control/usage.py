"""
How much of its quotas a key has used: now, by the counters, and over time, by the roll-ups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, select

from tidegate.control.models import Usage

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

    from tidegate.control.keys import Key
    from tidegate.rule_limiter import RuleLimiter
    from tidegate.rules import RuleSet

API_KEY: Final = "api_key"
POINTS_MAX: Final = 10_000
"""The most points of one answer."""


@dataclass(frozen=True, slots=True)
class Used:
    """
    What a key has used of one quota.

    Args:
        rule: The rule.
        quota: The quota, as text.
        mode: `enforce` or `shadow`.
        limit: The most that can be used; `None` is unlimited.
        used: How much is.
        remaining: How much is left; `None` is unlimited.
        reset_after: Seconds until nothing is used any more.
    """

    rule: str
    quota: str
    mode: str
    limit: int | None
    used: int
    remaining: int | None
    reset_after: float


def facts(rule_set: RuleSet, value: str) -> dict[str, Any]:
    """
    A request of which nothing is known but the key.

    Args:
        rule_set: The rules in force, which say where keys come from.
        value: The key.

    Returns:
        Attributes for a limiter.
    """
    found: dict[str, Any] = {API_KEY: value}
    sources = [source for source in rule_set.identity if source.attribute == API_KEY]
    if not rule_set.identity:
        found["client"] = value
    headers = {source.name: value for source in sources if source.kind == "header" and source.name is not None}
    return found | ({"headers": headers} if headers else {})


def now(limiter: RuleLimiter, value: str) -> tuple[list[Used], str | None]:
    """
    What a key has used of every rule that counts it, by the counters. Changes nothing.

    Args:
        limiter: Who decides.
        value: The key.

    Returns:
        One entry for each quota, and why the store could not be asked, if it could not: then nobody knows.
    """
    decision = limiter.usage(facts(limiter.rule_set, value))
    if decision.degraded:
        return [], decision.reason
    return [
        Used(
            rule=status.rule or "",
            quota=status.quota,
            mode=status.mode,
            limit=status.limit,
            used=0 if status.limit is None or status.remaining is None else max(status.limit - status.remaining, 0),
            remaining=status.remaining,
            reset_after=status.reset_after,
        )
        for status in decision.quotas
    ], None


@dataclass(frozen=True, slots=True)
class Point:
    """
    Decisions on a key in one span of time, by one rule.
    """

    at: datetime
    rule: str
    allowed: int
    denied: int
    shadow_denied: int


def over_time(session: Session, key: Key, *, since: datetime, until: datetime) -> list[Point]:
    """
    Decisions on a key, minute by minute and rule by rule, as far as they were reported.

    Args:
        session: The transaction.
        key: The key.
        since: From then on.
        until: Before then.

    Returns:
        What is known, by time; at most `POINTS_MAX` points, the latest.
    """
    counts = [func.sum(column) for column in (Usage.allowed, Usage.denied, Usage.shadow_denied)]
    query = (
        select(Usage.minute, Usage.rule_id, *counts)
        .where(Usage.digest == key.digest, Usage.minute >= since, Usage.minute < until)
        .group_by(Usage.minute, Usage.rule_id)
        .order_by(Usage.minute.desc(), Usage.rule_id)
        .limit(POINTS_MAX)
    )
    points = [Point(row[0], row[1], int(row[2]), int(row[3]), int(row[4])) for row in session.execute(query)]
    return points[::-1]
