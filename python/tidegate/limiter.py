"""
The library's face: a limiter that answers for keys whether they may pass.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Literal, Self

from tidegate._gate import KeyGate
from tidegate._mail import ask, decide, without_waiting
from tidegate._native import Decision, Engine
from tidegate._options import StoreOptions, engine_options
from tidegate._wait import Ask, run, run_async, timeout_to_ns
from tidegate.decorator import decorate
from tidegate.errors import Denied
from tidegate.health import Health
from tidegate.quota import parameters, quotas_of
from tidegate.slot import Slot, require_slots

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import ParamSpec, TypeVar, Unpack

    from tidegate._native import ManualClock
    from tidegate.decorator import Cost, Key, Limited
    from tidegate.quota import Quota, Quotas
    from tidegate.rule_limiter import RuleLimiter
    from tidegate.rules import RuleSet

    P = ParamSpec("P")
    R = TypeVar("R")


class Limiter(Engine):
    """
    Decides for each key whether it may pass.

    `check`, `allow`, `peek`, `refund`, `debit`, `settle`, `renew`, `release`, `reset`, `stats` and `close` are compiled; this class adds
    what is not called a million times a second. A limiter may be used by any number of threads and tasks at once. With `memory://` a
    forked child has a copy of its own, with the counters as they were; on a shared store it makes a connection of its own.

    ```python
    limiter = Limiter("10/second, 200/minute")
    decision = limiter.check("user:42")
    if not decision:
        print(decision.retry_after)
    ```

    Args:
        quotas: What is allowed: a text such as `10/second, 200/minute`, a `Quota`, a mapping with its parameters, or a sequence of these.
            A request must fit into all of them, and is charged to all of them or to none.
        options: Where the counters live (`store="redis://localhost"`), and what to do when that cannot answer: see `StoreOptions`.

    Raises:
        QuotaError: A quota is wrong.
        ConfigError: The store is not known.
        UsageError: An argument is wrong.
    """

    __slots__ = ("__weakref__", "_clock", "_quotas")

    _clock: ManualClock | None
    _quotas: tuple[Quota, ...]

    def __new__(
        cls,
        quotas: Quotas,
        **options: Unpack[StoreOptions],
    ) -> Self:
        """
        Builds the limiter; see the class.
        """
        checked = engine_options(**options)
        found = quotas_of(quotas)
        self = super().__new__(cls, [parameters(quota) for quota in found], checked)
        self._clock, self._quotas = options.get("clock"), found
        return self

    @staticmethod
    def from_rules(
        source: str | os.PathLike[str] | RuleSet,
        *,
        watch: bool = False,
        merge_domains: bool = False,
        **options: Unpack[StoreOptions],
    ) -> RuleLimiter:
        """
        Makes a limiter that decides by rules on whole requests.

        ```python
        limiter = Limiter.from_rules("rules.yaml")
        decision = limiter.check({"method": "POST", "path": "/orders", "client": "abc"})
        ```

        Args:
            source: A rule file, a directory of them, or a rule set that was loaded before.
            watch: Whether changes of the files come into force by themselves.
            merge_domains: Whether several files of the reference rate limit service may have one domain.
            options: As for the class.

        Returns:
            The limiter.

        Raises:
            RuleError: The rules are wrong, with all problems that were found.
        """
        from tidegate.rule_limiter import RuleLimiter  # noqa: PLC0415  # needs a YAML parser, which keys do not

        return RuleLimiter(source, watch=watch, merge_domains=merge_domains, **options)

    @property
    def quotas(self) -> tuple[Quota, ...]:
        """The quotas in force."""
        return self._quotas

    @property
    def clock(self) -> ManualClock | None:
        """The clock that it was given, if any."""
        return self._clock

    def load(self, quotas: Quotas, *, transition: Literal["safe", "immediate"] = "safe") -> int:  # type: ignore[override]  # takes every form
        """
        Replaces the quotas for all following decisions, atomically. A wrong quota is refused and the old ones stay.

        Args:
            quotas: As for the constructor.
            transition: What becomes of counters that the new quotas cannot read, because the window or the algorithm changed. `safe`: the
                old quota still counts for one old window, so that nobody gets both. `immediate`: they start afresh.

        Returns:
            The new generation.
        """
        found = quotas_of(quotas)
        # Two loads at once must leave `quotas` as the compiled module has them.
        with _LOADING:
            generation = super().load([parameters(quota) for quota in found], transition)
            self._quotas = found
        return generation

    def reserve(self, key: str | bytes, cost: int) -> Decision:
        """
        Takes an estimate of a cost that is known only later: the same as `check`, for a decision that goes to `settle`.

        Args:
            key: Who is counted.
            cost: The estimate.

        Returns:
            The decision.
        """
        return self.check(key, cost)

    def check_or_raise(self, key: str | bytes, cost: int = 1, *, lease: str | None = None) -> Decision:
        """
        As `check`, with a denial as an exception.

        Args:
            key: Who is counted.
            cost: How much.
            lease: As for `check`.

        Returns:
            The decision that admitted it.

        Raises:
            Denied: It may not pass.
        """
        decision = self.check(key, cost, lease=lease)
        if not decision.allowed:
            raise Denied(decision)
        return decision

    def wait(self, key: str | bytes, cost: int = 1, *, timeout: float | None = None) -> Decision:
        """
        Sleeps until admitted, and as long as a `leaky_bucket` delays the start.

        Waiting in vain is not done. A cost that is never admitted, or that cannot start before the timeout, is answered at once. Waiters
        are not served in the order in which they came, except by a `leaky_bucket`. Slots of a `concurrent` quota stay taken afterwards: see
        `slot`.

        Args:
            key: Who is counted.
            cost: How much.
            timeout: The most seconds until the request can start; by default as long as it takes.

        Returns:
            The decision that admitted it, or the denial.
        """
        return run(Ask(KeyGate(self, key, cost), timeout_ns=timeout_to_ns(timeout)))

    async def wait_async(self, key: str | bytes, cost: int = 1, *, timeout: float | None = None) -> Decision:
        """
        As `wait`, while other tasks run. Cancelling it during the delay of a `leaky_bucket` gives the place back.
        """
        return await run_async(Ask(KeyGate(self, key, cost), timeout_ns=timeout_to_ns(timeout)))

    def slot(self, key: str | bytes, cost: int = 1, *, timeout: float | None = None) -> Slot:
        """
        Holds a slot of a `concurrent` quota while a block runs: `with limiter.slot(key):`, or `async with`.

        Args:
            key: Who is counted.
            cost: How many slots.
            timeout: Seconds to wait for a free one; by default a denial is final, and infinity waits as long as it takes.

        Returns:
            The slot. Entering it raises `Denied` when there is none in time.

        Raises:
            UsageError: There is no `concurrent` quota.
        """
        gate = KeyGate(self, key, cost)
        require_slots(gate)
        return Slot(Ask.with_timeout(gate, timeout))

    def limit(self, *, key: Key | None = None, cost: Cost = 1, timeout: float | None = None) -> Callable[[Callable[P, R]], Limited[P, R]]:
        """
        Decorates a function, blocking or async, so that each call is checked first.

        With a `concurrent` quota the call holds a slot while it runs; a `leaky_bucket` delays its start.

        Args:
            key: Who is counted: a text, or a function that makes one from the arguments of the call. Default: the function's full name.
            cost: How much: a number, or a function that makes one from the arguments.
            timeout: Seconds to wait for admission; by default a denial is final, and infinity waits as long as it takes.

        Returns:
            The decorator. Calls of the decorated function raise `Denied` when they are not admitted in time.
        """
        return decorate(self, key=key, cost=cost, timeout=timeout)

    async def check_async(self, key: str | bytes, cost: int = 1, *, lease: str | None = None, max_delay: float | None = None) -> Decision:
        """
        As `check`. Other tasks run while a shared store is asked, and checks of many tasks travel together.
        """
        if not self.is_shared:
            return self.check(key, cost, lease=lease, max_delay=max_delay)
        answer = ask(self, "check", key, cost, lease, max_delay)
        return answer if isinstance(answer, Decision) else await answer

    async def check_or_raise_async(self, key: str | bytes, cost: int = 1, *, lease: str | None = None) -> Decision:
        """
        As `check_or_raise`.
        """
        decision = await self.check_async(key, cost, lease=lease)
        if not decision.allowed:
            raise Denied(decision)
        return decision

    async def allow_async(self, key: str | bytes, cost: int = 1) -> bool:
        """
        As `allow`.
        """
        return self.allow(key, cost) if not self.is_shared else (await decide(self, "check", key, cost)).allowed

    async def peek_async(self, key: str | bytes, cost: int = 1) -> Decision:
        """
        As `peek`.
        """
        return self.peek(key, cost) if not self.is_shared else await decide(self, "peek", key, cost)

    async def refund_async(self, key: str | bytes, decision: Decision, cost: int | None = None) -> int:
        """
        As `refund`.
        """
        return await without_waiting(self, self.refund, key, decision, cost)

    async def debit_async(self, key: str | bytes, cost: int) -> Decision:
        """
        As `debit`.
        """
        return self.debit(key, cost) if not self.is_shared else await decide(self, "debit", key, cost)

    async def reserve_async(self, key: str | bytes, cost: int) -> Decision:
        """
        As `reserve`.
        """
        return await self.check_async(key, cost)

    async def settle_async(self, key: str | bytes, decision: Decision, cost: int) -> Decision:
        """
        As `settle`.
        """
        return await without_waiting(self, self.settle, key, decision, cost)

    async def renew_async(self, key: str | bytes, lease: str | Decision) -> bool:
        """
        As `renew`.
        """
        return await without_waiting(self, self.renew, key, lease)

    async def release_async(self, key: str | bytes, lease: str | Decision) -> bool:
        """
        As `release`.
        """
        return await without_waiting(self, self.release, key, lease)

    async def reset_async(self, key: str | bytes) -> bool:
        """
        As `reset`.
        """
        return await without_waiting(self, self.reset, key)

    def health(self) -> Health:
        """
        Tells how the store and the way to it are doing. Asks nobody: it is what is known already.

        Returns:
            The state of the store, its servers and the fallback.
        """
        return Health.of(self.shared_health(), self.stats())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Limiter({', '.join(map(str, self._quotas))!r})"


_LOADING = threading.Lock()


def _unlock() -> None:
    # The thread that held the lock does not exist in a forked child.
    global _LOADING  # noqa: PLW0603  # one lock for the process
    _LOADING = threading.Lock()


os.register_at_fork(after_in_child=_unlock)
