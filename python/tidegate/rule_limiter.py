"""
A limiter that decides by rules on whole requests.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from tidegate import rules
from tidegate._gate import RequestGate
from tidegate._mail import ask, decide, without_waiting
from tidegate._native import Decision, RuleEngine
from tidegate._options import StoreOptions, engine_options
from tidegate._wait import Ask, run, run_async, timeout_to_ns
from tidegate.errors import Denied
from tidegate.health import Health
from tidegate.slot import Slot, require_slots

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from types import TracebackType
    from typing import Unpack

    from tidegate._native import ManualClock
    from tidegate.rules import RuleSet
    from tidegate.rules.watch import Watcher

Attributes: TypeAlias = Mapping[str, "str | int | Mapping[str, str] | None"]
"""The facts about a request: `method`, `path`, `host`, `ip`, `tier`, anything else, and mappings under `headers` and `query`."""


class RuleLimiter(RuleEngine):
    """
    Decides by rules whether a request may pass. Made by `Limiter.from_rules`.

    All rules that match are charged together or not at all. A decision says which rule decided (`rule`), which ones applied (`rules`), and
    which ones in shadow would have denied (`shadowed`). It is also the receipt: `refund`, `settle`, `renew` and `release` take nothing
    else.

    ```python
    limiter = Limiter.from_rules("rules.yaml")
    decision = limiter.check({"method": "POST", "path": "/orders", "headers": {"X-Api-Key": "abc"}, "ip": "203.0.113.7"})
    ```

    Args:
        source: A rule file, a directory of them, or a rule set that was loaded before.
        watch: Whether changes of the files come into force by themselves.
        merge_domains: Whether several files of the reference rate limit service may have one domain.
        options: As for `Limiter`.

    Raises:
        RuleError: The rules are wrong, with all problems that were found.
        ConfigError: The store is not known.
        UsageError: An argument is wrong.
    """

    __slots__ = ("__weakref__", "_clock", "_composer", "_file_rules", "_loading", "_rule_set", "_source", "_watcher")

    _clock: ManualClock | None
    _composer: Callable[[RuleSet], RuleSet] | None
    _file_rules: RuleSet
    _loading: threading.Lock
    _rule_set: RuleSet
    _source: str | os.PathLike[str] | None
    _watcher: Watcher | None

    def __new__(
        cls,
        source: str | os.PathLike[str] | RuleSet,
        *,
        watch: bool = False,
        merge_domains: bool = False,
        **options: Unpack[StoreOptions],
    ) -> Self:
        """
        Builds the limiter; see the class.
        """
        checked = engine_options(**options)
        found = source if isinstance(source, rules.RuleSet) else rules.load(source, merge_domains=merge_domains)
        self = super().__new__(cls, found.to_json(), checked)
        self._clock, self._rule_set, self._loading = options.get("clock"), found, threading.Lock()
        self._file_rules, self._composer = found, None
        self._source = None if isinstance(source, rules.RuleSet) else source
        self._watcher = None
        if watch:
            self._watcher = self._watch()
        return self

    @property
    def clock(self) -> ManualClock | None:
        """The clock that it was given, if any."""
        return self._clock

    @property
    def rule_set(self) -> RuleSet:
        """The rules in force."""
        return self._rule_set

    @property
    def file_rules(self) -> RuleSet:
        """The rules that were loaded last: those in force, without what `compose_with` added."""
        return self._file_rules

    @property
    def watcher(self) -> Watcher | None:
        """Who watches the files, if somebody does: it knows the last problem and counts reloads."""
        return self._watcher

    def load(self, source: str | os.PathLike[str] | RuleSet, *, transition: Literal["safe", "immediate"] = "safe") -> int:  # type: ignore[override]  # takes every form
        """
        Replaces the rules for all following decisions, atomically. Wrong rules are refused and the old ones stay. Counters survive.

        Args:
            source: As for the constructor.
            transition: As for `Limiter.load`.

        Returns:
            The new generation.

        Raises:
            RuleError: The rules are wrong.
        """
        merge_domains = self._rule_set.merge_domains
        found = source if isinstance(source, rules.RuleSet) else rules.load(source, merge_domains=merge_domains)
        # Two loads at once must leave `rule_set` as the compiled module has it.
        with self._loading:
            composed = found if self._composer is None else self._composer(found)
            generation = super().load(composed.to_json(), transition)
            self._file_rules, self._rule_set = found, composed
        return generation

    def compose_with(self, composer: Callable[[RuleSet], RuleSet]) -> int:
        """
        Adds rules of another source to those that are loaded, now and after every later `load`: neither source overwrites the other.

        Args:
            composer: Makes the rules that come into force from those that were loaded. It is called in the thread that loads.

        Returns:
            The generation in force. It is a new one only if the rules are others.

        Raises:
            RuleError: The rules are wrong; those in force stay, and the composer of before.
        """
        with self._loading:
            composed = composer(self._file_rules)
            document = composed.to_json()
            generation = self.generation
            if document != self._rule_set.to_json():
                generation = super().load(document, "safe")
            self._composer, self._rule_set = composer, composed
        return generation

    def reserve(self, attributes: Attributes, cost: int) -> Decision:
        """
        Takes an estimate of a cost that is known only later: the same as `check`, for a decision that goes to `settle`.

        Args:
            attributes: The facts about the request.
            cost: The estimate.

        Returns:
            The decision.
        """
        return self.check(attributes, cost)

    def check_or_raise(self, attributes: Attributes, cost: int | None = None, *, lease: str | None = None) -> Decision:
        """
        As `check`, with a denial as an exception.

        Args:
            attributes: The facts about the request.
            cost: How much; by default what each rule says.
            lease: As for `check`.

        Returns:
            The decision that admitted it.

        Raises:
            Denied: It may not pass.
        """
        decision = self.check(attributes, cost, lease=lease)
        if not decision.allowed:
            raise Denied(decision)
        return decision

    def wait(self, attributes: Attributes, cost: int | None = None, *, timeout: float | None = None) -> Decision:
        """
        Sleeps until admitted, and as long as a `leaky_bucket` delays the start. See `Limiter.wait`.

        Args:
            attributes: The facts about the request.
            cost: How much; by default what each rule says.
            timeout: The most seconds until the request can start; by default as long as it takes.

        Returns:
            The decision that admitted it, or the denial.
        """
        return run(Ask(RequestGate(self, attributes, cost), timeout_ns=timeout_to_ns(timeout)))

    async def wait_async(self, attributes: Attributes, cost: int | None = None, *, timeout: float | None = None) -> Decision:
        """
        As `wait`, while other tasks run.
        """
        return await run_async(Ask(RequestGate(self, attributes, cost), timeout_ns=timeout_to_ns(timeout)))

    def slot(self, attributes: Attributes, cost: int | None = None, *, timeout: float | None = None) -> Slot:
        """
        Holds the slots of `concurrent` quotas while a block runs: `with limiter.slot(attributes):`, or `async with`. See `Limiter.slot`.

        Args:
            attributes: The facts about the request.
            cost: How many slots; by default what each rule says.
            timeout: Seconds to wait for a free one; by default a denial is final.

        Returns:
            The slot. Entering it raises `Denied` when there is none in time.

        Raises:
            UsageError: No rule has a `concurrent` quota.
        """
        gate = RequestGate(self, attributes, cost)
        require_slots(gate)
        return Slot(Ask.with_timeout(gate, timeout))

    async def check_async(
        self, attributes: Attributes, cost: int | None = None, *, lease: str | None = None, max_delay: float | None = None
    ) -> Decision:
        """
        As `check`. Other tasks run while a shared store is asked, and checks of many tasks travel together.
        """
        if not self.is_shared:
            return self.check(attributes, cost, lease=lease, max_delay=max_delay)
        answer = ask(self, "check", attributes, cost, lease, max_delay)
        return answer if isinstance(answer, Decision) else await answer

    async def check_or_raise_async(self, attributes: Attributes, cost: int | None = None, *, lease: str | None = None) -> Decision:
        """
        As `check_or_raise`.
        """
        decision = await self.check_async(attributes, cost, lease=lease)
        if not decision.allowed:
            raise Denied(decision)
        return decision

    async def allow_async(self, attributes: Attributes, cost: int | None = None) -> bool:
        """
        As `allow`.
        """
        return self.allow(attributes, cost) if not self.is_shared else (await decide(self, "check", attributes, cost)).allowed

    async def peek_async(self, attributes: Attributes, cost: int | None = None) -> Decision:
        """
        As `peek`.
        """
        return self.peek(attributes, cost) if not self.is_shared else await decide(self, "peek", attributes, cost)

    async def debit_async(self, attributes: Attributes, cost: int) -> Decision:
        """
        As `debit`.
        """
        return self.debit(attributes, cost) if not self.is_shared else await decide(self, "debit", attributes, cost)

    async def reserve_async(self, attributes: Attributes, cost: int) -> Decision:
        """
        As `reserve`.
        """
        return await self.check_async(attributes, cost)

    async def refund_async(self, decision: Decision, cost: int | None = None) -> int:
        """
        As `refund`.
        """
        return await without_waiting(self, self.refund, decision, cost)

    async def settle_async(self, decision: Decision, cost: int) -> Decision:
        """
        As `settle`.
        """
        return await without_waiting(self, self.settle, decision, cost)

    async def renew_async(self, decision: Decision) -> bool:
        """
        As `renew`.
        """
        return await without_waiting(self, self.renew, decision)

    async def release_async(self, decision: Decision) -> bool:
        """
        As `release`.
        """
        return await without_waiting(self, self.release, decision)

    async def reset_async(self, attributes: Attributes) -> bool:
        """
        As `reset`.
        """
        return await without_waiting(self, self.reset, attributes)

    def health(self) -> Health:
        """
        Tells how the store and the way to it are doing. Asks nobody: it is what is known already.

        Returns:
            The state of the store, its servers and the fallback.
        """
        return Health.of(self.shared_health(), self.stats())

    def close(self) -> None:
        """
        Stops watching and frees the counters. Every later call but `close` raises `UsageError`.
        """
        if self._watcher is not None:
            self._watcher.stop()
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RuleLimiter({self._rule_set.domain!r}, {len(self._rule_set.rules)} rules, generation {self.generation})"

    def _watch(self) -> Watcher:
        from tidegate.rules.watch import Watcher  # noqa: PLC0415  # watching is not what every process does

        watcher = Watcher(self, self._source)
        watcher.start()
        return watcher
