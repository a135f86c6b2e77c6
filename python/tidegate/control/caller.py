"""
Who asks: what every change is done in the name of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from tidegate.control.roles import Role


@dataclass(frozen=True, slots=True)
class Caller:
    """
    Somebody whose token is good.

    Args:
        name: The name of the token.
        role: What it lets them do.
        address: Where they ask from.
        at: When they asked. Everything that comes of it happened then.
        token_id: The token; `None` for who works on the database itself, by a command.
        csrf: What the forms of a browser's session have to send along; `None` if no browser asks.
    """

    name: str
    role: Role
    address: str
    at: datetime
    token_id: int | None = None
    csrf: str | None = None
