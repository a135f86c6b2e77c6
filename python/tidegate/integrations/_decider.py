"""
Who can decide for an integration: a `RuleLimiter`, or the client of a Tidegate service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tidegate import Decision
    from tidegate.rule_limiter import Attributes
    from tidegate.testing import ManualClock


class Decider(Protocol):
    """
    What an integration asks of a limiter. See `RuleLimiter` for what the methods do.
    """

    @property
    def clock(self) -> ManualClock | None:
        """The clock that it was given, if any."""
        ...

    @property
    def lease_ttl(self) -> float | None:
        """The shortest lease in seconds; `None` without slots, or where that is not known."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether decisions take time."""
        ...

    def check(self, attributes: Attributes, cost: int | None = None) -> Decision:
        """
        Takes if it fits.
        """
        ...

    async def check_async(self, attributes: Attributes, cost: int | None = None) -> Decision:
        """
        As `check`, while other tasks run.
        """
        ...

    def refund(self, decision: Decision, cost: int | None = None) -> int:
        """
        Gives back what a decision took.
        """
        ...

    def renew(self, decision: Decision) -> bool:
        """
        Extends the slots that a decision holds.
        """
        ...

    def release(self, decision: Decision) -> bool:
        """
        Gives the slots back that a decision holds.
        """
        ...

    def close(self) -> None:
        """
        Ends it.
        """
        ...
