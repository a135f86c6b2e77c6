"""
Tokens: what a person or a program shows to the control plane. 256 random bits each, shown once, kept as SHA-256.

Nobody can guess one, so a digest without salt and without delay is as good as one with; and a token is found by it in one step.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from tidegate.control import audit
from tidegate.control.models import Token
from tidegate.control.roles import Role

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

    from tidegate.control.caller import Caller
    from tidegate.control.database import Database

PREFIX: Final = "tg_"
"""How tokens begin, so that people and scanners of secrets know one when they see it."""

FIRST: Final = "first admin"
NAME_MAX: Final = 128
_LENGTH_MAX: Final = 200
_NOTED_EVERY: Final = timedelta(minutes=1)
"""How exactly it is known when a token was used last: reading must not write each time."""


class NameTaken(Exception):
    """
    There is a token of that name, perhaps a revoked one. The audit log names people by it, so it stays theirs.
    """


def digest(secret: str) -> str:
    """
    How a token, or the cookie of a session, is kept.

    Args:
        secret: What was shown.

    Returns:
        SHA-256 in hexadecimal.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def create(session: Session, caller: Caller, name: str, role: Role, *, expires_at: datetime | None = None) -> tuple[Token, str]:
    """
    Makes a token.

    Args:
        session: The transaction.
        caller: Who makes it.
        name: Whose it is: what the audit log will say.
        role: What it lets them do.
        expires_at: When it ends; `None` is never.

    Returns:
        The token as it is kept, and the secret, which is known to nobody else and cannot be shown again.

    Raises:
        NameTaken: There is one of that name.
    """
    secret = PREFIX + secrets.token_urlsafe(32)
    token = Token(name=name, role=role.value, digest=digest(secret), created_at=caller.at, created_by=caller.name, expires_at=expires_at)
    session.add(token)
    try:
        session.flush()
    except IntegrityError:
        raise NameTaken(name) from None
    audit.record(session, caller, "token.create", f"token:{name}", after=shown(token))
    return token, secret


def create_first(database: Database, caller: Caller) -> str | None:
    """
    Makes the first token, of an admin, if there has never been one. Of several processes one does it.

    Args:
        database: The database.
        caller: In whose name.

    Returns:
        The secret; `None` if there are tokens.
    """
    try:
        with database.session() as session:
            if session.scalars(select(Token.id).limit(1)).first() is not None:
                return None
            return create(session, caller, FIRST, Role.ADMIN)[1]
    except NameTaken:
        return None


def find(session: Session, secret: str, now: datetime) -> Token | None:
    """
    The token that somebody shows.

    Args:
        session: The transaction.
        secret: What they show.
        now: The time.

    Returns:
        The token; `None` if there is none, if it was revoked, or if it has ended.
    """
    if len(secret) > _LENGTH_MAX:
        return None
    wanted = digest(secret)
    token = session.scalars(select(Token).where(Token.digest == wanted)).first()
    # The index has compared digests, from whose timing nobody learns a token; this is for who changes the digest one day.
    if token is None or not hmac.compare_digest(token.digest, wanted) or not is_good(token, now):
        return None
    return token


def is_good(token: Token, now: datetime) -> bool:
    """
    Whether a token still opens anything.

    Args:
        token: The token.
        now: The time.

    Returns:
        Whether it was not revoked and has not ended.
    """
    return token.revoked_at is None and (token.expires_at is None or now < token.expires_at)


def note_use(session: Session, token_id: int, now: datetime) -> None:
    """
    Notes that a token was used.

    Args:
        session: The transaction.
        token_id: The token.
        now: The time.
    """
    token = session.get(Token, token_id)
    if token is not None:
        token.used_at = now


def is_noted(token: Token, now: datetime) -> bool:
    """
    Whether the last use is known well enough.

    Args:
        token: The token.
        now: The time.

    Returns:
        Whether there is nothing to note.
    """
    return token.used_at is not None and abs(now - token.used_at) < _NOTED_EVERY


def revoke(session: Session, caller: Caller, token_id: int, *, reason: str = "") -> Token | None:
    """
    Ends a token at once, and with it all sessions that were opened by it. Nothing happens if it has been revoked.

    Args:
        session: The transaction.
        caller: Who does it.
        token_id: The token.
        reason: Why.

    Returns:
        The token; `None` if there is none of that number.
    """
    token = session.get(Token, token_id, with_for_update=True)
    if token is None or token.revoked_at is not None:
        return token
    before = shown(token)
    token.revoked_at = caller.at
    audit.record(session, caller, "token.revoke", f"token:{token.name}", before=before, after=shown(token), reason=reason)
    return token


def listed(session: Session) -> list[Token]:
    """
    All tokens, also those that have ended.

    Args:
        session: The transaction.

    Returns:
        The tokens in the order in which they were made.
    """
    return list(session.scalars(select(Token).order_by(Token.id)))


def shown(token: Token) -> dict[str, object]:
    """
    What may be known of a token.

    Args:
        token: The token.

    Returns:
        All but its digest, with times as texts.
    """
    times = {name: getattr(token, name) for name in ("created_at", "expires_at", "revoked_at", "used_at")}
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "created_by": token.created_by,
        **{name: None if at is None else at.isoformat() for name, at in times.items()},
    }
