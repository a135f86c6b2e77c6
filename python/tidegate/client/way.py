"""
The way to a service: one question within its budget, and what is decided if there is no answer.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import weakref
from typing import TYPE_CHECKING, cast

from tidegate._sleep import now_ns
from tidegate.client.away import Away
from tidegate.client.breaker import Breaker
from tidegate.client.decision import RemoteDecision, as_decision
from tidegate.client.options import check_options, transport_of
from tidegate.client.policy import Policy
from tidegate.errors import QuotaError, UsageError
from tidegate.health import Health, ShardHealth
from tidegate.quota import Quota, parameters

if TYPE_CHECKING:
    import asyncio
    from typing import Literal, Unpack

    from tidegate import Decision, RuleLimiter
    from tidegate.client.facts import Question
    from tidegate.client.options import ClientOptions

LEASE_TTL = 60.0
"""How long slots are held without being renewed, in seconds, unless a quota says otherwise."""

_PROBE_NS = 1_000_000_000
"""How long the service may take to say that it is well. Nobody waits for it."""

_log = logging.getLogger("tidegate.client")
_FAILURES = frozenset({"service_timeout", "service_unavailable", "service_error", "service_protocol_error"})


class Way:
    """
    The way to a service. Any number of threads and tasks may use it.

    Args:
        address: The service.
        options: As `ClientOptions`.
    """

    def __init__(self, address: str, **options: Unpack[ClientOptions]) -> None:
        checked = check_options(**options)
        self.address, self._transport = transport_of(address, **options)
        self.has_slots = self._transport.has_slots
        """Whether the protocol knows slots, delays and resets."""
        self.is_closed = False
        """Whether it was closed."""
        self.lease_ttl = LEASE_TTL
        """The shortest lease that the service has spoken of, in seconds."""
        self._budget_ns = checked.budget_ns
        self._policy = Policy(checked)
        self._lock = threading.Lock()
        self._degraded: dict[str, int] = {}
        self._problem = ""
        self._tasks: set[asyncio.Task[bool]] = set()
        self._process = 0
        self._breaker = self._new_breaker()

    @property
    def local(self) -> RuleLimiter:
        """
        Who counts here when the service is away.

        Raises:
            UsageError: Nobody does.
        """
        if self._policy.local is None:
            raise UsageError("the decision belongs to another client")
        return self._policy.local

    def decide(self, question: Question) -> Decision:
        """
        Asks, and waits at most as long as the budget.

        Args:
            question: What is asked.

        Returns:
            The service's decision, or one that was taken without it.
        """
        try:
            return self._learn(self._transport.ask(question, self._begin()))
        except Away as away:
            return self._without(question, away)

    async def decide_async(self, question: Question) -> Decision:
        """
        As `decide`, while other tasks run.
        """
        try:
            return self._learn(await self._transport.ask_async(question, self._begin()))
        except Away as away:
            return self._without(question, away)

    def do(self, question: Question, *, otherwise: bool) -> bool:
        """
        Asks what is answered by yes or no.

        Args:
            question: What is asked.
            otherwise: What to answer if the service does not.

        Returns:
            The answer.
        """
        try:
            return self._done(self._transport.ask(question, self._begin()))
        except Away as away:
            self._note(away)
            return otherwise

    async def do_async(self, question: Question, *, otherwise: bool) -> bool:
        """
        As `do`, while other tasks run.
        """
        try:
            return self._done(await self._transport.ask_async(question, self._begin()))
        except Away as away:
            self._note(away)
            return otherwise

    def later(self, question: Question) -> asyncio.Task[bool]:
        """
        Does what has to be done although who wants it may be gone, as a task of its own.

        Args:
            question: What is asked.

        Returns:
            The task; waiting for it is possible, and not needed.
        """
        import asyncio  # noqa: PLC0415  # only tasks come here

        task = asyncio.get_running_loop().create_task(self.do_async(question, otherwise=False))
        # A loop knows its tasks only weakly.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def health(self) -> Health:
        """
        Tells what is known of the service.

        Returns:
            Its state, and how many decisions were taken without it.
        """
        is_open = self._here().is_open
        with self._lock:
            degraded, problem = dict(self._degraded), self._problem
        shard = ShardHealth(name=str(self.address), is_up=not is_open, breaker="open" if is_open else "closed", why=problem)
        status: Literal["ok", "degraded", "down"] = "down" if is_open else "degraded" if problem else "ok"
        return Health(status=status, store=f"service {self.address}", shards=(shard,), degraded=degraded)

    def close(self) -> None:
        """
        Ends the connections, and whoever asks whether the service is back.
        """
        self.is_closed = True
        self._breaker.stop()
        self._transport.close()
        self._policy.close()

    def _begin(self) -> int:
        """
        Until when there has to be an answer.
        """
        if self.is_closed:
            raise UsageError("the client is closed")
        if self._here().is_open:
            raise Away("service_breaker_open", self._problem or "the service failed too often")
        return now_ns() + self._budget_ns

    def _done(self, answer: RemoteDecision | bool) -> bool:
        self._breaker.succeeded()
        return bool(answer)

    def _learn(self, answer: RemoteDecision | bool) -> Decision:
        # What is asked for a decision is answered by one.
        decision = cast(RemoteDecision, answer)
        self._breaker.succeeded()
        if self._problem:
            self._problem = ""
        if decision.lease is not None:
            ttls = [_ttl(status.quota) for status in decision.quotas if status.algorithm == "concurrency"]
            self.lease_ttl = min([self.lease_ttl, *ttls])
        return as_decision(decision)

    def _without(self, question: Question, away: Away) -> Decision:
        self._note(away)
        with self._lock:
            count = self._degraded.get(away.reason, 0)
            self._degraded[away.reason] = count + 1
        if count == 0:
            _log.warning("decided without the service %s: %s: %s (said once)", self.address, away.reason, away)
        return as_decision(self._policy.decide(question, away.reason))

    def _note(self, away: Away) -> None:
        if away.reason in _FAILURES:
            self._here().failed()
        # One request that is too large says nothing about the service.
        if away.reason != "request_too_large":
            self._problem = str(away)

    def _here(self) -> Breaker:
        # A forked child has the state of its parent's breaker, but not the thread that would close it.
        if self._process != os.getpid():
            self._breaker = self._new_breaker()
        return self._breaker

    def _new_breaker(self) -> Breaker:
        self._process = os.getpid()
        probe, budget_ns = self._transport.probe, max(self._budget_ns, _PROBE_NS)
        breaker = Breaker(lambda: probe(budget_ns))
        # A client that is dropped without being closed must not leave a thread behind.
        weakref.finalize(self, breaker.stop).atexit = False
        return breaker


@functools.lru_cache(maxsize=256)
def _ttl(text: str) -> float:
    """
    How long a quota lends slots, in seconds.
    """
    try:
        ttl_ns: int | None = parameters(Quota.parse(text)).get("ttl_ns")
    except QuotaError:
        return LEASE_TTL
    return LEASE_TTL if ttl_ns is None else ttl_ns / 1e9
