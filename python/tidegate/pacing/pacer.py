"""
The budgets of all hosts that a client talks to.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from tidegate import Limiter
from tidegate._sleep import now_ns
from tidegate.errors import ConfigError, UsageError
from tidegate.pacing.budget import Budget
from tidegate.pacing.options import PaceOptions, Policy
from tidegate.pacing.throttle import Throttle

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Unpack

    from tidegate.pacing.fields import Told

HOSTS_MAX = 4096
"""The most budgets that are kept; those that nobody has used for longest go first."""

LEARNED_MAX = 64
"""The most different sets of limits for which a limiter is kept."""

TOO_MANY_REQUESTS = 429
UNAVAILABLE = 503
POLL_MAX_NS = 50_000_000


class Pacer:
    """
    Keeps clients within what servers allow: one budget for each key, which is a host by default, shared by threads and tasks.

    Clients make one of their own. One that is made by hand and given to several makes them share their budgets:

    ```python
    from tidegate.pacing import Pacer

    pacer = Pacer(quotas="10/second", max_wait=30)
    ```

    Args:
        options: As `PaceOptions`.

    Raises:
        UsageError: An option is wrong.
        ConfigError: The quotas or the store are wrong.
    """

    def __init__(self, **options: Unpack[PaceOptions]) -> None:
        self.policy = Policy.of(**options)
        self._store = options.get("store", "memory://")
        self._limiter = options.get("limiter")
        self._learned: dict[str, Limiter | None] = {}
        self._owned: list[Limiter] = []
        self._lock = threading.Lock()
        self._budgets: dict[str, Budget] = {}
        self._process = os.getpid()
        quotas = options.get("quotas")
        if self._limiter is not None and (quotas is not None or "store" in options):
            raise UsageError("a limiter has its own quotas and store: give either a limiter or those")
        if quotas is not None:
            clock = self.policy.clock if self._store == "memory://" else None
            self._limiter = Limiter(quotas, store=self._store, clock=clock)
            self._owned.append(self._limiter)
        if self._limiter is not None and self._limiter.lease_ttl is not None:
            self.close()
            raise UsageError("a concurrent quota cannot pace requests: hold limiter.slot(key) around them instead")

    @classmethod
    def of(cls, pacer: Pacer | None, **options: Unpack[PaceOptions]) -> Pacer:
        """
        The pacer of a client.

        Args:
            pacer: The one it was given, if any.
            options: Those it was given, for a pacer of its own.

        Returns:
            The pacer.

        Raises:
            UsageError: It was given both.
        """
        if pacer is not None and options:
            raise UsageError("a pacer has its own options: give either a pacer or those")
        return cls(**options) if pacer is None else pacer

    def enter(self, key: str) -> Place:
        """
        Queues up for a request.

        Args:
            key: Whose budget it is.

        Returns:
            The place in the queue; it must be left.
        """
        if os.getpid() != self._process:
            # A forked child has none of the parent's requests under way, and maybe a lock that a thread held which it does not have.
            self._lock, self._budgets, self._process = threading.Lock(), {}, os.getpid()
        with self._lock:
            budget = self._budgets.pop(key, None) or self._new_budget()
            self._budgets[key] = budget
            return Place(self, self._lock, budget, key)

    def limiter(self, quotas: str) -> Limiter | None:
        """
        Who is asked besides the budget.

        Args:
            quotas: The limits that the host told of.

        Returns:
            The limiter of the quotas that were given, or else one for those that were told of if there is a store to share them on.
        """
        if self._limiter is not None or self._store == "memory://" or not quotas:
            return self._limiter
        with self._lock:
            if quotas not in self._learned and len(self._learned) < LEARNED_MAX:
                self._learned[quotas] = self._learn(quotas)
            return self._learned.get(quotas)

    def close(self) -> None:
        """
        Ends the connections to a shared store. Requests that wait for it end with `UsageError`.
        """
        for limiter in self._owned:
            limiter.close()

    def _new_budget(self) -> Budget:
        if len(self._budgets) >= HOSTS_MAX:
            idle = next((key for key, budget in self._budgets.items() if budget.is_idle), None)
            if idle is not None:
                del self._budgets[idle]
        throttle = None if self.policy.throttle is None else Throttle(self.policy.throttle)
        return Budget(throttle, self.policy.random)

    def _learn(self, quotas: str) -> Limiter | None:
        # What a server says may be no quota at all, for example because it is above what can be counted.
        with suppress(ConfigError):
            limiter = Limiter(quotas, store=self._store)
            self._owned.append(limiter)
            return limiter
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


class Place:
    """
    The place of one request in the queue of its budget. Every method takes the lock for a moment, and none waits.

    Args:
        pacer: Whose budget it is.
        lock: The lock of all budgets.
        budget: The budget; the lock is held.
        key: Its key.
    """

    def __init__(self, pacer: Pacer, lock: threading.Lock, budget: Budget, key: str) -> None:
        self._pacer = pacer
        self._lock = lock
        self._budget = budget
        self.key = key
        self._ticket = budget.join()

    def turn(self) -> int | None:
        """
        As `Budget.turn`.
        """
        with self._lock:
            return self._budget.turn(self._ticket, self._now_ns())

    def probe(self) -> bool:
        """
        As `Budget.probe`.
        """
        with self._lock:
            return self._budget.probe(self._ticket, self._now_ns())

    def poll_max_ns(self) -> int:
        """
        How long to wait at most before asking for a turn again: longer in a crowd, so that it does not keep the machine busy.

        Returns:
            Nanoseconds.
        """
        return POLL_MAX_NS + self._budget.crowd * 100_000

    def is_throttled(self) -> bool:
        """
        Draws whether the throttle refuses a call.

        Returns:
            Whether it does.
        """
        with self._lock:
            throttle, now = self._budget.throttle, self._now_ns()
            if throttle is None or self._pacer.policy.random() >= throttle.refusal(now):
                return False
            throttle.count(now, is_accepted=False)
            return True

    def limiter(self) -> Limiter | None:
        """
        As `Pacer.limiter`, for what the host told of.
        """
        with self._lock:
            quotas = self._budget.quotas
        return self._pacer.limiter(quotas)

    def answered(self, status: int, told: Told, wait_ns: int) -> None:
        """
        Takes note of an answer.

        Args:
            status: Its status.
            told: What it says about limits.
            wait_ns: After a 429: how long nobody should send.
        """
        with self._lock:
            now = self._now_ns()
            self._budget.answered(self._ticket, told, now)
            if status == TOO_MANY_REQUESTS:
                self._budget.block(now + wait_ns)
            if self._budget.throttle is not None:
                self._budget.throttle.count(now, is_accepted=status != UNAVAILABLE)

    def rejoin(self) -> None:
        """
        As `Budget.rejoin`.
        """
        with self._lock:
            self._budget.rejoin(self._ticket)

    def leave(self, *, is_sent: bool) -> None:
        """
        As `Budget.leave`. Once is enough, and more do no harm.
        """
        with self._lock:
            self._budget.leave(self._ticket, is_sent=is_sent)

    def _now_ns(self) -> int:
        return now_ns(self._pacer.policy.clock)
