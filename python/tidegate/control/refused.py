"""
A change that cannot be made as things stand. It is an answer to whoever asked, not a failure.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from tidegate.errors import TidegateError

Why: TypeAlias = Literal["unknown", "taken", "stale", "busy", "over", "own", "wrong"]
"""
`unknown`: there is no such thing. `taken`: the name is. `stale`: somebody else was faster. `busy`: something else has to end first.
`over`: it has ended, or has not begun. `own`: a second person has to do it. `wrong`: it makes no sense.
"""


class Refused(TidegateError):
    """
    What was asked for is not done, and nothing has changed.

    Args:
        why: The kind of reason.
        message: The reason, and what to do.
    """

    def __init__(self, why: Why, message: str) -> None:
        super().__init__(message)
        self.why: Why = why
