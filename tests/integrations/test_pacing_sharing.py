"""
One budget for all threads and tasks of a process, and for all processes on a shared store.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest
import requests

from tidegate import Limiter
from tidegate.integrations.httpx import AsyncPacedTransport, PacedTransport
from tidegate.integrations.requests import PacedAdapter
from tidegate.pacing import Pacer
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tests.integrations.limited import Answer, LimitedServer, by, draft_11, in_turn
    from tests.servers import Single
else:
    from limited import Answer, LimitedServer, by, draft_11, in_turn

EMPTY = Answer(fields={"RateLimit": '"a";r=0;t=30'})


@pytest.fixture
def limited() -> Iterator[LimitedServer]:
    """
    Ten requests a second, by the real clock.
    """
    with LimitedServer(by(Limiter("10/second"), draft_11, ManualClock())) as server:
        yield server


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    On a busy machine the first answer may take longer than anybody waits for it.
    """
    monkeypatch.setattr("tidegate.pacing.budget.FIRST_NS", 30 * 10**9)


def is_idle(pacer: Pacer) -> bool:
    """
    Whether nobody has a place in any queue.
    """
    return all(budget.is_idle for budget in pacer._budgets.values())


@pytest.mark.usefixtures("_patient")
def test_threads_share_one_budget(limited: LimitedServer) -> None:
    """
    Thirty requests take two seconds, and none is refused.
    """
    adapter = PacedAdapter()
    with requests.Session() as session, ThreadPoolExecutor(6) as threads:
        session.mount("http://", adapter)
        begin = threading.Event()

        def batch() -> list[int]:
            begin.wait()
            return [session.get(limited.url).status_code for _ in range(5)]

        batches = [threads.submit(batch) for _ in range(6)]
        begin.set()
        statuses = [status for done in batches for status in done.result()]

    assert [200] * 30 == statuses
    assert 0 == limited.statuses[429]
    assert is_idle(adapter.pacer)


@pytest.mark.usefixtures("_patient")
async def test_tasks_share_one_budget(limited: LimitedServer) -> None:
    """
    All of them at once, in somewhat more than the two seconds that it must take.
    """
    transport, loop = AsyncPacedTransport(), asyncio.get_running_loop()
    async with httpx.AsyncClient(transport=transport) as client:
        begin = loop.time()
        responses = await asyncio.gather(*(client.get(limited.url, timeout=30) for _ in range(30)))
        took = loop.time() - begin

    assert [200] * 30 == [response.status_code for response in responses]
    assert 0 == limited.statuses[429]
    assert 1.9 < took < 20
    assert is_idle(transport.pacer)


@pytest.mark.usefixtures("_patient")
async def test_clients_that_block_and_clients_that_await_share_a_pacer(limited: LimitedServer) -> None:
    """
    In any number of threads and loops.
    """
    pacer = Pacer()

    def batch() -> list[int]:
        with httpx.Client(transport=PacedTransport(pacer=pacer)) as client:
            return [client.get(limited.url, timeout=30).status_code for _ in range(8)]

    async with httpx.AsyncClient(transport=AsyncPacedTransport(pacer=pacer)) as client:
        blocking = asyncio.create_task(asyncio.to_thread(batch))
        responses = await asyncio.gather(*(client.get(limited.url, timeout=30) for _ in range(8)))
        statuses = await blocking

    assert [200] * 8 == statuses
    assert [200] * 8 == [response.status_code for response in responses]
    assert 0 == limited.statuses[429]
    assert is_idle(pacer)


async def test_a_wait_does_not_block_the_loop() -> None:
    """
    Other tasks run meanwhile.
    """
    with LimitedServer(in_turn(Answer(fields={"RateLimit": '"a";r=0;t=3'}))) as server:
        async with httpx.AsyncClient(transport=AsyncPacedTransport()) as client:
            await client.get(server.url)
            waiting = asyncio.create_task(client.get(server.url))
            turns = 0
            while not waiting.done():
                turns += 1
                await asyncio.wait([waiting], timeout=0.01)

    assert 200 == (await waiting).status_code
    assert turns > 10


async def test_a_cancelled_wait_gives_its_place_back() -> None:
    """
    The next in the queue moves up.
    """
    transport = AsyncPacedTransport()
    with LimitedServer(in_turn(EMPTY)) as server:
        async with httpx.AsyncClient(transport=transport) as client:
            await client.get(server.url)
            waiting = [asyncio.create_task(client.get(server.url)) for _ in range(3)]
            await asyncio.wait(waiting, timeout=0.05)
            assert 3 == sum(budget.crowd for budget in transport.pacer._budgets.values())

            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)

    assert all(task.cancelled() for task in waiting)
    assert is_idle(transport.pacer)
    assert 1 == len(server.asked)


async def test_a_request_that_is_cancelled_under_way_gives_its_place_back(eventually: Eventually) -> None:
    """
    Also the first one, for whose answer others wait.
    """
    is_asked, go_on = threading.Event(), threading.Event()

    def decide(_: object) -> Answer:
        is_asked.set()
        go_on.wait(30)
        return Answer()

    transport = AsyncPacedTransport()
    with LimitedServer(decide) as server:
        async with httpx.AsyncClient(transport=transport) as client:
            first = asyncio.create_task(client.get(server.url))
            assert await asyncio.to_thread(is_asked.wait, 30)
            first.cancel()
            await asyncio.wait([first])
            assert is_idle(transport.pacer)

            go_on.set()
            assert 200 == (await client.get(server.url)).status_code


def test_an_error_of_the_connection_is_passed_on() -> None:
    """
    It is no answer, so there is nothing to retry by.
    """
    with LimitedServer(in_turn()) as server:
        url = server.url
    transport, adapter = PacedTransport(), PacedAdapter()
    with httpx.Client(transport=transport) as client, pytest.raises(httpx.ConnectError):
        client.get(url)
    with requests.Session() as session:
        session.mount("http://", adapter)
        with pytest.raises(requests.ConnectionError):
            session.get(url)

    assert is_idle(transport.pacer)
    assert is_idle(adapter.pacer)


# --- Processes --------------------------------------------------------------------------------------------------------------------------

PROGRAM = """
import sys

import httpx

from tidegate import _options
from tidegate.integrations.httpx import PacedTransport

_options.BUDGET = 5.0  # a busy machine must not turn this into a test of the fallback
url, store, quotas = sys.argv[1:]
options = {"quotas": quotas} if quotas else {}
with httpx.Client(transport=PacedTransport(store=store, max_wait=0.2, **options)) as client:
    responses = [client.get(url) for _ in range(15)]
print(sum(response.headers.get("Tidegate-Refused") == "wait" for response in responses))
"""


def run_two(url: str, store: str, quotas: str) -> int:
    """
    Two processes that want to send fifteen each.

    Returns:
        How many were refused before they were sent.
    """
    arguments = [sys.executable, "-c", textwrap.dedent(PROGRAM), url, store, quotas]
    both = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    return sum(int(process.communicate(timeout=50)[0]) for process in both)


def store_of(server: Single, name: str) -> str:
    """
    Counters of their own.
    """
    return f"{server.url()}?prefix=pacing-{name}:"


def test_processes_share_quotas_on_a_store(server: Single) -> None:
    """
    Exactly: twenty of thirty are sent, and ten are told to wait.
    """
    with LimitedServer(in_turn()) as limited:
        refused = run_two(limited.url, store_of(server, "given"), "20/hour")

    assert (20, 10) == (len(limited.asked), refused)


def test_processes_share_what_a_server_tells_of(server: Single) -> None:
    """
    From the first answer on that each of them gets.
    """
    policy = Answer(fields={"RateLimit-Policy": '"hourly";q=20;w=3600'})
    with LimitedServer(in_turn(then=policy)) as limited:
        refused = run_two(limited.url, store_of(server, "learned"), "")

    assert 20 <= len(limited.asked) <= 22
    assert 30 == len(limited.asked) + refused
