"""
Slots of `concurrent` quotas before ASGI applications: held until the response has ended, and never longer.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from tidegate.integrations.asgi import RateLimit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.requests import Request
    from starlette.responses import Response

    from tests.conftest import Eventually
    from tests.integrations.serving import Served
    from tests.servers import Single
else:
    from serving import Served


class Gates:
    """
    Endpoints that wait until the test lets them go on.
    """

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.task_done = threading.Event()

    async def passed(self) -> None:
        """
        Waits, while the loop runs.
        """
        self.entered.set()
        await asyncio.to_thread(self.open.wait, 20)

    async def slow(self, _request: Request) -> Response:
        """
        Answers when it may.
        """
        await self.passed()
        return PlainTextResponse("slow")

    async def streaming(self, _request: Request) -> Response:
        """
        Sends a part at once, and the rest when it may.
        """

        async def parts() -> AsyncIterator[bytes]:
            yield b"first"
            await self.passed()
            yield b"last"

        return StreamingResponse(parts())

    async def endless(self, _request: Request) -> Response:
        """
        Sends until the client is gone.
        """

        async def parts() -> AsyncIterator[bytes]:
            while True:
                self.entered.set()
                yield b"x" * 1000
                await asyncio.sleep(0.001)  # noqa: TID251  # a stream with a pause

        return StreamingResponse(parts())

    async def with_task(self, _request: Request) -> Response:
        """
        Answers, and then works on.
        """

        async def work() -> None:
            await self.passed()
            self.task_done.set()

        return PlainTextResponse("done", background=BackgroundTask(work))

    async def late_failure(self, _request: Request) -> Response:
        """
        Fails in the middle of its response.
        """

        async def parts() -> AsyncIterator[bytes]:
            yield b"first"
            raise ValueError("broken")

        return StreamingResponse(parts())

    async def failure(self, _request: Request) -> Response:
        """
        Fails before its response.
        """
        raise ValueError("broken")

    async def quick(self, _request: Request) -> Response:
        """
        Answers at once.
        """
        return PlainTextResponse("quick")

    def app(self) -> Starlette:
        """
        All of them, each under its name.
        """
        names = ("slow", "streaming", "endless", "with_task", "late_failure", "failure", "quick")
        return Starlette(routes=[Route(f"/{name}", getattr(self, name)) for name in names])


@pytest.fixture
def gates() -> Iterator[Gates]:
    """
    Endpoints of one test; whatever still waits in the end is let go.
    """
    gates = Gates()
    yield gates
    gates.open.set()


@pytest.fixture(params=["memory", "shared"])
def store(request: pytest.FixtureRequest) -> str:
    """
    Where slots are counted.
    """
    if request.param == "memory":
        return "memory://"
    server: Single = request.getfixturevalue("server")
    return server.url()


def limited(gates: Gates, store: str, quota: str = "1 concurrent") -> RateLimit:
    """
    The endpoints, one request at a time; each test with counters of its own.
    """
    return RateLimit(gates.app(), quota, store=store, name=f"test-{id(gates)}", budget=20.0)


def begin(served: Served, path: str) -> http.client.HTTPConnection:
    """
    A request whose answer is not waited for.
    """
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    connection.request("GET", path)
    return connection


@pytest.mark.parametrize("path", ["/slow", "/streaming"])
def test_a_slot_is_held_until_the_response_has_ended(gates: Gates, store: str, path: str, eventually: Eventually) -> None:
    """Meanwhile others are denied, and afterwards they are not."""
    app = limited(gates, store)
    with Served(app) as served:
        connection = begin(served, path)
        assert gates.entered.wait(20)
        assert (1, 429) == (app.guard.held, served.ask("/quick").status)
        gates.open.set()
        assert 200 == connection.getresponse().status
        connection.close()
        eventually(lambda: served.ask("/quick").status == 200)

    assert 0 == app.guard.held


def test_who_has_its_answer_can_ask_again_at_once(gates: Gates, store: str) -> None:
    """The slot is free before the last byte is out: one after the other, nobody is ever denied."""
    with Served(limited(gates, store)) as served:
        assert {200} == {served.ask("/quick").status for _ in range(30)}


@pytest.mark.parametrize("path", ["/failure", "/late_failure"])
def test_a_failing_endpoint_gives_its_slot_back(gates: Gates, store: str, path: str, eventually: Eventually) -> None:
    """Before its response and in the middle of it."""
    app = limited(gates, store)
    with Served(app) as served:
        for _ in range(3):
            try:
                answered = served.ask(path).status
            except http.client.HTTPException:
                answered = 0  # cut in the middle
            assert answered in {0, 200, 500}
            eventually(lambda: app.guard.held == 0)
        assert 200 == served.ask("/quick").status


def test_a_client_that_goes_away_gives_its_slot_back(gates: Gates, store: str, eventually: Eventually) -> None:
    """By a reset in the middle of a stream."""
    app = limited(gates, store)
    with Served(app) as served:
        connection = begin(served, "/endless")
        assert gates.entered.wait(20)
        connection.getresponse().read(10)
        assert 429 == served.ask("/quick").status
        assert connection.sock is None or connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0") is None
        connection.close()
        eventually(lambda: app.guard.held == 0)
        eventually(lambda: served.ask("/quick").status == 200)


def test_background_tasks_hold_no_slot(gates: Gates, store: str) -> None:
    """The response has ended when they begin."""
    with Served(limited(gates, store)) as served:
        assert 200 == served.ask("/with_task").status
        assert gates.entered.wait(20)
        assert (200, False) == (served.ask("/quick").status, gates.task_done.is_set())
        gates.open.set()
        assert gates.task_done.wait(20)


def test_a_slot_outlives_its_lease_while_the_response_runs(gates: Gates, store: str) -> None:
    """It is renewed in the background, several times here."""
    # Two thirds of it are left when it is renewed, which is more than a busy machine stands still.
    app = limited(gates, store, "1 concurrent ttl 2s")
    with Served(app) as served:
        connection = begin(served, "/slow")
        assert gates.entered.wait(20)
        ends = threading.Event()
        timer = threading.Timer(4.5, ends.set)
        timer.start()
        while not ends.is_set():
            assert 429 == served.ask("/quick").status
        gates.open.set()
        assert 200 == connection.getresponse().status
        connection.close()


async def test_a_cancelled_request_gives_its_slot_back(store: str, gates: Gates) -> None:
    """At whatever moment the server cancels it, also while the store is asked."""

    async def forever(_scope: Any, _receive: Any, _send: Any) -> None:  # noqa: ANN401  # as ASGI has them
        await asyncio.Event().wait()

    async def nothing(*_: Any) -> Any:  # noqa: ANN401  # as ASGI has them
        raise AssertionError("nobody listens or answers")

    app = RateLimit(forever, "1 concurrent", store=store, name=f"cancel-{id(gates)}", budget=20.0)
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": ("192.0.2.1", 1)}
    for turns in (0, 1, 2, 5):
        task = asyncio.create_task(app(dict(scope), nothing, nothing))
        for _ in range(turns):
            await asyncio.sleep(0)  # noqa: TID251  # one turn of the loop
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with asyncio.timeout(20):
        # A thread gives it back.
        while (await app.guard.limiter.check_async({"ip": "192.0.2.1"}, 0)).remaining != 1:  # noqa: ASYNC110  # nobody tells when
            await asyncio.sleep(0.001)  # noqa: TID251  # as above

    assert 0 == app.guard.held
    app.guard.close()
