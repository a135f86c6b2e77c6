"""
The client of a service: decides as a `RuleLimiter` does, and keeps its counters elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from tidegate._gate import RequestGate
from tidegate._wait import Ask, run, run_async, timeout_to_ns
from tidegate.client.decision import RemoteDecision
from tidegate.client.facts import Question
from tidegate.client.way import Way
from tidegate.errors import Denied, UsageError
from tidegate.slot import Slot

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Unpack

    from tidegate import Decision
    from tidegate.client.options import ClientOptions
    from tidegate.health import Health
    from tidegate.rule_limiter import Attributes


class Client:
    """
    Asks a running service (`tidegate serve`) whether requests may pass: as `Limiter.from_rules`, with the counters there.

    Takes the same attributes and gives the same decisions as a `RuleLimiter`, within a budget. When the service does not answer in time,
    `on_service_error` decides, and the decision is marked as degraded. Any number of threads, event loops and tasks may use one client.

    ```python
    with Client("http://127.0.0.1:8080", on_service_error="allow") as client:
        decision = client.check({"method": "GET", "path": "/orders", "client": "abc"})
    ```

    Args:
        address: The service: `http://host:8080`, `https://`, `unix:///path`; or its port of gRPC: `grpc://host:8081`, `grpcs://`,
            `grpc+unix:///path`, which knows no slots, no delays and no reset.
        options: As `ClientOptions`.

    Raises:
        ConfigError: The address is none, or options do not go together.
        RuleError: The rules of the fallback are wrong.
        UsageError: An option is wrong.
    """

    def __init__(self, address: str, **options: Unpack[ClientOptions]) -> None:
        self._way = Way(address, **options)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._way.is_closed

    @property
    def clock(self) -> None:
        """None: the service has a clock of its own."""
        return

    @property
    def is_shared(self) -> bool:
        """Whether decisions take time: they do."""
        return True

    @property
    def lease_ttl(self) -> float | None:
        """The shortest lease that the service has spoken of, in seconds; over gRPC, which has no slots, `None`."""
        return self._way.lease_ttl if self._way.has_slots else None

    def check(
        self, attributes: Attributes, cost: int | None = None, *, lease: str | None = None, max_delay: float | None = None
    ) -> Decision:
        """
        Takes from the quotas of all rules that apply, if it fits into all of them, otherwise takes nothing. See `RuleLimiter.check`.

        Raises:
            UsageError: An argument is wrong, or the client is closed.
        """
        return self._way.decide(Question.about("check", attributes, cost, lease=lease, max_delay=max_delay))

    async def check_async(
        self, attributes: Attributes, cost: int | None = None, *, lease: str | None = None, max_delay: float | None = None
    ) -> Decision:
        """
        As `check`, while other tasks run.
        """
        question = Question.about("check", attributes, cost, lease=lease, max_delay=max_delay)
        if lease is None:
            return await self._way.decide_async(question)
        try:
            return await self._way.decide_async(question)
        except BaseException:
            # Who is cancelled never learns whether it got a slot; whoever said its id can give it back.
            _ = self._way.later(Question("release", question.facts, lease=lease))
            raise

    def allow(self, attributes: Attributes, cost: int | None = None) -> bool:
        """
        As `check`, answering only whether the request may pass.
        """
        return self.check(attributes, cost).allowed

    async def allow_async(self, attributes: Attributes, cost: int | None = None) -> bool:
        """
        As `allow`, while other tasks run.
        """
        return (await self.check_async(attributes, cost)).allowed

    def check_or_raise(self, attributes: Attributes, cost: int | None = None, *, lease: str | None = None) -> Decision:
        """
        As `check`, with a denial as an exception.

        Raises:
            Denied: It may not pass.
        """
        return _insist(self.check(attributes, cost, lease=lease))

    async def check_or_raise_async(self, attributes: Attributes, cost: int | None = None, *, lease: str | None = None) -> Decision:
        """
        As `check_or_raise`, while other tasks run.
        """
        return _insist(await self.check_async(attributes, cost, lease=lease))

    def peek(self, attributes: Attributes, cost: int | None = None) -> Decision:
        """
        Answers what `check` would answer, and changes nothing.
        """
        return self._way.decide(Question.about("peek", attributes, cost))

    async def peek_async(self, attributes: Attributes, cost: int | None = None) -> Decision:
        """
        As `peek`, while other tasks run.
        """
        return await self._way.decide_async(Question.about("peek", attributes, cost))

    def debit(self, attributes: Attributes, cost: int) -> Decision:
        """
        Takes `cost` without asking, for work whose price is known only afterwards. What is said while the service is away is lost to it.
        """
        return self._way.decide(Question.about("debit", attributes, cost))

    async def debit_async(self, attributes: Attributes, cost: int) -> Decision:
        """
        As `debit`, while other tasks run.
        """
        return await self._way.decide_async(Question.about("debit", attributes, cost))

    def reset(self, attributes: Attributes) -> bool:
        """
        Forgets the keys of a request under the rules that apply to it. For operators: the service wants its token, or the same machine.

        Returns:
            Whether anything was known of them, and forgotten.

        Raises:
            UsageError: The service does not let this client do it; or the address is one of gRPC.
        """
        return self._way.do(Question.about("reset", attributes), otherwise=False)

    async def reset_async(self, attributes: Attributes) -> bool:
        """
        As `reset`, while other tasks run.
        """
        return await self._way.do_async(Question.about("reset", attributes), otherwise=False)

    def renew(self, decision: Decision) -> bool:
        """
        Extends the slots that a decision holds.

        Returns:
            False when it holds none, or lost one. A service that is away has not lost anything yet.
        """
        said = _receipt(decision)
        if said.local is not None:
            return self._way.local.renew(said.local)
        return said.lease is not None and self._way.do(_about_lease("renew", said), otherwise=True)

    async def renew_async(self, decision: Decision) -> bool:
        """
        As `renew`, while other tasks run.
        """
        said = _receipt(decision)
        if said.local is not None:
            return self._way.local.renew(said.local)
        return said.lease is not None and await self._way.do_async(_about_lease("renew", said), otherwise=True)

    def release(self, decision: Decision) -> bool:
        """
        Gives the slots back that a decision holds.

        Returns:
            False when there were none any more, or the service is away: then they come free when their lease is over.
        """
        said = _receipt(decision)
        if said.local is not None:
            return self._way.local.release(said.local)
        return said.lease is not None and self._way.do(_about_lease("release", said), otherwise=False)

    async def release_async(self, decision: Decision) -> bool:
        """
        As `release`, while other tasks run. It happens also if the caller is cancelled meanwhile.
        """
        said = _receipt(decision)
        if said.local is not None:
            return self._way.local.release(said.local)
        if said.lease is None:
            return False
        import asyncio  # noqa: PLC0415  # programs that block never need it

        return await asyncio.shield(self._way.later(_about_lease("release", said)))

    def refund(self, decision: Decision, cost: int | None = None) -> int:  # noqa: ARG002  # as `RuleLimiter` has it
        """
        What a service cannot do: a receipt is worth nothing beyond the process that wrote it.

        Raises:
            UsageError: Always.
        """
        raise UsageError("a service takes nothing back but slots: ask with peek first, or debit the true cost afterwards")

    def settle(self, decision: Decision, cost: int) -> Decision:  # noqa: ARG002  # as `RuleLimiter` has it
        """
        What a service cannot do, as `refund`.

        Raises:
            UsageError: Always.
        """
        raise UsageError("a service settles nothing: check a small cost first, and debit the rest afterwards")

    def wait(self, attributes: Attributes, cost: int | None = None, *, timeout: float | None = None) -> Decision:
        """
        Sleeps until admitted, and as long as a `leaky_bucket` delays the start. See `RuleLimiter.wait`.
        """
        return run(Ask(self._gate(attributes, cost), timeout_ns=timeout_to_ns(timeout)))

    async def wait_async(self, attributes: Attributes, cost: int | None = None, *, timeout: float | None = None) -> Decision:
        """
        As `wait`, while other tasks run.
        """
        return await run_async(Ask(self._gate(attributes, cost), timeout_ns=timeout_to_ns(timeout)))

    def slot(self, attributes: Attributes, cost: int | None = None, *, timeout: float | None = None) -> Slot:
        """
        Holds the slots of `concurrent` quotas while a block runs: `with client.slot(attributes):`, or `async with`. See `RuleLimiter.slot`.

        Raises:
            UsageError: The address is one of gRPC.
        """
        if not self._way.has_slots:
            raise UsageError("Envoy's protocol has no slots: use the service's http:// address for them")
        return Slot(Ask.with_timeout(self._gate(attributes, cost), timeout))

    def health(self) -> Health:
        """
        Tells how the service and the way to it are doing. Asks nobody: it is what is known already.

        Returns:
            The state of the service, and the decisions taken without it.
        """
        return self._way.health()

    def close(self) -> None:
        """
        Ends the connections. Every later call but `close` raises `UsageError`.
        """
        self._way.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({str(self._way.address)!r})"

    def _gate(self, attributes: Attributes, cost: int | None) -> RequestGate:
        return (RequestGate if self._way.has_slots else _GateWithoutDelays)(self, attributes, cost)


class _GateWithoutDelays(RequestGate):
    """
    Asks over a protocol that knows no delays: whoever waits does not say how long a delay may be.
    """

    __slots__ = ()

    def check(self, *, lease: str | None, max_delay: float | None) -> Decision:  # noqa: ARG002  # as `RequestGate` has it
        return self.limiter.check(self.attributes, self.cost, lease=lease)

    async def check_async(self, *, lease: str | None, max_delay: float | None) -> Decision:  # noqa: ARG002  # as above
        return await self.limiter.check_async(self.attributes, self.cost, lease=lease)


def _insist(decision: Decision) -> Decision:
    if not decision.allowed:
        raise Denied(decision)
    return decision


def _receipt(decision: object) -> RemoteDecision:
    if not isinstance(decision, RemoteDecision):
        raise UsageError("the decision belongs to a limiter in this process, not to this client")
    return decision


def _about_lease(kind: Literal["release", "renew"], decision: RemoteDecision) -> Question:
    if decision.question is None:
        raise UsageError("the decision belongs to another client")
    return Question(kind, decision.question.facts, lease=decision.lease)
