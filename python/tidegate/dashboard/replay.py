"""
What the last hour would have looked like: recorded traffic, decided again by the rules in force and by those with a draft among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tidegate.control import recorded
from tidegate.dashboard import charts, words
from tidegate.rules.replay import Outcome, replay

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from markupsafe import Markup
    from sqlalchemy.orm import Session

    from tidegate.rules import RuleSet

HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Comparison:
    """
    The same traffic, decided twice.

    Args:
        recorded: Requests that were recorded.
        requests: Requests that they stand for.
        now: By the rules in force.
        then: With the draft.
        rule: What the draft says to the requests that it applies to.
        notes: What has to be known to read the numbers.
    """

    recorded: int
    requests: int
    now: Outcome
    then: Outcome
    rule: Outcome
    notes: Sequence[str]

    @property
    def met(self) -> int:
        """Requests that the draft applies to."""
        return self.rule.allowed + self.rule.denied + self.rule.shadow_denied

    def chart(self) -> Markup:
        """
        Both, as bars.
        """
        rows = [
            charts.Bar(
                name,
                [("allowed", outcome.allowed), ("denied", outcome.denied)],
                f"{words.count(outcome.denied)} denied",
                note=words.share(outcome.denied, self.requests),
            )
            for name, outcome in (("as the rules are", self.now), ("with this one", self.then))
        ]
        return charts.bars(rows, "the last hour, decided twice")


def compare(session: Session, now: datetime, in_force: RuleSet, draft: RuleSet, name: str) -> Comparison:
    """
    Decides the last hour again.

    Args:
        session: Where it was recorded.
        now: The end of the hour.
        in_force: The rules in force.
        draft: Those with the draft among them.
        name: The draft's name.

    Returns:
        What came of it.
    """
    requests = recorded.read(session, now - HOUR, now)
    before, after = replay(in_force, requests), replay(draft, requests)
    rule = after.rules.get(name, Outcome())
    return Comparison(after.requests, after.stands_for, before.total, after.total, rule, recorded.notes(requests, draft))
