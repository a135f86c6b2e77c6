"""
Change requests as the API gives them.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from tidegate.control import bodies
from tidegate.control.compose import NO_FILES, ROLLING, share_of
from tidegate.control.models import ChangeRequest, RuleRevision
from tidegate.rules.diff import diff

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from tidegate.control.api.access import Control
    from tidegate.rules import RuleSet
    from tidegate.rules.model import Source


class Difference(BaseModel):
    """
    One thing that changes, in words.
    """

    about: str
    what: str
    text: str
    effect: str | None
    """Whether more or less may pass: `looser`, `tighter`, or null if neither can be said."""
    note: str | None


class ShownChange(BaseModel):
    """
    A change request.
    """

    id: int
    rule_id: str
    state: str
    base_revision: int
    rule: dict[str, Any] | None
    """What the rule is to be; null removes it."""
    before: dict[str, Any] | None
    """What it was; null if it is new."""
    differences: list[Difference]
    steps: list[int]
    step: int
    share: int | None
    """The percentage of keys that it has reached, 0 being shadow; null if it does not roll out."""
    step_seconds: int
    step_at: datetime | None
    version_name: str | None
    """The name under which the new version is counted while it rolls out."""
    reason: str
    by: str
    at: datetime
    decided_by: str | None
    decided_at: datetime | None
    ended_at: datetime | None


def shown_change(control: Control, session: Session, change: ChangeRequest) -> ShownChange:
    """
    A change request to show.

    Args:
        control: The control plane.
        session: The transaction.
        change: The change.

    Returns:
        What people see.
    """
    base = session.get(RuleRevision, (change.rule_id, change.base_revision))
    before = None if base is None else base.body
    is_rolling = change.state in ROLLING
    version = change.rule_id if before is None else f"{change.rule_id}~{change.id}"
    names = ("id", "rule_id", "state", "base_revision", "steps", "step", "step_seconds", "step_at", "reason", "by", "at")
    return ShownChange(
        **{name: getattr(change, name) for name in (*names, "decided_by", "decided_at", "ended_at")},
        rule=change.body,
        before=before,
        differences=differences(change.rule_id, before, change.body, control.follower.files.identity),
        share=share_of(change) if is_rolling else None,
        version_name=version if is_rolling and change.body is not None else None,
    )


def differences(rule_id: str, old: dict[str, Any] | None, new: dict[str, Any] | None, identity: tuple[Source, ...]) -> list[Difference]:
    """
    What changes between two bodies of a rule.

    Args:
        rule_id: The rule.
        old: As it was; `None` if there was none.
        new: As it will be; `None` if it is removed.
        identity: How clients are named.

    Returns:
        The differences, without the keys of customers.
    """
    was, now = (_alone(rule_id, body, identity) for body in (old, new))
    return [Difference(**change.to_dict()) for change in diff(was, now)]


def _alone(rule_id: str, body: dict[str, Any] | None, identity: tuple[Source, ...]) -> RuleSet:
    rule = None if body is None else bodies.read_stored(rule_id, bodies.to_text(body), identity)[0]
    return replace(NO_FILES, rules=() if rule is None else (rule,), identity=identity)
