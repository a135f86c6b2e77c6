"""
What is in force, as this process knows it: the rules of files and of the database together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from tidegate.control import changes, rules
from tidegate.control.compose import ROLLING, compose
from tidegate.control.models import Version

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from tidegate.control.compose import Composition
    from tidegate.control.control import Control

CHANGES_MAX: Final = 10_000


def composed(control: Control, session: Session) -> Composition:
    """
    Files and database together, as every instance puts them together.

    The follower has it, but for a moment after a change; who has just saved something wants to see it.
    """
    if control.follower.number == session.scalar(select(Version.number)):
        return control.follower.composition
    return compose(control.follower.files, rules.listed(session), changes.listed(session, states=ROLLING, limit=CHANGES_MAX))
