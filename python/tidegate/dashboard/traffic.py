"""
What was decided in the last hour, from the roll-ups of the database: by rule, by tier, by key, minute by minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from sqlalchemy import func, select

from tidegate.control.models import Usage
from tidegate.dashboard import charts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from markupsafe import Markup
    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

MINUTES: Final = 60
_SUMS: Final = (func.sum(Usage.allowed), func.sum(Usage.denied), func.sum(Usage.shadow_denied))


@dataclass(frozen=True, slots=True)
class Count:
    """
    Decisions of some time.
    """

    allowed: int = 0
    denied: int = 0
    shadow_denied: int = 0

    @property
    def total(self) -> int:
        """Decisions of every outcome. What a rule in shadow would have denied was allowed."""
        return self.allowed + self.denied


def begin(now: datetime) -> datetime:
    """
    The minute with which the last hour begins; the current one is its last.
    """
    return now.replace(second=0, microsecond=0) - timedelta(minutes=MINUTES - 1)


def by_rule(session: Session, now: datetime) -> dict[str, Count]:
    """
    The last hour by rule. These rows are exact.
    """
    query = select(Usage.rule_id, *_SUMS).where(Usage.digest == "", Usage.minute >= begin(now)).group_by(Usage.rule_id)
    return {rule: Count(*map(int, numbers)) for rule, *numbers in session.execute(query)}


def by_tier(session: Session, now: datetime) -> dict[str, Count]:
    """
    The last hour by tier, from events of single keys.
    """
    query = select(Usage.tier, *_SUMS).where(Usage.digest != "", Usage.minute >= begin(now)).group_by(Usage.tier)
    return {tier: Count(*map(int, numbers)) for tier, *numbers in session.execute(query)}


def minutes_by_rule(session: Session, now: datetime) -> dict[str, list[Count]]:
    """
    Every minute of the last hour, for every rule that decided anything.
    """
    query = (
        select(Usage.rule_id, Usage.minute, *_SUMS)
        .where(Usage.digest == "", Usage.minute >= begin(now))
        .group_by(Usage.rule_id, Usage.minute)
    )
    found: dict[str, dict[datetime, Count]] = {}
    for rule, minute, *numbers in session.execute(query):
        found.setdefault(rule, {})[minute] = Count(*map(int, numbers))
    return {rule: _fill(minutes, now) for rule, minutes in found.items()}


def minutes_of(session: Session, now: datetime, *, rule: str | None = None, digest: str = "") -> list[Count]:
    """
    Every minute of the last hour of one rule, or of one key.
    """
    wanted: list[ColumnElement[bool]] = [Usage.digest == digest, Usage.minute >= begin(now)]
    if rule is not None:
        wanted.append(Usage.rule_id == rule)
    query = select(Usage.minute, *_SUMS).where(*wanted).group_by(Usage.minute)
    return _fill({minute: Count(*map(int, numbers)) for minute, *numbers in session.execute(query)}, now)


def denied_keys(session: Session, now: datetime, most: int = 20) -> list[tuple[str, str, int]]:
    """
    The keys denied most in the last hour: digest, rule, how often.
    """
    denied = func.sum(Usage.denied)
    query = (
        select(Usage.digest, Usage.rule_id, denied)
        .where(Usage.digest != "", Usage.minute >= begin(now))
        .group_by(Usage.digest, Usage.rule_id)
    )
    rows = session.execute(query.having(denied > 0).order_by(denied.desc(), Usage.digest).limit(most))
    return [(digest, rule, int(number)) for digest, rule, number in rows]


def chart(counts: Sequence[Count], now: datetime, title: str, *, shadow: bool = False) -> Markup:
    """
    Minutes of the last hour as areas.

    Args:
        counts: One for each minute.
        now: The time.
        title: What they are about.
        shadow: Whether what shadow would have denied is part of what is shown.
    """
    start = begin(now)
    moments = [(start + timedelta(minutes=index)).strftime("%H:%M UTC") for index in range(len(counts))]
    series = [
        charts.Series("allowed", "allowed", [count.allowed - (count.shadow_denied if shadow else 0) for count in counts]),
        charts.Series("denied", "denied", [count.denied for count in counts]),
    ]
    if shadow:
        series.append(charts.Series("would be denied", "shadow", [count.shadow_denied for count in counts]))
    return charts.area(series, charts.Axis(title, (moments[0], moments[len(moments) // 2], "now"), moments))


def _fill(by_minute: Mapping[datetime, Count], now: datetime) -> list[Count]:
    start = begin(now)
    return [by_minute.get(start + timedelta(minutes=index), Count()) for index in range(MINUTES)]
