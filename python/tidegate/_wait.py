"""
Waiting until admitted: one implementation for callers that block and for callers that await.

`steps` is the implementation. It yields how long to sleep and what to ask; `run` and `run_async` only sleep and ask, each in its own way.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tidegate._sleep import now_ns, sleep, sleep_async
from tidegate.errors import Denied, UsageError

if TYPE_CHECKING:
    from collections.abc import Generator

    from tidegate import Decision
    from tidegate._gate import Gate
    from tidegate.testing import ManualClock

    Steps = Generator[int | "Call", Any, Decision]

# Slots come free when their holders finish, which nobody can foresee: ask again soon at first, then at most twenty times a second.
POLL_MIN_NS = 1_000_000
POLL_MAX_NS = 50_000_000
# Three hundred years, in seconds.
TIMEOUT_MAX = 10**10


@dataclass(frozen=True, slots=True)
class Call:
    """
    Something to ask the gate.

    Args:
        name: Which of its methods.
        arguments: With what.
    """

    name: Literal["check", "peek", "renew"]
    arguments: dict[str, Any] = field(default_factory=dict)

    def run(self, gate: Gate) -> Any:  # noqa: ANN401  # what the method answers
        """
        Asks, and waits.
        """
        return getattr(gate, self.name)(**self.arguments)

    async def run_async(self, gate: Gate) -> Any:  # noqa: ANN401  # what the method answers
        """
        Asks, while other tasks run.
        """
        return await getattr(gate, f"{self.name}_async")(**self.arguments)


@dataclass(frozen=True, slots=True)
class Ask:
    """
    What is asked of a limiter, and how long it may take.

    Args:
        gate: Who is asked, and for whom.
        lease: The id for `concurrent` quotas.
        timeout_ns: How long all of it may take; `None` is as long as it takes.
        is_patient: Whether to wait after a denial. The delay of an admitted request is waited for in any case.
    """

    gate: Gate
    lease: str | None = None
    timeout_ns: int | None = None
    is_patient: bool = True

    @classmethod
    def with_timeout(cls, gate: Gate, timeout: float | None) -> Ask:
        """
        As `slot` and `@limit` ask: without a timeout a denial is final.

        Args:
            gate: Who is asked, and for whom.
            timeout: Seconds.

        Returns:
            The question.
        """
        return cls(gate, timeout_ns=timeout_to_ns(timeout), is_patient=timeout is not None)


def timeout_to_ns(timeout: float | None) -> int | None:
    """
    Checks a timeout.

    Args:
        timeout: Seconds; `None`, infinity and what comes near it mean as long as it takes.

    Returns:
        Nanoseconds, or `None`.

    Raises:
        UsageError: It is negative or not a number.
    """
    if timeout is None:
        return None
    if not isinstance(timeout, int | float) or not timeout >= 0:
        raise UsageError(f"a timeout is a number of seconds from 0 up, not {timeout!r:.40}")
    return round(timeout * 1e9) if timeout < TIMEOUT_MAX else None


def admit(ask: Ask) -> Decision:
    """
    Waits as asked, and insists.

    Args:
        ask: The question.

    Returns:
        The decision that admitted it.

    Raises:
        Denied: It was not admitted in time.
    """
    return _insist(run(ask))


async def admit_async(ask: Ask) -> Decision:
    """
    As `admit`, while other tasks run.

    Args:
        ask: The question.

    Returns:
        The decision that admitted it.

    Raises:
        Denied: It was not admitted in time.
    """
    return _insist(await run_async(ask))


def run(ask: Ask) -> Decision:
    """
    Waits as asked.

    Args:
        ask: The question.

    Returns:
        The decision that admitted it, or the last denial.
    """
    clock = ask.gate.clock
    with closing(steps(ask, clock)) as script:
        answer = None
        try:
            while True:
                step, answer = script.send(answer), None
                if isinstance(step, Call):
                    answer = step.run(ask.gate)
                else:
                    sleep(step, clock)
        except StopIteration as end:
            decision: Decision = end.value
            return decision


async def run_async(ask: Ask) -> Decision:
    """
    As `run`, while other tasks run.

    Args:
        ask: The question.

    Returns:
        The decision that admitted it, or the last denial.
    """
    clock = ask.gate.clock
    with closing(steps(ask, clock)) as script:
        answer = None
        try:
            while True:
                step, answer = script.send(answer), None
                if isinstance(step, Call):
                    answer = await step.run_async(ask.gate)
                else:
                    await sleep_async(step, clock)
        except StopIteration as end:
            decision: Decision = end.value
            return decision


def steps(ask: Ask, clock: ManualClock | None) -> Steps:
    """
    Asks until admitted or in vain.

    Closing it early, as a cancelled task does, gives back what was taken.

    Args:
        ask: The question.
        clock: The limiter's clock, if it has one of its own.

    Yields:
        How long to sleep before the next step, in nanoseconds; or what to ask, for an answer.

    Returns:
        The decision that admitted it, or the last denial.
    """
    deadline_ns = None if ask.timeout_ns is None else now_ns(clock) + ask.timeout_ns
    poll_ns = POLL_MIN_NS
    while True:
        left_ns = None if deadline_ns is None else max(0, deadline_ns - now_ns(clock))
        max_delay = None if left_ns is None else left_ns / 1e9
        decision: Decision = yield Call("check", {"lease": ask.lease, "max_delay": max_delay})
        if decision.allowed:
            yield from _delay(ask, decision)
            return decision
        wait_ns = decision.retry_after_ns
        if not ask.is_patient or wait_ns is None or left_ns == 0:
            return decision
        if decision.retry_is_hint:
            wait_ns = min(wait_ns, poll_ns) if left_ns is None else min(wait_ns, poll_ns, left_ns)
            poll_ns = min(2 * poll_ns, POLL_MAX_NS)
        elif deadline_ns is not None and left_ns is not None:
            # The wait is exact, and ends after the deadline.
            if wait_ns > left_ns:
                return decision
            peek: Decision = yield Call("peek")
            if peek.allowed:
                # There is a place in a queue that starts after the deadline, and while the queue drains that comes nearer just as fast.
                if peek.delay_ns > deadline_ns - now_ns(clock):
                    return decision
                # Or there is room by now, because asking took its time.
                wait_ns = 0
        yield wait_ns


def _delay(ask: Ask, decision: Decision) -> Generator[int | Call, Any]:
    """
    Waits for the start that a `leaky_bucket` assigned, or gives it back when the caller is gone.
    """
    delay_ns = decision.delay_ns
    try:
        while delay_ns > 0:
            # A slot that is held while its request waits in the queue must not expire before it starts.
            pause_ns = delay_ns if decision.lease is None else min(delay_ns, _renewal_ns(ask.gate))
            yield pause_ns
            delay_ns -= pause_ns
            if decision.lease is not None:
                yield Call("renew", {"decision": decision})
    except BaseException:
        _give_back(ask, decision)
        raise


def _renewal_ns(gate: Gate) -> int:
    return max(POLL_MIN_NS, round((gate.lease_ttl or 1) * 1e9 / 3))


def _give_back(ask: Ask, decision: Decision) -> None:
    # The limiter may have been closed while the caller waited, and then there is nothing to give back to.
    with suppress(UsageError):
        ask.gate.refund(decision)
    if decision.lease is not None:
        with suppress(UsageError):
            ask.gate.release(decision)


def _insist(decision: Decision) -> Decision:
    if not decision.allowed:
        raise Denied(decision)
    return decision
