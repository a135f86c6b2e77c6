"""
Stored rules and all that they have been. Every function works in the transaction of its caller.

    with rules.changing(database) as session:
        rules.put(session, caller, Edit("login", body, base=3, reason="too many bots"))
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from tidegate.control import audit
from tidegate.control.compose import ROLLING
from tidegate.control.models import ChangeRequest, RuleRevision, StoredRule
from tidegate.control.refused import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.orm import Session

    from tidegate.control.caller import Caller
    from tidegate.control.database import Database


@contextmanager
def changing(database: Database) -> Iterator[Session]:
    """
    A transaction that changes rules.

    Such transactions run one after the other, so that what they look at before they write holds until they end: counting the version up,
    which they do first, takes its only row.

    Args:
        database: The database.

    Yields:
        The session.
    """
    with database.session() as session:
        database.changed(session)
        yield session


@dataclass(frozen=True, slots=True)
class Edit:
    """
    A change of one rule.

    Args:
        rule_id: Its name.
        body: What it is to be; `None` removes it.
        base: The revision that the author has seen; 0 if there was none.
        reason: Why.
    """

    rule_id: str
    body: dict[str, Any] | None
    base: int
    reason: str = ""


def get(session: Session, rule_id: str) -> StoredRule:
    """
    A rule as it is stored.

    Args:
        session: The transaction.
        rule_id: Its name.

    Returns:
        The rule.

    Raises:
        Refused: There is none.
    """
    found = session.get(StoredRule, rule_id)
    if found is None:
        raise Refused("unknown", f"there is no stored rule `{rule_id:.80}`")
    return found


def listed(session: Session) -> list[StoredRule]:
    """
    All stored rules, by their names.

    Args:
        session: The transaction.

    Returns:
        The rules.
    """
    return list(session.scalars(select(StoredRule).order_by(StoredRule.rule_id)))


def revisions(session: Session, rule_id: str, *, before: int | None = None, limit: int = 100) -> list[RuleRevision]:
    """
    What a rule has been, newest first.

    Args:
        session: The transaction.
        rule_id: Its name.
        before: Only those below this number.
        limit: At most so many.

    Returns:
        The revisions; also those of a rule that was removed.
    """
    query = select(RuleRevision).where(RuleRevision.rule_id == rule_id).order_by(RuleRevision.revision.desc()).limit(limit)
    return list(session.scalars(query if before is None else query.where(RuleRevision.revision < before)))


def revision(session: Session, rule_id: str, number: int) -> RuleRevision:
    """
    What a rule was at some time.

    Args:
        session: The transaction.
        rule_id: Its name.
        number: The revision.

    Returns:
        The revision.

    Raises:
        Refused: There is none.
    """
    found = session.get(RuleRevision, (rule_id, number))
    if found is None:
        raise Refused("unknown", f"the rule `{rule_id:.80}` has no revision {number}")
    return found


def check_base(session: Session, edit: Edit) -> StoredRule | None:
    """
    Makes sure that the author of a change has seen what it changes.

    Args:
        session: The transaction.
        edit: The change.

    Returns:
        The rule as it is; `None` if there is none.

    Raises:
        Refused: There is another revision, or one where there was none.
    """
    current = session.get(StoredRule, edit.rule_id, populate_existing=True)
    if edit.base == 0 and current is not None:
        raise Refused("taken", f"there is a rule `{edit.rule_id}` already; change it with PUT")
    if edit.base != 0 and current is None:
        raise Refused("unknown", f"there is no stored rule `{edit.rule_id:.80}`")
    if current is not None and current.revision != edit.base:
        raise Refused(
            "stale",
            f"`{edit.rule_id}` has revision {current.revision} by {current.updated_by}, and the change is one of revision {edit.base}",
        )
    if current is None and edit.body is None:
        raise Refused("unknown", f"there is no stored rule `{edit.rule_id:.80}`")
    return current


def put(session: Session, caller: Caller, edit: Edit, *, change_id: int | None = None) -> int:
    """
    Changes a rule at once. Its revisions are numbered on, also if it was removed meanwhile, so that a number means one body for ever.

    Args:
        session: The transaction, made by `changing`.
        caller: Who does it.
        edit: The change.
        change_id: The change request that is finished by it.

    Returns:
        The number of the new revision.

    Raises:
        Refused: Somebody else was faster, or a change of the rule rolls out.
    """
    current = check_base(session, edit)
    if change_id is None:
        check_idle(session, edit.rule_id)
    before = None if current is None else current.body
    number = 1 + (session.scalar(select(func.max(RuleRevision.revision)).where(RuleRevision.rule_id == edit.rule_id)) or 0)
    made = RuleRevision(
        rule_id=edit.rule_id, revision=number, body=edit.body, at=caller.at, by=caller.name, reason=edit.reason, change_id=change_id
    )
    session.add(made)
    if edit.body is None:
        session.delete(current)
    elif current is None:
        session.add(StoredRule(rule_id=edit.rule_id, revision=number, body=edit.body, updated_at=caller.at, updated_by=caller.name))
    else:
        current.revision, current.body = number, edit.body
        current.updated_at, current.updated_by = caller.at, caller.name
    action = "rule.delete" if edit.body is None else "rule.create" if current is None else "rule.update"
    audit.record(session, caller, action, f"rule:{edit.rule_id}", before=before, after=edit.body, reason=edit.reason)
    return number


def check_idle(session: Session, rule_id: str) -> None:
    """
    Makes sure that no change of a rule rolls out: two versions at a time are enough.

    Args:
        session: The transaction.
        rule_id: The rule.

    Raises:
        Refused: One does.
    """
    query = select(ChangeRequest.id).where(ChangeRequest.rule_id == rule_id, ChangeRequest.state.in_(ROLLING))
    if (found := session.scalars(query).first()) is not None:
        raise Refused("busy", f"change {found} of `{rule_id}` rolls out; finish or stop it first")
