"""
Tiers and tenants: quotas of many keys at once.

A tier is a plan that keys and tenants are put on. A tenant is a customer with several keys; its quotas are for rules that count per
tenant, and for every key of it that has none of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import func, select

from tidegate.control import audit
from tidegate.control.models import QuotaOverride, Tenant, Tier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.orm import Session

    from tidegate.control.caller import Caller

Group = TypeVar("Group", Tier, Tenant)


def put(  # noqa: PLR0913  # which one, what, by whom and why
    session: Session, caller: Caller, kind: type[Group], name: str, values: Mapping[str, Any], *, reason: str = ""
) -> Group:
    """
    Makes a group, or replaces what it is.

    Args:
        session: The transaction.
        caller: Who does it.
        kind: `Tier` or `Tenant`.
        name: Its name.
        values: `about` and `quotas`, and the `tier` of a tenant.
        reason: Why.

    Returns:
        The group.
    """
    group = session.get(kind, name, with_for_update=True)
    before = None if group is None else shown(group)
    if group is None:
        group = kind(name=name)
        session.add(group)
    for field, value in values.items():
        setattr(group, field, value)
    group.updated_at = caller.at
    session.flush()
    audit.record(session, caller, f"{_word(kind)}.put", f"{_word(kind)}:{name}", before=before, after=shown(group), reason=reason)
    return group


def remove(session: Session, caller: Caller, kind: type[Group], name: str, *, reason: str = "") -> bool:
    """
    Removes a group. Keys that belong to it keep its name, as requests may say it too.

    Args:
        session: The transaction.
        caller: Who does it.
        kind: `Tier` or `Tenant`.
        name: Its name.
        reason: Why.

    Returns:
        Whether there was one.
    """
    group = session.get(kind, name, with_for_update=True)
    if group is None:
        return False
    audit.record(session, caller, f"{_word(kind)}.delete", f"{_word(kind)}:{name}", before=shown(group), reason=reason)
    session.delete(group)
    return True


def listed(session: Session, kind: type[Group], *, start: str = "", after: str = "", limit: int = 100) -> list[Group]:
    """
    Reads a page of groups, by name.

    Args:
        session: The transaction.
        kind: `Tier` or `Tenant`.
        start: How their names begin.
        after: Those behind this name: the last one of the page before.
        limit: At most so many.

    Returns:
        The groups.
    """
    query = select(kind).where(kind.name > after, kind.name.startswith(start, autoescape=True))
    return list(session.scalars(query.order_by(kind.name).limit(limit)))


def key_counts(session: Session, kind: type[Tier | Tenant]) -> dict[str, int]:
    """
    How many keys name each group, whether or not it exists.

    Args:
        session: The transaction.
        kind: `Tier` or `Tenant`.

    Returns:
        Numbers by name.
    """
    column = QuotaOverride.tier if kind is Tier else QuotaOverride.tenant
    query = select(column, func.count(QuotaOverride.digest.distinct())).where(column.is_not(None)).group_by(column)
    return {name: count for name, count in session.execute(query) if name is not None}


def shown(group: Tier | Tenant) -> dict[str, Any]:
    """
    A group as people and the audit log see it.

    Args:
        group: The group.

    Returns:
        Its fields.
    """
    found: dict[str, Any] = {"about": group.about, "quotas": group.quotas}
    return found | {"tier": group.tier} if isinstance(group, Tenant) else found


def _word(kind: type[Tier | Tenant]) -> str:
    return "tier" if kind is Tier else "tenant"
