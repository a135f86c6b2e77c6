"""
Blocks: API keys that are refused until a time, or for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, or_, select

from tidegate.control import audit
from tidegate.control.models import Block

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

    from tidegate.control.caller import Caller
    from tidegate.control.keys import Key


def block(session: Session, caller: Caller, key: Key, *, until: datetime | None, reason: str) -> Block:
    """
    Blocks a key. One that is blocked already is blocked until then instead.

    Args:
        session: The transaction.
        caller: Who does it.
        key: The key.
        until: When it is over; `None` is for good.
        reason: Why.

    Returns:
        The block.
    """
    session.execute(delete(Block).where(Block.until <= caller.at))
    found = session.get(Block, key.digest, with_for_update=True)
    before = None if found is None else shown(found)
    if found is None:
        found = Block(digest=key.digest, shown=key.shown)
        session.add(found)
    elif key.value is not None:
        found.shown = key.shown
    found.until, found.reason, found.at, found.by = until, reason, caller.at, caller.name
    session.flush()
    audit.record(session, caller, "key.block", key.subject, before=before, after=shown(found), reason=reason)
    return found


def unblock(session: Session, caller: Caller, key: Key, *, reason: str) -> bool:
    """
    Ends a block.

    Args:
        session: The transaction.
        caller: Who does it.
        key: The key.
        reason: Why.

    Returns:
        Whether the key was blocked.
    """
    found = of(session, key.digest, caller.at)
    if found is None:
        return False
    audit.record(session, caller, "key.unblock", key.subject, before=shown(found), reason=reason)
    session.delete(found)
    return True


def of(session: Session, digest: str, now: datetime) -> Block | None:
    """
    The block of a key, unless it is over.

    Args:
        session: The transaction.
        digest: The key.
        now: The time.

    Returns:
        The block, or `None`.
    """
    return session.scalar(select(Block).where(Block.digest == digest, _holds(now)))


def listed(session: Session, now: datetime, *, after: str = "", limit: int = 100) -> list[Block]:
    """
    Reads a page of blocks that are not over, by digest.

    Args:
        session: The transaction.
        now: The time.
        after: Those behind this digest: the last one of the page before.
        limit: At most so many.

    Returns:
        The blocks.
    """
    return list(session.scalars(select(Block).where(Block.digest > after, _holds(now)).order_by(Block.digest).limit(limit)))


def shown(found: Block) -> dict[str, Any]:
    """
    A block as the audit log sees it.

    Args:
        found: The block.

    Returns:
        Its fields, with times as texts.
    """
    return {"until": None if found.until is None else found.until.isoformat()}


def _holds(now: datetime) -> Any:  # noqa: ANN401  # a condition of SQLAlchemy
    return or_(Block.until.is_(None), Block.until > now)
