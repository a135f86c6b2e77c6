"""
The document of members: what customers have of their own at one time, as the engine takes it.

Of the rows of a key that hold at that time the one that began last wins, field by field: a key keeps its tier while a grant raises one
quota.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import or_, select

from tidegate._garbage import garbage_waits
from tidegate.control.models import Block, QuotaOverride, Tenant, Tier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import ColumnElement, Row
    from sqlalchemy.orm import Session

VERSION: Final = 1
_SECOND_NS: Final = 1_000_000_000
_FETCH: Final = 5_000


@garbage_waits()
def document(session: Session, now: datetime) -> tuple[str, datetime | None]:
    """
    Reads all members.

    Args:
        session: The transaction.
        now: The time.

    Returns:
        The document for `load_members`, and when it will be another one without any change: an override begins or ends. Blocks end by
        themselves.
    """
    tiers = {name: {"quotas": _texts(quotas)} for name, quotas in session.execute(select(Tier.name, Tier.quotas))}
    tenants = {
        name: {"tier": tier, "quotas": _texts(quotas)}
        for name, tier, quotas in session.execute(select(Tenant.name, Tenant.tier, Tenant.quotas))
    }
    keys: dict[str, dict[str, Any]] = {}
    for digest, tenant, tier, quotas in _overrides(session, now):
        member = keys.setdefault(digest, {})
        if tenant is not None:
            member["tenant"] = tenant
        if tier is not None:
            member["tier"] = tier
        if quotas:
            member.setdefault("quotas", {}).update(_texts(quotas))
    for digest, until in session.execute(select(Block.digest, Block.until).where(or_(Block.until.is_(None), Block.until > now))):
        keys.setdefault(digest, {})["blocked"] = {} if until is None else {"until_ns": _ns(until)}
    found = {"version": VERSION, "keys": keys, "tenants": tenants, "tiers": tiers}
    return json.dumps(found, separators=(",", ":")), next_change(session, now)


def next_change(session: Session, now: datetime) -> datetime | None:
    """
    When an override begins or ends next.

    Args:
        session: The transaction.
        now: The time.

    Returns:
        That time; `None` if nothing is scheduled.
    """
    columns = (QuotaOverride.effective_at, QuotaOverride.expires_at)
    times = (session.scalar(select(column).where(column > now).order_by(column).limit(1)) for column in columns)
    return min((time for time in times if time is not None), default=None)


def holds(now: datetime) -> ColumnElement[bool]:
    """
    That an override holds at a time: from `effective_at` on, and at `expires_at` no more.

    Args:
        now: The time.

    Returns:
        A condition for queries.
    """
    begun = or_(QuotaOverride.effective_at.is_(None), QuotaOverride.effective_at <= now)
    return begun & or_(QuotaOverride.expires_at.is_(None), QuotaOverride.expires_at > now)


def in_order(rows: Iterable[QuotaOverride]) -> list[QuotaOverride]:
    """
    Overrides in the order in which later ones win.

    Args:
        rows: Those of one key.

    Returns:
        First what holds since ever, then by beginning, then by age.
    """
    return sorted(rows, key=lambda row: (row.effective_at or datetime.min.replace(tzinfo=UTC), row.id))


def _overrides(session: Session, now: datetime) -> Iterator[Row[str, str | None, str | None, dict[str, Any]]]:
    # Columns and not objects: of a hundred thousand rows that takes a third of the time.
    query = select(QuotaOverride.digest, QuotaOverride.tenant, QuotaOverride.tier, QuotaOverride.quotas).where(holds(now))
    order = (QuotaOverride.effective_at.is_not(None), QuotaOverride.effective_at, QuotaOverride.id)
    yield from session.execute(query.order_by(*order), execution_options={"yield_per": _FETCH})


def _texts(quotas: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    return {rule: [{"text": text} for text in texts] for rule, texts in quotas.items()}


def _ns(time: datetime) -> int:
    # In whole numbers: a float has no room for nanoseconds since 1970.
    return int(time.timestamp()) * _SECOND_NS + time.microsecond * 1_000
