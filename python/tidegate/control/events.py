"""
Single decisions, as data planes tell of them: read, kept for a while, found again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self

from sqlalchemy import delete, func, insert, select

from tidegate.control.models import StoredEvent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy.orm import Session

COLUMNS: Final = ("event_id", "client_id", "endpoint", "rule_id", "allowed", "current_count", "limit_count", "timestamp")
"""What files, Kafka and ClickHouse get of an event, in this order."""

RULE_MAX: Final = 128
"""Paths of descriptors may be longer than the names of rules."""

BIGINT_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Event:
    """
    One decision: a denied one, or a sample that stands for `weight` allowed ones. Nothing in it is a key, unless `top.keys` is `plain`.
    """

    event_id: str
    at: float
    client_id: str
    digest: str
    endpoint: str
    rule_id: str
    is_allowed: bool
    current_count: int | None
    limit_count: int | None
    cost: int
    tier: str
    degraded: str | None
    shadowed: tuple[str, ...]
    weight: int
    attributes: dict[str, str] | None
    """What is recorded of the request, if anything is."""
    recorded_weight: int

    @classmethod
    def from_json(cls, line: bytes) -> Self:
        """
        Reads a line of `Server.take_events`.
        """
        said: dict[str, Any] = json.loads(line)
        recording = said.get("recording")
        return cls(
            event_id=said["event_id"],
            at=said["at"],
            client_id=said["client"],
            digest=said["digest"] or "",
            endpoint=f"{said['method']} {said['path']}".strip(),
            rule_id=(said["rule"] or "")[:RULE_MAX],
            is_allowed=said["allowed"],
            current_count=_whole(said["current"]),
            limit_count=_whole(said["limit"]),
            cost=min(said["cost"], BIGINT_MAX),
            tier=said["tier"][:RULE_MAX],
            degraded=said["degraded"],
            shadowed=tuple(said["shadowed"]),
            weight=said["weight"],
            attributes=None if recording is None else recording["attributes"],
            recorded_weight=0 if recording is None else recording["weight"],
        )

    @property
    def time(self) -> datetime:
        """When it was decided."""
        return datetime.fromtimestamp(self.at, UTC)

    def row(self) -> dict[str, Any]:
        """
        What files, Kafka and ClickHouse get of it.

        Returns:
            A value for each of `COLUMNS`.
        """
        return {
            "event_id": self.event_id,
            "client_id": self.client_id,
            "endpoint": self.endpoint,
            "rule_id": self.rule_id,
            "allowed": self.is_allowed,
            "current_count": self.current_count,
            "limit_count": self.limit_count,
            "timestamp": self.time.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }


def read(lines: bytes) -> Iterator[Event]:
    """
    Reads what `Server.take_events` answered.

    Args:
        lines: A line of JSON for each event.

    Yields:
        The events, oldest first.
    """
    return (Event.from_json(line) for line in lines.splitlines())


def store(session: Session, instance: str, events: Sequence[Event]) -> None:
    """
    Keeps events.

    Args:
        session: The transaction.
        instance: Who tells of them.
        events: The events.
    """
    if events:
        session.execute(insert(StoredEvent), [_stored(instance, event) for event in events])


def prune(session: Session, keep: int) -> None:
    """
    Forgets all but the last events.

    Args:
        session: The transaction.
        keep: How many are kept.
    """
    newest = select(StoredEvent.at).order_by(StoredEvent.at.desc())
    if keep == 0:
        session.execute(delete(StoredEvent))
    elif (oldest := session.scalar(newest.offset(keep - 1).limit(1))) is not None:
        session.execute(delete(StoredEvent).where(StoredEvent.at < oldest))


@dataclass(frozen=True, slots=True)
class Filter:
    """
    Which events are wanted; `None` is all of them. An `endpoint` that ends in `*` asks for all that begin so.
    """

    rule_id: str | None = None
    client_id: str | None = None
    digest: str | None = None
    endpoint: str | None = None
    instance: str | None = None
    is_allowed: bool | None = None
    since: datetime | None = None
    until: datetime | None = None


def find(session: Session, wanted: Filter, *, before: str | None = None, limit: int = 100) -> Sequence[StoredEvent]:
    """
    Finds events.

    Args:
        session: The transaction.
        wanted: Which.
        before: Only older ones than the event of this id.
        limit: How many at most.

    Returns:
        The events, newest first.
    """
    # Ids begin with the time, so their order is that of time.
    query = select(StoredEvent).order_by(StoredEvent.event_id.desc()).limit(limit)
    same = {
        StoredEvent.rule_id: wanted.rule_id,
        StoredEvent.client_id: wanted.client_id,
        StoredEvent.digest: wanted.digest,
        StoredEvent.instance: wanted.instance,
        StoredEvent.allowed: wanted.is_allowed,
    }
    for column, value in same.items():
        if value is not None:
            query = query.where(column == value)
    if wanted.endpoint is not None:
        is_start = wanted.endpoint.endswith("*")
        start = wanted.endpoint.removesuffix("*")
        query = query.where(
            func.substr(StoredEvent.endpoint, 1, len(start)) == start if is_start else StoredEvent.endpoint == wanted.endpoint
        )
    if wanted.since is not None:
        query = query.where(StoredEvent.at >= wanted.since)
    if wanted.until is not None:
        query = query.where(StoredEvent.at < wanted.until)
    if before is not None:
        query = query.where(StoredEvent.event_id < before)
    return session.scalars(query).all()


def _whole(number: int | None) -> int | None:
    return None if number is None else min(number, BIGINT_MAX)


def _stored(instance: str, event: Event) -> dict[str, Any]:
    return {
        "event_id": event.event_id,
        "at": event.time,
        "instance": instance,
        "client_id": event.client_id,
        "digest": event.digest,
        "endpoint": event.endpoint,
        "rule_id": event.rule_id,
        "allowed": event.is_allowed,
        "current_count": event.current_count,
        "limit_count": event.limit_count,
        "cost": event.cost,
        "tier": event.tier,
        "degraded": event.degraded,
        "shadowed": list(event.shadowed),
        "weight": event.weight,
    }
