"""
A task that is alone with its question: it is sent and answered on the thread of the event loop, without the one that talks to the store.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.conftest import Eventually
    from tests.redis.conftest import Make
    from tests.servers import Single
    from tidegate import Decision, Limiter
else:
    from servers import Single

BUDGET = 1.0
"""Longer than a busy machine stands still, and short enough to be waited for."""


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[object, object, None]], None]:
    """
    Runs a coroutine on an event loop of its own, of each kind.
    """
    make_loop = pytest.importorskip(request.param).new_event_loop

    def run_on_a_loop(main: Coroutine[object, object, None]) -> None:
        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.run(main)

    return run_on_a_loop


async def is_well(limiter: Limiter) -> bool:
    """
    Whether the store decides, for a task that asks again and again as long as it does not.
    """
    for _ in range(3000):
        if not (await limiter.check_async("somebody")).degraded:
            return True
        await asyncio.sleep(0.01)  # noqa: TID251 - it asks again, as a task does
    return False


def test_a_task_alone_is_counted_exactly(make: Make, run: Callable[..., None]) -> None:
    """
    One after the other, and with others in between that travel together.
    """

    async def ask(limiter: Limiter) -> None:
        alone = [await limiter.check_async("a") for _ in range(40)]
        together = await asyncio.gather(*(limiter.check_async("a") for _ in range(40)))
        again = [await limiter.check_async("a") for _ in range(40)]
        decisions: list[Decision] = [*alone, *together, *again]

        assert 100 == sum(decision.allowed for decision in decisions)
        assert not any(decision.degraded for decision in decisions)

    with Single() as server:
        run(ask(make("100/day fixed_window", store=server.url(), budget=20.0)))


def test_a_store_that_freezes_holds_a_task_up_for_its_budget_and_the_loop_not_at_all(make: Make, run: Callable[..., None]) -> None:
    """
    It is decided without the store, while the loop runs on; when the store is back, it is asked again.
    """

    async def ask(limiter: Limiter, server: Single) -> None:
        for _ in range(10):
            assert not (await limiter.check_async("a")).degraded
        server.freeze()
        asked = asyncio.ensure_future(limiter.check_async("a"))
        rounds = 0
        while not asked.done():
            await asyncio.sleep(0.001)  # noqa: TID251 - one round of the loop after the other
            rounds += 1
        server.thaw()

        assert (await asked).degraded
        assert rounds > 10
        assert await is_well(limiter)

    with Single() as server:
        run(ask(make("100/day", store=server.url(), budget=BUDGET), server))


def test_an_answer_that_came_while_the_loop_was_busy_counts(make: Make, run: Callable[..., None]) -> None:
    """
    The store was in time, whoever was not.
    """
    brief = 0.1

    async def ask(limiter: Limiter, server: Single) -> None:
        for _ in range(10):
            await limiter.check_async("a")
        for _ in range(5):
            asked = asyncio.ensure_future(limiter.check_async("a"))
            await asyncio.sleep(0)  # noqa: TID251 - the task begins
            threading.Event().wait(2 * brief)
            # However long it stood still itself: who is answered later shows that the answer is out.
            for _ in range(2):
                server.command("PING")

            assert not (await asked).degraded
        assert "ok" == limiter.health().status

    with Single() as server:
        run(ask(make("100/day", store=server.url(), budget=brief), server))


def test_a_server_that_forgot_its_scripts_is_told_them_again(make: Make, run: Callable[..., None]) -> None:
    """
    The connection of a task that is alone is not where that is done, but the task does not notice.
    """

    async def ask(limiter: Limiter, server: Single) -> None:
        for _ in range(5):
            await limiter.check_async("a")
        server.command("SCRIPT", "FLUSH", "SYNC")
        decision = await limiter.check_async("a")

        assert not decision.degraded
        assert 94 == decision.remaining

    with Single() as server:
        run(ask(make("100/day fixed_window", store=server.url(), budget=20.0), server))


def test_a_connection_that_ends_takes_no_more_than_one_question_along(make: Make, run: Callable[..., None]) -> None:
    """
    After it, everything is as before.
    """

    async def ask(limiter: Limiter, server: Single) -> None:
        for _ in range(5):
            await limiter.check_async("a")
        server.command("CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES")

        assert await is_well(limiter)
        assert not any([(await limiter.check_async("b")).degraded for _ in range(20)])

    with Single() as server:
        run(ask(make("100/day", store=server.url(), budget=BUDGET), server))


def test_a_loop_that_ends_leaves_nothing_behind(make: Make, run: Callable[..., None], eventually: Eventually) -> None:
    """
    A question that its loop did not wait for is taken in all the same, and the next loop has its own.
    """

    async def leave(limiter: Limiter, server: Single) -> None:
        for _ in range(5):
            await limiter.check_async("a")
        server.freeze()
        asked = asyncio.ensure_future(limiter.check_async("a"))
        await asyncio.sleep(0.01)  # noqa: TID251 - it asks again, as a task does
        asked.cancel()
        server.thaw()

    async def ask(limiter: Limiter) -> None:
        assert await is_well(limiter)

    with Single() as server:
        limiter = make("100/day fixed_window", store=server.url(), budget=BUDGET)
        for _ in range(3):
            run(leave(limiter, server))
            run(ask(limiter))

        eventually(lambda: limiter.peek("a").remaining == 100 - 18)


def test_a_task_that_is_cancelled_does_not_disturb_the_next_one(make: Make, run: Callable[..., None]) -> None:
    """
    What it asked stays asked.
    """

    async def ask(limiter: Limiter) -> None:
        for _ in range(50):
            asked = asyncio.ensure_future(limiter.check_async("b"))
            await asyncio.sleep(0)  # noqa: TID251 - the task begins
            asked.cancel()
            assert not (await limiter.check_async("b")).degraded

        assert 0 == (await limiter.check_async("b", 0)).remaining

    with Single() as server:
        run(ask(make("100/day fixed_window", store=server.url(), budget=20.0)))
