"""
One request and its response: one implementation for callers that block and for callers that await.

`steps` is the implementation. It yields what it has to wait for; `run` and `run_async` only wait, each in its own way, and neither longer
than until the deadline.
"""

from __future__ import annotations

import select
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tidegate._sleep import now_ns
from tidegate.client.away import Away
from tidegate.client.message import ResponseReader
from tidegate.client.pool import WOULD_BLOCK, Connection, Pool, is_would_block

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Generator

    Steps: TypeAlias = Generator["Readiness | Future[Connection]", Any, ResponseReader]

Readiness: TypeAlias = "tuple[socket.socket, Literal['read', 'write']]"
"""A socket, and what it is to be ready for."""

_READ_BYTES = 65_536
_SECOND = 1_000_000_000


def run(pool: Pool, request: bytes, deadline_ns: int) -> ResponseReader:
    """
    Sends a request, and waits for its response.

    Args:
        pool: Where connections are from.
        request: The request.
        deadline_ns: When it has to be over, by `now_ns`.

    Returns:
        The response.

    Raises:
        Away: There is none.
    """
    with closing(steps(pool, request)) as script:
        answer: Connection | None = None
        try:
            while True:
                step = script.send(answer)
                left_ns = deadline_ns - now_ns()
                if left_ns <= 0:
                    raise _late()
                answer = None
                if isinstance(step, Future):
                    answer = _connection(step, left_ns)
                else:
                    _ready(step, left_ns)
        except StopIteration as end:
            response: ResponseReader = end.value
            return response


async def run_async(pool: Pool, request: bytes, deadline_ns: int) -> ResponseReader:
    """
    As `run`, while other tasks run.
    """
    import asyncio  # noqa: PLC0415  # programs that block never need it, and it takes long to import

    loop = asyncio.get_running_loop()
    with closing(steps(pool, request)) as script:
        answer: Connection | None = None
        try:
            async with asyncio.timeout((deadline_ns - now_ns()) / _SECOND):
                while True:
                    step = script.send(answer)
                    answer = None
                    if isinstance(step, Future):
                        answer = await asyncio.wrap_future(step)
                    else:
                        await _ready_async(loop, step)
        except StopIteration as end:
            response: ResponseReader = end.value
            return response
        except TimeoutError:
            raise _late() from None


def steps(pool: Pool, request: bytes) -> Steps:
    """
    Sends a request on a connection of the pool, and reads its response.

    A connection that was used before may have been closed by the other side at this very moment; if nothing at all comes back on it, the
    request is sent once more on another one. Should it have been counted although the answer was lost, then it counts twice: that is
    the side to err on.

    Closing it early, as a cancelled task does, ends the connection: an answer that comes later would be taken for that of another request.

    Args:
        pool: Where connections are from.
        request: The request.

    Yields:
        What to wait for.

    Returns:
        The response.

    Raises:
        Away: There is none.
    """
    while True:
        connection: Connection = yield from _take(pool)
        response = ResponseReader()
        try:
            yield from _send(connection.stream, request)
            yield from _receive(connection.stream, response)
        except (Away, OSError) as error:
            pool.drop(connection)
            is_lost = not response.has_begun and not (isinstance(error, Away) and error.reason == "service_timeout")
            if is_lost and connection.is_used:
                continue
            if isinstance(error, Away):
                raise
            raise Away("service_unavailable", f"the connection to the service broke: {error.strerror or type(error).__name__}") from None
        except BaseException:
            pool.drop(connection)
            raise
        if response.is_last:
            pool.drop(connection)
        else:
            pool.give(connection)
        return response


def _take(pool: Pool) -> Generator[Future[Connection], Any, Connection]:
    taken = pool.take()
    if isinstance(taken, Connection):
        return taken
    try:
        connection: Connection = yield taken
    except BaseException:
        pool.forget(taken)
        raise
    return connection


def _send(stream: socket.socket, request: bytes) -> Generator[Readiness]:
    rest = memoryview(request)
    while rest:
        try:
            rest = rest[stream.send(rest) :]
        except WOULD_BLOCK:
            yield stream, "write"
        except OSError as error:
            if not is_would_block(error):
                raise
            yield stream, "read" if type(error).__name__ == "SSLWantReadError" else "write"


def _receive(stream: socket.socket, response: ResponseReader) -> Generator[Readiness]:
    # The answer is never there yet: asking for it first would be in vain.
    yield stream, "read"
    while not response.is_done:
        try:
            response.feed(stream.recv(_READ_BYTES))
        except WOULD_BLOCK:
            yield stream, "read"
        except OSError as error:
            if not is_would_block(error):
                raise
            yield stream, "read" if type(error).__name__ == "SSLWantReadError" else "write"


def _connection(waiter: Future[Connection], left_ns: int) -> Connection:
    try:
        return waiter.result(left_ns / _SECOND)
    except FutureTimeoutError:
        raise _late() from None


def _ready(step: Readiness, left_ns: int) -> None:
    stream, direction = step
    poll = select.poll()
    poll.register(stream, select.POLLIN if direction == "read" else select.POLLOUT)
    # Whole milliseconds, rounded up: a wait of zero would be none.
    if not poll.poll(-(-left_ns // 1_000_000)):
        raise _late()


async def _ready_async(loop: asyncio.AbstractEventLoop, step: Readiness) -> None:
    stream, direction = step
    is_ready = loop.create_future()
    watch, forget = (loop.add_reader, loop.remove_reader) if direction == "read" else (loop.add_writer, loop.remove_writer)
    number = stream.fileno()
    watch(number, _set, is_ready)
    try:
        await is_ready
    finally:
        forget(number)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _late() -> Away:
    return Away("service_timeout", "the service did not answer within the budget")
