"""
The audit log: who changed what, when, why and from where.

It is written in the transaction of the change, so that neither is without the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import select

from tidegate.control.models import AuditEntry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sqlalchemy.orm import Session

    from tidegate.control.caller import Caller

REASON_MAX: Final = 2000
_SUBJECT_MAX: Final = 300


def record(  # noqa: PLR0913  # an entry has as many parts
    session: Session,
    caller: Caller,
    action: str,
    subject: str,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    reason: str = "",
) -> None:
    """
    Writes an entry. Secrets and the keys of customers do not belong into it: name them by their digests.

    Args:
        session: The transaction of the change.
        caller: Who changed it.
        action: What was done, such as `rule.update`.
        subject: To what, such as `rule:login`.
        before: What it was; `None` if it is new.
        after: What it is now; `None` if it is gone.
        reason: Why, in the words of who did it.
    """
    session.add(
        AuditEntry(
            at=caller.at,
            actor=caller.name,
            address=caller.address,
            action=action,
            subject=subject[:_SUBJECT_MAX],
            before=None if before is None else dict(before),
            after=None if after is None else dict(after),
            reason=reason,
        )
    )


@dataclass(frozen=True, slots=True)
class Filter:
    """
    Which entries are asked for; `None` asks for all.

    Args:
        actor: Who.
        action: What was done; `rule.` asks for all that begin so.
        subject: To what; `rule:` asks for all that begin so.
        since: From then on.
        until: Before then.
    """

    actor: str | None = None
    action: str | None = None
    subject: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def entries(session: Session, wanted: Filter, *, before_id: int | None = None, limit: int = 100) -> list[AuditEntry]:
    """
    Reads a page of the log, newest first.

    Args:
        session: The transaction.
        wanted: Which entries.
        before_id: Those below this number: the last one of the page before.
        limit: At most so many.

    Returns:
        The entries.
    """
    query = select(AuditEntry).order_by(AuditEntry.id.desc()).limit(limit)
    if wanted.actor is not None:
        query = query.where(AuditEntry.actor == wanted.actor)
    for column, start in ((AuditEntry.action, wanted.action), (AuditEntry.subject, wanted.subject)):
        if start is not None:
            is_prefix = start.endswith((".", ":"))
            query = query.where(column.startswith(start, autoescape=True) if is_prefix else column == start)
    if wanted.since is not None:
        query = query.where(AuditEntry.at >= wanted.since)
    if wanted.until is not None:
        query = query.where(AuditEntry.at < wanted.until)
    if before_id is not None:
        query = query.where(AuditEntry.id < before_id)
    return list(session.scalars(query))
