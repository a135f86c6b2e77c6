"""
Quotas of customers: what one API key has of its own, for a time or for good.

A key has any number of overrides that begin at different times. To put one replaces the one that begins at the same time; the others stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, func, insert, or_, select

from tidegate.control import audit, members
from tidegate.control.models import QuotaOverride
from tidegate.errors import QuotaError
from tidegate.rules.quotas import parse_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from tidegate.control.caller import Caller
    from tidegate.control.keys import Key

RULES_MAX: Final = 1_000
"""The most rules for which one key, tenant or tier has quotas of its own."""

QUOTAS_MAX: Final = 64
TEXT_MAX: Final = 500
REASON_MAX: Final = audit.REASON_MAX
_BATCH: Final = 10_000
_PLACES: Final = select(QuotaOverride.id, QuotaOverride.digest, QuotaOverride.effective_at)


class Refused(ValueError):
    """
    Quotas that cannot be used.

    Args:
        problems: Each thing that is wrong: `path`, `message`, `code`, `hint`.
    """

    def __init__(self, problems: Sequence[dict[str, str]]) -> None:
        super().__init__("; ".join(f"{problem['path']}: {problem['message']}" for problem in problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    What a key is to have.

    Args:
        tenant: Whose key it is.
        tier: Its tier.
        quotas: Its quotas by rule, checked by `read`.
        effective_at: From when on; `None` is at once.
        expires_at: Until when; `None` is for good.
        reason: Why.
    """

    tenant: str | None = None
    tier: str | None = None
    quotas: Mapping[str, list[str]] = field(default_factory=dict)
    effective_at: datetime | None = None
    expires_at: datetime | None = None
    reason: str = ""


def read(given: Mapping[str, str | list[str]], path: str = "quotas") -> dict[str, list[str]]:
    """
    Checks quotas by rule.

    Args:
        given: For each rule a text such as `500/minute`, or several.
        path: Where they stand, for messages.

    Returns:
        The same as lists.

    Raises:
        Refused: With everything that is wrong.
    """
    problems: list[dict[str, str]] = []
    if len(given) > RULES_MAX:
        problems.append({"path": path, "message": f"more than {RULES_MAX:,} rules", "code": "too-many"})
    found: dict[str, list[str]] = {}
    for rule, quotas in list(given.items())[:RULES_MAX]:
        texts = [quotas] if isinstance(quotas, str) else list(quotas)
        at = f"{path}.{rule:.64}"
        if not texts or len(texts) > QUOTAS_MAX:
            problems.append({"path": at, "message": f"1 to {QUOTAS_MAX} quotas are expected", "code": "empty-list"})
        problems.extend(problem for text in texts if (problem := _problem(text, at)) is not None)
        found[rule] = texts
    if problems:
        raise Refused(problems)
    return found


def _problem(text: str, path: str) -> dict[str, str] | None:
    if len(text) > TEXT_MAX:
        return {"path": path, "message": f"a quota has at most {TEXT_MAX} characters", "code": "too-long"}
    try:
        parse_text(text)
    except QuotaError as error:
        problem = {"path": path, "message": str(error).partition("\n")[0], "code": error.code}
        return problem | ({"hint": error.hint} if error.hint else {})
    return None


def put(session: Session, caller: Caller, key: Key, wanted: Wanted, *, action: str = "quota.put") -> QuotaOverride:
    """
    Gives a key what it is to have, in the place of the override that begins at the same time.

    Args:
        session: The transaction.
        caller: Who gives it.
        key: The key.
        wanted: What it is to have.
        action: What the audit log calls it.

    Returns:
        The override.
    """
    rows = rows_of(session, key.digest, is_to_change=True)
    # What is over says nothing any more; the audit log has it.
    for row in [row for row in rows if row.expires_at is not None and row.expires_at <= caller.at]:
        session.delete(row)
    override = next((row for row in rows if row.effective_at == wanted.effective_at), None)
    before = None if override is None else shown(override)
    if override is None:
        override = QuotaOverride(digest=key.digest, effective_at=wanted.effective_at)
        session.add(override)
    override.shown = key.shown if key.value is not None else next((row.shown for row in rows), key.shown)
    override.tenant, override.tier, override.quotas = wanted.tenant, wanted.tier, dict(wanted.quotas)
    override.expires_at, override.reason = wanted.expires_at, wanted.reason
    override.updated_at, override.updated_by = caller.at, caller.name
    session.flush()
    audit.record(session, caller, action, key.subject, before=before, after=shown(override), reason=wanted.reason)
    return override


def grant(  # noqa: PLR0913  # what is granted, to whom, for how long and why
    session: Session, caller: Caller, key: Key, quotas: Mapping[str, list[str]], *, until: datetime, reason: str
) -> QuotaOverride:
    """
    Grants a key more for a time: everything else that it has stays.

    Args:
        session: The transaction.
        caller: Who grants it.
        key: The key.
        quotas: The raised quotas by rule.
        until: When it is over.
        reason: Why.

    Returns:
        The override.
    """
    wanted = Wanted(quotas=quotas, effective_at=caller.at, expires_at=until, reason=reason)
    return put(session, caller, key, wanted, action="quota.grant")


def remove(session: Session, caller: Caller, key: Key, *, override_id: int | None = None, reason: str = "") -> int:
    """
    Takes away what a key has of its own.

    Args:
        session: The transaction.
        caller: Who takes it.
        key: The key.
        override_id: One override; `None` takes all.
        reason: Why.

    Returns:
        How many overrides there were.
    """
    rows = [row for row in rows_of(session, key.digest, is_to_change=True) if override_id in {None, row.id}]
    for row in rows:
        audit.record(session, caller, "quota.delete", key.subject, before=shown(row), reason=reason)
    if rows:
        session.execute(delete(QuotaOverride).where(QuotaOverride.id.in_([row.id for row in rows])))
    return len(rows)


def put_all(session: Session, caller: Caller, rows: Sequence[tuple[Key, Wanted]], *, is_whole: bool, reason: str) -> int:
    """
    Gives many keys at once what they are to have. The audit log has one entry for all of them.

    Args:
        session: The transaction.
        caller: Who gives it.
        rows: Keys, with what each is to have.
        is_whole: Whether that is everything: then all other overrides go.
        reason: Why.

    Returns:
        How many overrides were there before in the place of these, or of all.
    """
    if is_whole:
        replaced = session.scalar(select(func.count()).select_from(QuotaOverride)) or 0
        session.execute(delete(QuotaOverride))
    else:
        known = {(digest, begins): number for number, digest, begins in session.execute(_PLACES)}
        numbers = [known[place] for key, wanted in rows if (place := (key.digest, wanted.effective_at)) in known]
        for start in range(0, len(numbers), _BATCH):
            session.execute(delete(QuotaOverride).where(QuotaOverride.id.in_(numbers[start : start + _BATCH])))
        replaced = len(numbers)
    if rows:
        session.execute(insert(QuotaOverride), [_values(caller, key, wanted) for key, wanted in rows])
    after = {"rows": len(rows), "replaced": replaced, "is_whole": is_whole}
    audit.record(session, caller, "quota.import", "quotas", after=after, reason=reason)
    return replaced


def _values(caller: Caller, key: Key, wanted: Wanted) -> dict[str, Any]:
    return {
        "digest": key.digest,
        "shown": key.shown,
        "tenant": wanted.tenant,
        "tier": wanted.tier,
        "quotas": dict(wanted.quotas),
        "effective_at": wanted.effective_at,
        "expires_at": wanted.expires_at,
        "reason": wanted.reason,
        "updated_at": caller.at,
        "updated_by": caller.name,
    }


def rows_of(session: Session, digest: str, *, is_to_change: bool = False) -> list[QuotaOverride]:
    """
    All overrides of a key, in the order in which later ones win.

    Args:
        session: The transaction.
        digest: The key.
        is_to_change: Whether they are about to be changed, so that nobody else does.

    Returns:
        The overrides.
    """
    query = select(QuotaOverride).where(QuotaOverride.digest == digest)
    return members.in_order(session.scalars(query.with_for_update() if is_to_change else query))


def in_force(rows: Iterable[QuotaOverride], now: datetime) -> dict[str, Any]:
    """
    What a key has at a time, of all its overrides.

    Args:
        rows: Its overrides, in order.
        now: The time.

    Returns:
        `tenant`, `tier` and `quotas`.
    """
    found: dict[str, Any] = {"tenant": None, "tier": None, "quotas": {}}
    for row in rows:
        if (row.effective_at is None or row.effective_at <= now) and (row.expires_at is None or row.expires_at > now):
            found["tenant"] = row.tenant if row.tenant is not None else found["tenant"]
            found["tier"] = row.tier if row.tier is not None else found["tier"]
            found["quotas"] |= row.quotas
    return found


@dataclass(frozen=True, slots=True)
class Filter:
    """
    Which overrides are asked for; `None` asks for all.

    Args:
        tenant: Whose keys.
        tier: On which tier.
        shown: What is shown of the key begins so.
        digest: The digest begins so.
    """

    tenant: str | None = None
    tier: str | None = None
    shown: str | None = None
    digest: str | None = None


def listed(session: Session, wanted: Filter, *, after_id: int = 0, limit: int = 100) -> list[QuotaOverride]:
    """
    Reads a page of overrides, in the order in which they were made.

    Args:
        session: The transaction.
        wanted: Which ones.
        after_id: Those above this number: the last one of the page before.
        limit: At most so many.

    Returns:
        The overrides.
    """
    query = select(QuotaOverride).where(QuotaOverride.id > after_id).order_by(QuotaOverride.id).limit(limit)
    if wanted.tenant is not None:
        query = query.where(QuotaOverride.tenant == wanted.tenant)
    if wanted.tier is not None:
        query = query.where(QuotaOverride.tier == wanted.tier)
    texts = [(QuotaOverride.shown, wanted.shown), (QuotaOverride.digest, wanted.digest)]
    starts = [column.startswith(start, autoescape=True) for column, start in texts if start is not None]
    return list(session.scalars(query.where(or_(*starts)) if starts else query))


def shown(row: QuotaOverride) -> dict[str, Any]:
    """
    An override as people and the audit log see it.

    Args:
        row: The override.

    Returns:
        Its fields, with times as texts.
    """
    times = {name: time.isoformat() for name in ("effective_at", "expires_at") if (time := getattr(row, name)) is not None}
    return {"tenant": row.tenant, "tier": row.tier, "quotas": row.quotas, **times}
