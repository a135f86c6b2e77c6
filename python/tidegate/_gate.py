"""
Who is asked for whom: the one thing in which waiting for a key and waiting for a request differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tidegate import Client, Decision, Limiter, RuleLimiter
    from tidegate.rule_limiter import Attributes
    from tidegate.testing import ManualClock


class Gate(Protocol):
    """
    Asks the same question of the same limiter, as often as it takes.
    """

    @property
    def clock(self) -> ManualClock | None:
        """The limiter's clock, if it has one of its own."""
        ...

    @property
    def lease_ttl(self) -> float | None:
        """The shortest lease in seconds."""
        ...

    def check(self, *, lease: str | None, max_delay: float | None) -> Decision:
        """
        Takes if it fits.
        """
        ...

    async def check_async(self, *, lease: str | None, max_delay: float | None) -> Decision:
        """
        As `check`, while other tasks run.
        """
        ...

    def peek(self) -> Decision:
        """
        Asks without taking.
        """
        ...

    async def peek_async(self) -> Decision:
        """
        As `peek`, while other tasks run.
        """
        ...

    def refund(self, decision: Decision) -> None:
        """
        Gives back what a decision took.
        """
        ...

    def renew(self, decision: Decision) -> bool:
        """
        Extends the slots that a decision holds.
        """
        ...

    async def renew_async(self, decision: Decision) -> bool:
        """
        As `renew`, while other tasks run.
        """
        ...

    def release(self, decision: Decision) -> None:
        """
        Gives the slots back that a decision holds.
        """
        ...

    async def release_async(self, decision: Decision) -> None:
        """
        As `release`, while other tasks run.
        """
        ...


@dataclass(frozen=True, slots=True)
class KeyGate:
    """
    Asks for a key.

    Args:
        limiter: Who is asked.
        key: Who is counted.
        cost: How much.
    """

    limiter: Limiter
    key: str | bytes
    cost: int = 1

    @property
    def clock(self) -> ManualClock | None:
        """As `Gate.clock`."""
        return self.limiter.clock

    @property
    def lease_ttl(self) -> float | None:
        """As `Gate.lease_ttl`."""
        return self.limiter.lease_ttl

    def check(self, *, lease: str | None, max_delay: float | None) -> Decision:
        """
        As `Gate.check`.
        """
        return self.limiter.check(self.key, self.cost, lease=lease, max_delay=max_delay)

    async def check_async(self, *, lease: str | None, max_delay: float | None) -> Decision:
        """
        As `Gate.check_async`.
        """
        return await self.limiter.check_async(self.key, self.cost, lease=lease, max_delay=max_delay)

    def peek(self) -> Decision:
        """
        As `Gate.peek`.
        """
        return self.limiter.peek(self.key, self.cost)

    async def peek_async(self) -> Decision:
        """
        As `Gate.peek_async`.
        """
        return await self.limiter.peek_async(self.key, self.cost)

    def refund(self, decision: Decision) -> None:
        """
        As `Gate.refund`.
        """
        self.limiter.refund(self.key, decision)

    def renew(self, decision: Decision) -> bool:
        """
        As `Gate.renew`.
        """
        return self.limiter.renew(self.key, decision)

    async def renew_async(self, decision: Decision) -> bool:
        """
        As `Gate.renew_async`.
        """
        return await self.limiter.renew_async(self.key, decision)

    def release(self, decision: Decision) -> None:
        """
        As `Gate.release`.
        """
        self.limiter.release(self.key, decision)

    async def release_async(self, decision: Decision) -> None:
        """
        As `Gate.release_async`.
        """
        await self.limiter.release_async(self.key, decision)


@dataclass(frozen=True, slots=True)
class RequestGate:
    """
    Asks for a request.

    Args:
        limiter: Who is asked.
        attributes: The facts about the request.
        cost: How much; by default what each rule says.
    """

    limiter: RuleLimiter | Client
    attributes: Attributes
    cost: int | None = None

    @property
    def clock(self) -> ManualClock | None:
        """As `Gate.clock`."""
        return self.limiter.clock

    @property
    def lease_ttl(self) -> float | None:
        """As `Gate.lease_ttl`."""
        return self.limiter.lease_ttl

    def check(self, *, lease: str | None, max_delay: float | None) -> Decision:
        """
        As `Gate.check`.
        """
        return self.limiter.check(self.attributes, self.cost, lease=lease, max_delay=max_delay)

    async def check_async(self, *, lease: str | None, max_delay: float | None) -> Decision:
        """
        As `Gate.check_async`.
        """
        return await self.limiter.check_async(self.attributes, self.cost, lease=lease, max_delay=max_delay)

    def peek(self) -> Decision:
        """
        As `Gate.peek`.
        """
        return self.limiter.peek(self.attributes, self.cost)

    async def peek_async(self) -> Decision:
        """
        As `Gate.peek_async`.
        """
        return await self.limiter.peek_async(self.attributes, self.cost)

    def refund(self, decision: Decision) -> None:
        """
        As `Gate.refund`.
        """
        self.limiter.refund(decision)

    def renew(self, decision: Decision) -> bool:
        """
        As `Gate.renew`.
        """
        return self.limiter.renew(decision)

    async def renew_async(self, decision: Decision) -> bool:
        """
        As `Gate.renew_async`.
        """
        return await self.limiter.renew_async(decision)

    def release(self, decision: Decision) -> None:
        """
        As `Gate.release`.
        """
        self.limiter.release(decision)

    async def release_async(self, decision: Decision) -> None:
        """
        As `Gate.release_async`.
        """
        await self.limiter.release_async(decision)
