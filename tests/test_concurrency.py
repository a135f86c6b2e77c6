"""
Many at once: threads, tasks and forked processes. The clock stands still, so that every count is exact.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tidegate import Limiter
from tidegate.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from tidegate.testing import ManualClock

THREADS = 32
TASKS = 1_000
LIMIT = 500

QUOTAS = {
    "sliding_window": "500/minute",
    "sliding_window_log": "500/minute sliding_window_log",
    "sliding_window_counter": "500/minute sliding_window_counter",
    "sliding_window_ring": "500/minute sliding_window_counter buckets 6",
    "fixed_window": "500/minute fixed_window",
    "calendar": "500/day calendar Europe/Berlin",
    "gcra": "500/minute gcra",
    "gcra-fraction": "7/minute burst 500",
    "leaky_bucket": "1/minute nodelay 499",
    "concurrency": "500 concurrent",
    "several": "900/hour fixed_window, 500/minute fixed_window, 700/minute sliding_window_counter",
    "two-that-agree": "500/minute fixed_window; 500 concurrent",
}
for_every_algorithm = pytest.mark.parametrize("quota", QUOTAS.values(), ids=QUOTAS)
# A queue admits a dear request whenever its own delay fits.
for_every_algorithm_but_queues = pytest.mark.parametrize(
    "quota", [pytest.param(quota, id=name) for name, quota in QUOTAS.items() if name != "leaky_bucket"]
)


def in_threads(act: Callable[[int], int], threads: int = THREADS) -> int:
    """
    Runs `act` in many threads that start together; returns the sum of what they counted.
    """
    start = threading.Barrier(threads)

    def run(number: int) -> int:
        start.wait()
        return act(number)

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(run, range(threads)))


@for_every_algorithm
def test_threads_are_admitted_exactly_as_often_as_the_limit_says(quota: str, clock: ManualClock) -> None:
    """
    32 threads that ask for more than there is get exactly the limit, whether by `check` or by `allow`.
    """
    limiter = Limiter(quota, clock=clock)

    def ask(number: int) -> int:
        ask_one = limiter.allow if number % 2 else limiter.check
        return sum(bool(ask_one("key")) for _ in range(50))

    assert in_threads(ask) == LIMIT
    assert (LIMIT, THREADS * 50 - LIMIT) == (limiter.stats().allowed, limiter.stats().denied)


@for_every_algorithm
def test_tasks_are_admitted_exactly_as_often_as_the_limit_says(quota: str, clock: ManualClock) -> None:
    """
    A thousand tasks of one event loop get exactly the limit.
    """
    limiter = Limiter(quota, clock=clock)

    async def ask_all() -> int:
        decisions = await asyncio.gather(*(limiter.check_async("key") for _ in range(TASKS)))
        return sum(decision.allowed for decision in decisions)

    assert asyncio.run(ask_all()) == LIMIT


@for_every_algorithm_but_queues
def test_costs_of_many_threads_add_up(quota: str, clock: ManualClock) -> None:
    """
    Requests of cost 7 are admitted as often as they fit, and what does not make up a whole one is left.
    """
    limiter = Limiter(quota, clock=clock)

    admitted = in_threads(lambda _: sum(limiter.allow("key", 7) for _ in range(10)))

    assert LIMIT // 7 == admitted
    assert LIMIT % 7 == limiter.peek("key").remaining


@for_every_algorithm
def test_what_threads_give_back_can_be_taken_again(quota: str, clock: ManualClock) -> None:
    """
    While threads take and give back, nothing is lost and nothing is minted: in the end exactly what was kept is used.
    """
    limiter = Limiter(quota, clock=clock)

    def take_and_give_back(number: int) -> int:
        kept = 0
        for turn in range(40):
            decision = limiter.check("key")
            if decision and (turn + number) % 3:
                limiter.refund("key", decision)
            else:
                kept += decision.allowed
        return kept

    kept = in_threads(take_and_give_back)

    assert LIMIT - kept == limiter.peek("key").remaining
    assert LIMIT - kept == sum(limiter.allow("key") for _ in range(2 * LIMIT))


@pytest.mark.parametrize("quota", ["40/minute", "40/minute burst 40", "40/minute fixed_window"])
def test_one_receipt_is_good_for_one_refund(quota: str, clock: ManualClock) -> None:
    """
    Of 32 threads that refund the same decision, in one or in parts, only as much as it took succeeds.
    """
    limiter = Limiter(quota, clock=clock)
    limiter.check("key", 20)
    decision = limiter.check("key", 10)

    def refund(_: int) -> int:
        try:
            return limiter.refund("key", decision, 3)
        except UsageError:
            return 0

    assert in_threads(refund) == 9
    assert limiter.peek("key").remaining == 19


def test_a_decision_is_settled_once(clock: ManualClock) -> None:
    """
    Of 32 threads that settle the same reservation, one succeeds.
    """
    limiter = Limiter("100/minute", clock=clock)
    decision = limiter.reserve("key", 10)

    def settle(_: int) -> int:
        try:
            limiter.settle("key", decision, 4)
        except UsageError:
            return 0
        return 1

    assert in_threads(settle) == 1
    assert limiter.peek("key").remaining == 96


def test_one_lease_is_one_slot_however_often_it_is_asked_for(clock: ManualClock) -> None:
    """
    32 threads that retry the same acquire hold one slot together.
    """
    limiter = Limiter("5 concurrent", clock=clock)

    assert in_threads(lambda _: limiter.check("key", lease="0a").allowed) == THREADS
    assert limiter.peek("key").remaining == 4
    assert in_threads(lambda _: limiter.release("key", "0a")) == 1


def test_slots_are_never_held_by_more_than_the_limit(clock: ManualClock) -> None:
    """
    At no moment more threads hold a slot than there are.
    """
    limiter = Limiter("3 concurrent", clock=clock)
    holders, most = [0], [0]
    guard = threading.Lock()

    def hold(_: int) -> int:
        admitted = 0
        for _ in range(50):
            decision = limiter.check("key")
            if decision:
                with guard:
                    holders[0] += 1
                    most[0] = max(most[0], holders[0])
                admitted += 1
                with guard:
                    holders[0] -= 1
                limiter.release("key", decision)
        return admitted

    assert in_threads(hold) > 0
    assert most[0] <= 3
    assert limiter.peek("key").remaining == 3


def test_a_rate_holds_while_the_clock_runs(clock: ManualClock) -> None:
    """
    While one thread moves the clock and others ask, never more is admitted than burst and rate allow.
    """
    limiter = Limiter("1000/second burst 20", clock=clock)

    def ask_or_move(number: int) -> int:
        if number:
            return sum(limiter.allow("key") for _ in range(300))
        for _ in range(100):
            clock.advance_ns(1_000_000)
        return 0

    assert 20 <= in_threads(ask_or_move, threads=8) <= 120


def test_quotas_can_be_changed_under_traffic(clock: ManualClock) -> None:
    """
    While the limit goes up and down no decision sees a half of each, and never more is admitted than the higher one allows.
    """
    limiter = Limiter("100/minute", clock=clock)

    def ask_or_load(number: int) -> int:
        if number:
            return sum(limiter.allow("key") for _ in range(100))
        for turn in range(50):
            limiter.load("100/minute" if turn % 2 else "60/minute")
        return 0

    assert 60 <= in_threads(ask_or_load) <= 100
    assert limiter.stats().generation == 51


def test_keys_of_many_threads_are_counted_apart(clock: ManualClock) -> None:
    """
    Each of many keys gets its own limit, however the threads interleave.
    """
    limiter = Limiter("3/minute", clock=clock)

    admitted = in_threads(lambda _: sum(limiter.allow(f"key:{i % 200}") for i in range(1_000)))

    assert 200 * 3 == admitted
    assert limiter.stats().keys == 200


def test_closing_under_traffic_raises_and_nothing_else(clock: ManualClock) -> None:
    """
    Threads that are still asking when the limiter is closed get a clear error.
    """
    limiter = Limiter("1000000/minute", clock=clock)

    def ask_or_close(number: int) -> int:
        if not number:
            limiter.close()
            return 0
        try:
            while True:
                limiter.allow("key")
        except UsageError as error:
            return "closed" in str(error)

    assert in_threads(ask_or_close, threads=8) == 7


# --- Processes --------------------------------------------------------------------------------------------------------------------------

FORK = multiprocessing.get_context("fork")


def in_child(act: Callable[[], object]) -> object:
    """
    What `act` returns in a forked child.
    """
    receiver, sender = FORK.Pipe(duplex=False)

    def run(sender: Connection) -> None:
        sender.send(act())

    child = FORK.Process(target=run, args=(sender,))
    child.start()
    sender.close()
    assert receiver.poll(20), "the child does not answer"
    answer = receiver.recv()
    child.join(20)
    assert child.exitcode == 0
    return answer


@for_every_algorithm
def test_a_forked_child_has_a_copy_of_its_own(quota: str, clock: ManualClock) -> None:
    """
    After a fork the child goes on with the counters as they were, and neither side sees what the other takes.
    """
    limiter = Limiter(quota, clock=clock)
    for _ in range(100):
        limiter.allow("key")

    assert in_child(lambda: sum(limiter.allow("key") for _ in range(TASKS))) == LIMIT - 100
    assert sum(limiter.allow("key") for _ in range(TASKS)) == LIMIT - 100


def test_a_child_can_refund_what_was_taken_before_the_fork(clock: ManualClock) -> None:
    """
    A receipt from before the fork is good in both processes, each time for its own counters.
    """
    limiter = Limiter("10/minute", clock=clock)
    decision = limiter.check("key", 4)

    assert in_child(lambda: (limiter.refund("key", decision), limiter.peek("key").remaining)) == (4, 10)
    assert limiter.peek("key").remaining == 6
    assert limiter.refund("key", decision) == 4


def test_a_fork_in_the_middle_of_traffic_does_not_hang(clock: ManualClock) -> None:
    """
    A child that is forked while other threads ask, load and count can do all of that itself.
    """
    limiter = Limiter("500/minute, 900/hour", clock=clock)
    stop = threading.Event()

    def disturb() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            limiter.allow(f"key:{turn % 300}")
            if turn % 50 == 0:
                limiter.load("500/minute, 900/hour")
                limiter.stats()

    def work() -> tuple[bool, bool, int]:
        limiter.load("7/minute", transition="immediate")
        return limiter.allow("new"), limiter.stats().keys > 0, sum(limiter.allow("other") for _ in range(10))

    threads = [threading.Thread(target=disturb) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            assert in_child(work) == (True, True, 7)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_ids_made_after_a_fork_differ(clock: ManualClock) -> None:
    """
    Leases of two children never have the same id, although their limiter was one.
    """
    limiter = Limiter("5 concurrent", clock=clock)

    leases = [in_child(lambda: limiter.check("key").lease) for _ in range(3)]

    assert len({*leases, limiter.check("key").lease}) == 4


def test_the_system_clock_runs_on_in_a_child() -> None:
    """
    Without a clock of the test's own, the child's decisions work by real time.
    """
    limiter = Limiter("1/hour")

    assert limiter.allow("key")
    assert in_child(lambda: (os.getpid() != os.getppid(), limiter.allow("key"), limiter.allow("other"))) == (True, False, True)
