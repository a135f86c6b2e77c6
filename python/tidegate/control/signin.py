"""
Signing in: a token in, a session out. Attempts are limited by ourselves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tidegate import Limiter
from tidegate.control import sessions, tokens
from tidegate.control.caller import Caller
from tidegate.control.roles import Role

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from tidegate import Decision
    from tidegate.control.database import Database
    from tidegate.control.sessions import Opened

PER_ADDRESS: Final = "10/minute"
ALTOGETHER: Final = "300/minute"


class Refused(Exception):
    """
    Nobody was signed in.

    Args:
        retry_after: Seconds to wait, if there were too many attempts; `None` if the token is not good.
    """

    def __init__(self, retry_after: float | None = None) -> None:
        super().__init__(retry_after)
        self.retry_after = retry_after


class SignIn:
    """
    Takes tokens and opens sessions.

    Args:
        database: Where both are.
        lasts: How long a session lasts at the most.
    """

    def __init__(self, database: Database, lasts: timedelta) -> None:
        self._database = database
        self._lasts = lasts
        self._per_address = Limiter(PER_ADDRESS, max_keys=100_000)
        self._altogether = Limiter(ALTOGETHER)

    def attempt(self, secret: str, address: str, now: datetime) -> tuple[Caller, Opened]:
        """
        Signs somebody in. Who succeeds has used up nothing.

        Args:
            secret: The token that they typed.
            address: Where they ask from.
            now: The time.

        Returns:
            Who it is, and their session.

        Raises:
            Refused: The token is not good, or there were too many attempts: then it was not looked at.
        """
        # The narrower one first: one address alone must not use up what all have together.
        taken = [_take(self._per_address, address), _take(self._altogether, "all")]
        with self._database.session() as session:
            token = tokens.find(session, secret.strip(), now)
            if token is None:
                raise Refused
            token.used_at = now
            caller = Caller(token.name, Role(token.role), address, now, token.id)
            opened = sessions.open_session(session, caller, self._lasts)
        for limiter, key, decision in taken:
            limiter.refund(key, decision)
        return replace(caller, csrf=opened.csrf), opened


def _take(limiter: Limiter, key: str) -> tuple[Limiter, str, Decision]:
    decision = limiter.check(key)
    if not decision.allowed:
        raise Refused(decision.retry_after)
    return limiter, key, decision
