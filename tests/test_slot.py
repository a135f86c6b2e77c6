"""
Slots: taken on entering, renewed while held, given back on every path.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import weakref
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest

from tidegate import Limiter
from tidegate._renew import RENEWER
from tidegate.errors import Denied, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tidegate.slot import Slot
    from tidegate.testing import ManualClock

# Long enough that a machine renews in time on which nothing runs for a second or two, short enough to see it happen.
SHORT_LEASE = "1 concurrent ttl 3s"


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    """
    Runs Python code in a process of its own.
    """
    return subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=50, check=False)


def is_free(limiter: Limiter, key: str = "k") -> bool:
    """
    Whether a slot could be taken now.
    """
    return limiter.peek(key).allowed


def wait_for_renewals(limiter: Limiter, number: int, eventually: Eventually) -> None:
    """
    Waits until the lease was extended: the time until it expires only grows by a renewal.
    """
    seen_ns = limiter.peek("k").reset_after_ns
    renewals = 0

    def is_renewed() -> bool:
        nonlocal seen_ns, renewals
        before_ns, seen_ns = seen_ns, limiter.peek("k").reset_after_ns
        renewals += seen_ns > before_ns
        return renewals >= number

    eventually(is_renewed, within=30)


def test_a_block_holds_its_slot(clock: ManualClock) -> None:
    """Inside the block the slot is taken, outside it is free."""
    limiter = Limiter("1 concurrent", clock=clock)

    with limiter.slot("k") as slot:
        assert (True, False, False) == (slot.held, slot.lost, is_free(limiter))
        assert slot.decision.allowed

    assert (False, False, True) == (slot.held, slot.lost, is_free(limiter))


async def test_an_async_block_holds_its_slot(clock: ManualClock) -> None:
    """The same with `async with`."""
    limiter = Limiter("1 concurrent", clock=clock)

    async with limiter.slot("k") as slot:
        assert slot.held
        assert not is_free(limiter)

    assert is_free(limiter)


def test_cost_is_the_number_of_slots(clock: ManualClock) -> None:
    """A heavy block takes several places."""
    limiter = Limiter("3 concurrent", clock=clock)

    with limiter.slot("k", 2):
        assert 1 == limiter.peek("k").remaining

    assert 3 == limiter.peek("k").remaining


def test_no_free_slot_is_denied(clock: ManualClock) -> None:
    """Entering asks for the exception, and the slot that is held stays held."""
    limiter = Limiter("1 concurrent", clock=clock)

    with limiter.slot("k") as slot, pytest.raises(Denied) as caught, limiter.slot("k"):
        pytest.fail("two hold one slot")

    assert not caught.value.decision.allowed
    assert not slot.lost


def test_timeout_waits_for_a_slot(clock: ManualClock) -> None:
    """With a timeout the denial comes only after it."""
    limiter = Limiter("1 concurrent", clock=clock)
    start = clock.time()

    with limiter.slot("k"), pytest.raises(Denied), limiter.slot("k", timeout=2):
        pytest.fail("two hold one slot")

    assert 2.0 == clock.time() - start


async def test_a_waiting_task_gets_the_slot_that_comes_free() -> None:
    """Tasks take turns on one slot, on the machine's clock."""
    limiter = Limiter("1 concurrent")
    running = most = 0

    async def work() -> None:
        nonlocal running, most
        async with limiter.slot("k", timeout=30):
            running += 1
            most = max(most, running)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), timeout=0.001)
            running -= 1

    await asyncio.gather(*(work() for _ in range(10)))

    assert 1 == most


def test_exception_gives_the_slot_back(clock: ManualClock) -> None:
    """A block that fails does not keep its slot."""
    limiter = Limiter("1 concurrent", clock=clock)

    with pytest.raises(ZeroDivisionError), limiter.slot("k"):
        _ = 1 / 0

    assert is_free(limiter)


async def test_cancellation_gives_the_slot_back(clock: ManualClock) -> None:
    """A cancelled task does not keep its slot."""
    limiter = Limiter("1 concurrent", clock=clock)
    entered = asyncio.Event()

    async def hold() -> None:
        async with limiter.slot("k"):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await entered.wait()
    assert not is_free(limiter)
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert is_free(limiter)


def test_generator_exit_gives_the_slot_back(clock: ManualClock) -> None:
    """A generator that is dropped inside the block does not keep its slot."""
    limiter = Limiter("1 concurrent", clock=clock)

    def rows() -> Iterator[int]:
        with limiter.slot("k"):
            yield 1

    iterator = rows()
    next(iterator)
    assert not is_free(limiter)
    del iterator
    gc.collect()

    assert is_free(limiter)


def test_a_dropped_slot_is_given_back(clock: ManualClock) -> None:
    """Who enters by hand and forgets to leave does not keep the slot."""
    limiter = Limiter("1 concurrent", clock=clock)
    slot: Slot | None = limiter.slot("k").__enter__()
    assert not is_free(limiter)
    assert slot is not None
    slot = None
    gc.collect()

    assert is_free(limiter)


def test_only_the_slot_is_given_back(clock: ManualClock) -> None:
    """A rate quota beside it stays charged: the request did happen."""
    limiter = Limiter("1 concurrent, 5/minute", clock=clock)

    with limiter.slot("k"):
        pass

    concurrent, rate = limiter.peek("k").quotas
    assert (1, 4) == (concurrent.remaining, rate.remaining)


def test_release_is_early_and_idempotent(clock: ManualClock) -> None:
    """Giving back twice does not free somebody else's slot."""
    limiter = Limiter("1 concurrent", clock=clock)

    with limiter.slot("k") as slot:
        slot.release()
        with limiter.slot("k"):
            slot.release()
            assert not is_free(limiter)


def test_slot_can_be_entered_again_but_not_twice(clock: ManualClock) -> None:
    """Each entering is a slot of its own."""
    limiter = Limiter("2 concurrent", clock=clock)
    slot = limiter.slot("k")
    with slot:
        first = slot.decision.lease
        with pytest.raises(UsageError, match="held already"), slot:
            pytest.fail("entered twice")
        assert slot.held

    with slot:
        assert first != slot.decision.lease


def test_slot_needs_a_concurrent_quota() -> None:
    """A rate has no slots to hold."""
    with pytest.raises(UsageError, match="concurrent quota"):
        Limiter("5/minute").slot("k")


def test_decision_is_known_only_after_entering() -> None:
    """Asking too early is a mistake that is told."""
    with pytest.raises(UsageError, match="before it is entered"):
        _ = Limiter("1 concurrent").slot("k").decision


def test_leaving_after_close_is_quiet() -> None:
    """A limiter that was closed inside the block has nothing to take back."""
    limiter = Limiter("1 concurrent")

    with limiter.slot("k") as slot:
        limiter.close()

    assert not slot.held


def test_a_block_admitted_without_the_store_holds_nothing() -> None:
    """Where the rule is to allow when the store is full, the block runs and leaving it is quiet."""
    limiter = Limiter("1 concurrent", max_keys=1, on_store_error="allow")
    slots = [limiter.slot(f"k{index}") for index in range(1_000)]

    with ExitStack() as stack:
        entered = [stack.enter_context(slot) for slot in slots]
        states = {(slot.decision.degraded, slot.held) for slot in entered}

    assert {(False, True), (True, False)} == states


def test_repr_shows_the_state(clock: ManualClock) -> None:
    """A slot in a log line says what it is."""
    limiter = Limiter("1 concurrent", clock=clock)
    slot = limiter.slot("k")

    with slot:
        assert "<Slot: held>" == repr(slot)
        clock.advance(61)
        slot.renew()
        assert "<Slot: lost>" == repr(slot)


def test_manual_clock_loses_a_slot_that_is_not_renewed(clock: ManualClock) -> None:
    """Time that a test moves is not watched in the background, so that tests are exact."""
    limiter = Limiter("1 concurrent", clock=clock)

    with limiter.slot("k") as slot:
        clock.advance(59)
        assert slot.renew()
        clock.advance(59)
        assert slot.held
        assert not is_free(limiter)

        clock.advance(1)
        assert is_free(limiter)
        assert not slot.renew()
        assert slot.lost
        assert not slot.held


def test_slot_is_renewed_while_it_is_held(eventually: Eventually) -> None:
    """A block may run longer than its lease."""
    limiter = Limiter(SHORT_LEASE)

    with limiter.slot("k") as slot:
        wait_for_renewals(limiter, 4, eventually)
        assert slot.held
        assert not is_free(limiter)

    assert is_free(limiter)


async def test_async_slot_is_renewed_while_the_loop_is_blocked(eventually: Eventually) -> None:
    """The renewal is no task, so a loop that is busy does not lose its slots."""
    limiter = Limiter(SHORT_LEASE)

    async with limiter.slot("k") as slot:
        wait_for_renewals(limiter, 4, eventually)
        assert slot.held


def test_renewal_finds_a_lost_slot(eventually: Eventually) -> None:
    """A slot that somebody else gave away is known to be lost."""
    limiter = Limiter(SHORT_LEASE)

    with limiter.slot("k") as slot:
        assert limiter.release("k", slot.decision)
        eventually(lambda: slot.lost)
        assert not slot.held


def test_renewer_keeps_nothing_alive() -> None:
    """Neither a slot that was left nor one that was dropped holds on to its limiter."""
    limiter = Limiter("2 concurrent")
    reference = weakref.ref(limiter)
    with limiter.slot("k"):
        pass
    limiter.slot("k").__enter__()
    del limiter
    gc.collect()

    assert reference() is None


def test_many_short_slots_leave_little_behind() -> None:
    """Slots that are given back long before their renewal do not pile up."""
    limiter = Limiter("1 concurrent")

    for _ in range(2_000):
        with limiter.slot("k"):
            pass

    assert len(RENEWER._heap) < 500


def test_interpreter_exits_quietly_with_slots_held() -> None:
    """No traceback, no hanging, exit code 0."""
    result = run_script(
        """
        import threading
        from tidegate import Limiter

        limiter = Limiter("100 concurrent ttl 3ms")
        slots = [limiter.slot("k").__enter__() for _ in range(50)]
        entered = threading.Event()

        def hold():
            with limiter.slot("k"):
                entered.set()
                threading.Event().wait()

        threading.Thread(target=hold, daemon=True).start()
        entered.wait()
        """
    )

    assert (0, "", "") == (result.returncode, result.stdout, result.stderr)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_slots_work_on_both_sides_of_a_fork() -> None:
    """The child renews its own slots, does not touch the parent's, and the parent goes on."""
    result = run_script(
        """
        import os, time
        from tidegate import Limiter

        limiter = Limiter("1 concurrent ttl 3s")

        def is_renewed():
            deadline = time.monotonic() + 30
            renewals, seen = 0, limiter.peek("k").reset_after_ns
            while renewals < 4 and time.monotonic() < deadline:
                before, seen = seen, limiter.peek("k").reset_after_ns
                renewals += seen > before
                time.sleep(0.001)
            return renewals == 4

        with limiter.slot("k") as slot:
            child = os.fork()
            if child == 0:
                slot.release()
                with limiter.slot("k") as own:
                    ok = is_renewed() and own.held
                os._exit(0 if ok and limiter.peek("k") else 1)
            assert is_renewed()
            assert os.waitpid(child, 0)[1] == 0, "the child failed"
            assert slot.held and not limiter.peek("k")
        assert limiter.peek("k")
        """
    )

    assert (0, "", "") == (result.returncode, result.stdout, result.stderr)
