"""
Slots that requests hold while they run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate._renew import RENEWER
from tidegate.errors import TidegateError, UsageError

if TYPE_CHECKING:
    from tidegate import Decision
    from tidegate.integrations._decider import Decider

# Where the limiter does not say how long a lease is: the default of `concurrent` quotas.
_TTL_DEFAULT = 60.0


class Hold:
    """
    What one admitted request holds. A background thread renews it until it is given back, so a response may run longer than its lease.

    Args:
        limiter: Who gave it.
        decision: The decision with the lease.
    """

    __slots__ = ("__weakref__", "_limiter", "decision", "held")

    def __init__(self, limiter: Decider, decision: Decision) -> None:
        self._limiter = limiter
        self.decision = decision
        self.held = True

    def renew(self) -> bool:
        """
        Extends the lease.

        Returns:
            False when it is not held any more.
        """
        try:
            return self.held and self._limiter.renew(self.decision)
        except UsageError:
            return False  # the limiter is closed
        except TidegateError:
            return True  # who is away for a moment has not lost the lease: the next renewal may come in time


class Holds:
    """
    All that the requests of one guard hold now.

    Args:
        limiter: Who gives and takes slots.
    """

    __slots__ = ("_by_lease", "_limiter")

    def __init__(self, limiter: Decider) -> None:
        self._limiter = limiter
        self._by_lease: dict[str, Hold] = {}

    def __len__(self) -> int:
        return len(self._by_lease)

    def add(self, lease: str, decision: Decision) -> None:
        """
        Keeps what a decision took.

        Args:
            lease: Its lease.
            decision: The decision.
        """
        hold = self._by_lease[lease] = Hold(self._limiter, decision)
        if self._limiter.clock is None:
            RENEWER.add(hold, lease, round((self._limiter.lease_ttl or _TTL_DEFAULT) * 1e9 / 3))

    def take(self, lease: str) -> Decision | None:
        """
        Ends the renewals of a lease.

        Args:
            lease: The lease.

        Returns:
            The decision to give back; `None` if that was done already.
        """
        hold = self._by_lease.pop(lease, None)
        if hold is None:
            return None
        hold.held = False
        RENEWER.forget()
        return hold.decision
