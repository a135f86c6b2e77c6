"""
Recorded traffic: samples of requests that can be decided again by other rules.

All requests of a key are recorded or none is, so that rules that count by it say the same when they are asked again.
Each stands for `weight` requests. Values are digests, except for the attributes that the setting `events.attributes` names.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, insert, select

from tidegate.control.models import Recording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from tidegate.control.events import Event

ROWS_MAX: Final = 500_000
"""The most recordings that are kept, however long that is."""

_WEIGHT_MAX: Final = 2**31 - 1


def store(session: Session, events: Sequence[Event]) -> None:
    """
    Keeps what was recorded.

    Args:
        session: The transaction.
        events: Events with recordings.
    """
    if events:
        rows = [
            {
                "at": datetime.fromtimestamp(event.at, UTC),
                "attributes": event.attributes,
                "cost": event.cost,
                "allowed": event.is_allowed,
                "weight": min(event.recorded_weight, _WEIGHT_MAX),
            }
            for event in events
        ]
        session.execute(insert(Recording), rows)


def prune(session: Session, before: datetime) -> None:
    """
    Forgets old recordings, and those that are too many.

    Args:
        session: The transaction.
        before: What was recorded before is forgotten.
    """
    session.execute(delete(Recording).where(Recording.at < before))
    last = session.scalar(select(Recording.id).order_by(Recording.id.desc()).offset(ROWS_MAX).limit(1))
    if last is not None:
        session.execute(delete(Recording).where(Recording.id <= last))


def between(session: Session, since: datetime, until: datetime, limit: int = 100_000) -> Sequence[Recording]:
    """
    What was recorded in a time.

    Args:
        session: The transaction.
        since: From then on.
        until: Up to then.
        limit: How many at most.

    Returns:
        The recordings, oldest first.
    """
    query = select(Recording).where(Recording.at >= since, Recording.at < until).order_by(Recording.at, Recording.id).limit(limit)
    return session.scalars(query).all()
