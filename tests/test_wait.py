"""
Waiting until admitted, on a clock that waiting moves.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from tidegate import Limiter
from tidegate._gate import KeyGate
from tidegate._wait import Ask, Call, steps
from tidegate.errors import UsageError
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate import Decision

    Wait = Callable[..., Decision]

SECOND_NS = 1_000_000_000


def wait(limiter: Limiter, key: str, cost: int = 1, timeout: float | None = None) -> Decision:
    """
    The blocking form.
    """
    return limiter.wait(key, cost, timeout=timeout)


def wait_async(limiter: Limiter, key: str, cost: int = 1, timeout: float | None = None) -> Decision:
    """
    The async form, in a loop of its own.
    """
    return asyncio.run(limiter.wait_async(key, cost, timeout=timeout))


both = pytest.mark.parametrize("wait", [wait, wait_async])


@pytest.fixture
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Fails the test when anything really sleeps.
    """

    def refuse(_: float) -> None:
        pytest.fail("slept")

    monkeypatch.setattr(time, "sleep", refuse)


def elapsed_ns(clock: ManualClock) -> int:
    """
    How far the clock has been moved.
    """
    return clock.time_ns() - ManualClock().time_ns()


@both
def test_free_quota_does_not_wait(wait: Wait, clock: ManualClock) -> None:
    """Where there is room, waiting is checking."""
    decision = wait(Limiter("1/minute", clock=clock), "k")

    assert decision
    assert 0 == elapsed_ns(clock)


@both
@pytest.mark.usefixtures("no_sleep")
def test_waits_exactly_until_admitted(wait: Wait, clock: ManualClock) -> None:
    """The promised time and not a nanosecond more; a manual clock moves instead of sleeping."""
    limiter = Limiter("3/s burst 1", clock=clock)
    limiter.check("k")

    decision = wait(limiter, "k")

    assert decision
    assert 333_333_334 == elapsed_ns(clock)


@both
def test_several_quotas_wait_for_the_longest(wait: Wait, clock: ManualClock) -> None:
    """One wait serves all quotas."""
    limiter = Limiter("1/second, 1/minute", clock=clock)
    limiter.check("k")

    assert wait(limiter, "k")
    assert 60 * SECOND_NS == elapsed_ns(clock)


@both
def test_waiting_in_vain_is_answered_at_once(wait: Wait, clock: ManualClock) -> None:
    """A wait that is longer than the timeout is not begun."""
    limiter = Limiter("1/minute", clock=clock)
    limiter.check("k")

    decision = wait(limiter, "k", timeout=59.999)

    assert not decision.allowed
    assert 60.0 == decision.retry_after
    assert 0 == elapsed_ns(clock)


@both
def test_timeout_that_just_fits_is_enough(wait: Wait, clock: ManualClock) -> None:
    """The last moment counts."""
    limiter = Limiter("1/minute", clock=clock)
    limiter.check("k")

    assert wait(limiter, "k", timeout=60)


@both
@pytest.mark.parametrize("timeout", [None, 5.0])
def test_never_is_answered_at_once(wait: Wait, clock: ManualClock, timeout: float | None) -> None:
    """A cost above the capacity is not waited for, with or without a timeout."""
    decision = wait(Limiter("5/minute", clock=clock), "k", 6, timeout=timeout)

    assert not decision.allowed
    assert decision.retry_after is None


@both
def test_zero_timeout_is_one_try(wait: Wait, clock: ManualClock) -> None:
    """Nothing to wait with, but the quota is asked."""
    limiter = Limiter("1/minute", clock=clock)

    assert wait(limiter, "k", timeout=0)
    assert not wait(limiter, "k", timeout=0)


@both
def test_the_delay_of_a_queue_is_slept(wait: Wait, clock: ManualClock) -> None:
    """When `wait` returns, the request may start."""
    limiter = Limiter("2/second queue 10s", clock=clock)
    limiter.check("k")

    decision = wait(limiter, "k", timeout=0.5)

    assert decision
    assert 0.5 == decision.delay
    assert SECOND_NS // 2 == elapsed_ns(clock)


@both
def test_a_start_after_the_timeout_is_denied_at_once(wait: Wait, clock: ManualClock) -> None:
    """It is denied before it is charged, nothing changed, and no time was spent."""
    limiter = Limiter("2/second queue 10s", clock=clock)
    limiter.check("k")
    before = limiter.peek("k")

    decision = wait(limiter, "k", timeout=0.499)

    assert not decision.allowed
    assert 1_000_000 == decision.retry_after_ns
    assert before.delay_ns == limiter.peek("k").delay_ns
    assert before.remaining == limiter.peek("k").remaining
    assert 0 == elapsed_ns(clock)


@both
def test_slots_are_polled_until_the_timeout(wait: Wait, clock: ManualClock) -> None:
    """A slot may come free at any moment, so its wait is no promise."""
    limiter = Limiter("1 concurrent", clock=clock)
    limiter.check("k")

    decision = wait(limiter, "k", timeout=2)

    assert not decision.allowed
    assert 2 * SECOND_NS == elapsed_ns(clock)


@both
def test_slots_whose_lease_expires_are_taken(wait: Wait, clock: ManualClock) -> None:
    """A holder that died does not block for longer than its lease."""
    limiter = Limiter("1 concurrent ttl 1s", clock=clock)
    limiter.check("k")

    assert wait(limiter, "k")
    assert SECOND_NS == elapsed_ns(clock)


def test_cancelling_the_delay_gives_the_place_back(clock: ManualClock) -> None:
    """Who leaves the queue does not delay those behind."""
    limiter = Limiter("1/second queue 10s", clock=clock)
    limiter.check("k")
    waiting = limiter.wait_async("k")
    waiting.send(None)

    # The clock stands where the cancelled request would have started.
    with pytest.raises(asyncio.CancelledError):
        waiting.throw(asyncio.CancelledError())
    assert SECOND_NS == elapsed_ns(clock)
    assert 0 == limiter.peek("k").delay


def test_interrupting_the_delay_gives_the_place_back(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control-C in a blocking wait is no charge either."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    limiter = Limiter("1/second queue 10s", clock=clock)
    limiter.check("k")
    monkeypatch.setattr("tidegate._wait.sleep", interrupt)

    with pytest.raises(KeyboardInterrupt):
        limiter.wait("k")
    assert 1.0 == limiter.peek("k").delay


async def test_other_tasks_run_while_one_waits() -> None:
    """Waiting does not block the loop, on the machine's clock."""
    limiter = Limiter("1/hour")
    limiter.check("k")

    task = asyncio.create_task(limiter.wait_async("k"))
    _, pending = await asyncio.wait([task], timeout=0.001)

    assert {task} == pending
    task.cancel()


@both
def test_the_machines_clock_is_slept_on(wait: Wait) -> None:
    """Without a manual clock real time passes, and enough of it."""
    limiter = Limiter("1/20ms")
    # Before the quota is used up: it fills again also while this thread has no core.
    start_ns = time.perf_counter_ns()
    limiter.check("k")

    assert wait(limiter, "k", timeout=5)
    assert time.perf_counter_ns() - start_ns > 10_000_000


@both
@pytest.mark.parametrize("timeout", [-1, -0.001, float("nan"), "5", -(10**30)], ids=repr)
def test_wrong_timeouts_are_refused(wait: Wait, timeout: object) -> None:
    """A timeout that is no time is a mistake of the caller."""
    with pytest.raises(UsageError):
        wait(Limiter("1/s"), "k", timeout=timeout)


@both
@pytest.mark.parametrize("timeout", [float("inf"), 1e300, 10**400], ids=["inf", "float", "int"])
def test_infinity_is_no_timeout(wait: Wait, clock: ManualClock, timeout: float) -> None:
    """It waits as long as it takes."""
    limiter = Limiter("1/day", clock=clock)
    limiter.check("k")

    assert wait(limiter, "k", timeout=timeout)


def test_room_that_comes_while_asking_is_taken(clock: ManualClock) -> None:
    """
    A store or a service takes its time: what was denied may fit by the time of the next question, and that is no reason to give up.
    """
    limiter = Limiter("10/second burst 1", clock=clock)
    gate = KeyGate(limiter, "a")
    limiter.check("a")
    script = steps(Ask(gate, timeout_ns=SECOND_NS), clock)
    step, asked, decision = next(script), [], None
    while decision is None:
        answer = None
        if isinstance(step, Call):
            asked.append(step.name)
            answer = step.run(gate)
            clock.advance(0.1)
        try:
            step = script.send(answer)
        except StopIteration as end:
            decision = end.value

    assert ["check", "peek", "check"] == asked
    assert decision.allowed
