"""
Keys of customers as pages show them: by their digests, masked, never as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from tidegate.control.models import Block, QuotaOverride, StoredEvent

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from sqlalchemy.orm import Session

DIGEST_LENGTH: Final = 32


@dataclass(frozen=True, slots=True)
class Denied:
    """
    A key that a rule denied.
    """

    digest: str
    shown: str
    rule: str
    denied: int


def is_digest(text: str) -> bool:
    """
    Whether a text is the digest of a key.
    """
    return len(text) == DIGEST_LENGTH and all(letter in "0123456789abcdef" for letter in text)


def names(session: Session, digests: Iterable[str]) -> dict[str, str]:
    """
    What is shown of keys, from wherever they are known: overrides, blocks, events. The beginning of the digest stands for the others.
    """
    wanted = list(set(digests))
    found = {digest: f"#{digest[:8]}" for digest in wanted}
    for digest, name in (
        (StoredEvent.digest, StoredEvent.client_id),
        (QuotaOverride.digest, QuotaOverride.shown),
        (Block.digest, Block.shown),
    ):
        found |= dict(session.execute(select(digest, name).where(digest.in_(wanted)).distinct()).all())
    return found


def overrides_of(session: Session, digest: str) -> list[QuotaOverride]:
    """
    What a key has, had and will have of its own, the newest first.
    """
    return list(session.scalars(select(QuotaOverride).where(QuotaOverride.digest == digest).order_by(QuotaOverride.id.desc()).limit(50)))


def in_force(overrides: Iterable[QuotaOverride], now: datetime) -> list[QuotaOverride]:
    """
    Those that hold now, the one that began last first.
    """
    held = [
        one
        for one in overrides
        if (one.effective_at is None or one.effective_at <= now) and (one.expires_at is None or now < one.expires_at)
    ]
    return sorted(held, key=lambda one: (one.effective_at or one.updated_at, one.id), reverse=True)
