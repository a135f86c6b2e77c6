"""
Sessions of browsers: a cookie that stands for a token, so that the token itself is typed once and kept nowhere in the browser.

A session ends when it has not been used for a while, when it is old, when its owner signs out, and at once when its token does.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, select

from tidegate.control import audit, tokens
from tidegate.control.models import BrowserSession, Token

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

    from tidegate.control.caller import Caller

COOKIE: Final = "tidegate_session"
IDLE: Final = timedelta(hours=2)
_SEEN_EVERY: Final = timedelta(minutes=1)
_LENGTH_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Opened:
    """
    A session that was just opened.

    Args:
        secret: What the cookie holds.
        csrf: What its forms send along.
        expires_at: When it ends at the latest.
        lasts: The same as a duration, for a browser whose clock is another.
    """

    secret: str
    csrf: str
    expires_at: datetime
    lasts: timedelta


def open_session(session: Session, caller: Caller, lasts: timedelta) -> Opened:
    """
    Opens a session for who has shown a token, and forgets those that have ended.

    Args:
        session: The transaction.
        caller: Who.
        lasts: How long it lasts at the most.

    Returns:
        The session.
    """
    session.execute(delete(BrowserSession).where(BrowserSession.expires_at <= caller.at))
    opened = Opened(secrets.token_urlsafe(32), secrets.token_hex(32), caller.at + lasts, lasts)
    row = BrowserSession(
        digest=tokens.digest(opened.secret),
        token_id=caller.token_id,
        csrf=opened.csrf,
        created_at=caller.at,
        seen_at=caller.at,
        expires_at=opened.expires_at,
    )
    session.add(row)
    audit.record(session, caller, "session.open", f"token:{caller.name}")
    return opened


def find(session: Session, secret: str, now: datetime) -> tuple[BrowserSession, Token] | None:
    """
    The session of a cookie, and its token.

    Args:
        session: The transaction.
        secret: What the cookie holds.
        now: The time.

    Returns:
        Both; `None` if there is no such session, or if it or its token has ended.
    """
    if len(secret) > _LENGTH_MAX:
        return None
    query = select(BrowserSession, Token).join(Token, Token.id == BrowserSession.token_id)
    found = session.execute(query.where(BrowserSession.digest == tokens.digest(secret))).first()
    if found is None:
        return None
    opened, token = found
    if now >= opened.expires_at or now - opened.seen_at >= IDLE or not tokens.is_good(token, now):
        return None
    return opened, token


def is_noted(opened: BrowserSession, now: datetime) -> bool:
    """
    Whether it is known well enough when a session was used last.

    Args:
        opened: The session.
        now: The time.

    Returns:
        Whether there is nothing to note.
    """
    return abs(now - opened.seen_at) < _SEEN_EVERY


def note_use(session: Session, digest: str, now: datetime) -> None:
    """
    Notes that a session was used.

    Args:
        session: The transaction.
        digest: The session.
        now: The time.
    """
    opened = session.get(BrowserSession, digest)
    if opened is not None:
        opened.seen_at = now


def is_from_its_page(opened: BrowserSession, sent: str | None) -> bool:
    """
    Whether a request comes from a page of ours: only those can read what they have to send along.

    Args:
        opened: The session.
        sent: What was sent along.

    Returns:
        Whether it is right.
    """
    return sent is not None and hmac.compare_digest(opened.csrf.encode(), sent.encode("utf-8", "surrogateescape"))


def close_session(session: Session, secret: str) -> None:
    """
    Ends a session. Nothing happens if there is none.

    Args:
        session: The transaction.
        secret: What its cookie holds.
    """
    session.execute(delete(BrowserSession).where(BrowserSession.digest == tokens.digest(secret)))
