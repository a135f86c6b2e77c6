"""
What the last hour would have looked like: recorded traffic, decided again by other rules, on counters and on a clock of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from tidegate.control.models import Recording
from tidegate.dashboard import traffic
from tidegate.dashboard.traffic import Count
from tidegate.errors import TidegateError
from tidegate.rule_limiter import RuleLimiter
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from datetime import datetime

    from markupsafe import Markup
    from sqlalchemy.orm import Session

    from tidegate.rules import RuleSet

RECORDINGS_MAX: Final = 200_000
"""So many are decided within a second or two; beyond, somebody would wait for a page."""


@dataclass(slots=True)
class Replay:
    """
    What came of it.

    Of some keys every request is recorded and of others none, so each is decided once and counts `weight` times. A rule that counts all
    clients together therefore denies less here than it would.

    Args:
        recorded: Recordings that were read.
        requests: Requests that they stand for.
        denied_before: Those that were denied then.
        denied_after: Those that would be denied.
        denied_by_rule: Those that the rule in question would deny, or would if it were enforced.
        met: Requests that the rule applies to.
        minutes: The hour as it would have been.
    """

    recorded: int = 0
    requests: int = 0
    denied_before: int = 0
    denied_after: int = 0
    denied_by_rule: int = 0
    met: int = 0
    minutes: list[Count] = field(default_factory=lambda: [Count()] * traffic.MINUTES)


def run(session: Session, now: datetime, rule_set: RuleSet, rule: str) -> Replay:
    """
    Decides the recordings of the last hour again.

    Args:
        session: Where they are.
        now: The end of the hour.
        rule_set: The rules.
        rule: The rule in question.

    Returns:
        What came of it.
    """
    start = traffic.begin(now)
    found = session.scalars(
        select(Recording).where(Recording.at >= start, Recording.at <= now).order_by(Recording.at, Recording.id).limit(RECORDINGS_MAX)
    )
    result = Replay()
    clock = ManualClock()
    began_ns = clock.time_ns()
    # Counters in memory, whatever the rules say about stores.
    with RuleLimiter(rule_set, clock=clock) as limiter:
        for recording in found:
            passed_ns = (recording.at - start) // timedelta(microseconds=1) * 1000
            clock.advance_ns(max(0, passed_ns - (clock.time_ns() - began_ns)))
            _decide(limiter, recording, rule, result, (recording.at - start) // timedelta(minutes=1))
    return result


def _decide(limiter: RuleLimiter, recording: Recording, rule: str, result: Replay, minute: int) -> None:
    try:
        decision = limiter.check(recording.attributes, recording.cost)
    except TidegateError:
        # What was recorded by other rules may lack what these ask for; nothing can be said about it.
        return
    weight = max(1, recording.weight)
    denies = rule in decision.shadowed or (decision.quota is not None and not decision.allowed and decision.quota.rule == rule)
    result.recorded += 1
    result.requests += weight
    result.denied_before += 0 if recording.allowed else weight
    result.denied_after += 0 if decision.allowed else weight
    result.denied_by_rule += weight if denies else 0
    result.met += weight if rule in decision.rules else 0
    before = result.minutes[minute]
    result.minutes[minute] = Count(before.allowed + weight * decision.allowed, before.denied + weight * (not decision.allowed))


def chart(result: Replay, now: datetime) -> Markup:
    """
    The hour as it would have been.
    """
    return traffic.chart(result.minutes, now, "Requests per minute as they would have been decided, last hour")
