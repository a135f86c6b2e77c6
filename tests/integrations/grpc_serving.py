"""
A gRPC server with a method of every kind, in both kinds of servers. Messages are plain bytes.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc

from tidegate.integrations.grpc import AsyncRateLimit, RateLimit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tidegate.integrations._guard import Guard

METHODS = {"uu": "unary_unary", "us": "unary_stream", "su": "stream_unary", "ss": "stream_stream"}


class Blocking:
    """
    The methods of a server with threads.
    """

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def uu(self, request: bytes, context: Any) -> bytes:  # noqa: ANN401  # as grpcio has it
        """
        Answers what it is asked for: itself, an error, its own metadata.
        """
        if request == b"raise":
            raise ZeroDivisionError
        if request == b"abort":
            context.abort(grpc.StatusCode.NOT_FOUND, "nothing here")
        if request == b"metadata":
            context.set_trailing_metadata((("mine", "1"),))
        return request

    def us(self, request: bytes, context: Any) -> Iterator[bytes]:  # noqa: ANN401  # as above
        """
        Three answers; or one, and the next when it may go on.
        """
        yield request
        if request == b"endless":
            while context.is_active() and not self.go_on.wait(0.001):
                yield request
        yield request
        yield request

    def su(self, requests: Iterator[bytes], context: Any) -> bytes:  # noqa: ANN401  # as above
        """
        All requests in one answer.
        """
        return b"".join(requests)

    def ss(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:  # noqa: ANN401  # as above
        """
        An answer for each request.
        """
        yield from requests


class Async:
    """
    The same for a server with an event loop.
    """

    async def uu(self, request: bytes, context: Any) -> bytes:  # noqa: ANN401  # as above
        """
        As `Blocking.uu`.
        """
        if request == b"raise":
            raise ZeroDivisionError
        if request == b"abort":
            await context.abort(grpc.StatusCode.NOT_FOUND, "nothing here")
        if request == b"metadata":
            context.set_trailing_metadata((("mine", "1"),))
        return request

    async def us(self, request: bytes, context: Any) -> AsyncIterator[bytes]:  # noqa: ANN401  # as above
        """
        As `Blocking.us`.
        """
        yield request
        if request == b"endless":
            await asyncio.Event().wait()
        yield request
        yield request

    async def su(self, requests: AsyncIterator[bytes], context: Any) -> bytes:  # noqa: ANN401  # as above
        """
        As `Blocking.su`.
        """
        return b"".join([request async for request in requests])

    async def ss(self, requests: AsyncIterator[bytes], context: Any) -> None:  # noqa: ANN401  # as above
        """
        As `Blocking.ss`, in the other way to write it.
        """
        async for request in requests:
            await context.write(request)


def handlers(methods: object) -> list[grpc.GenericRpcHandler]:
    """
    The methods as two services: one to be limited, and the health of servers.
    """
    made = {name: getattr(grpc, f"{kind}_rpc_method_handler")(getattr(methods, name)) for name, kind in METHODS.items()}
    health = {"Check": made["uu"]}
    return [
        grpc.method_handlers_generic_handler("shop.Orders", made),
        grpc.method_handlers_generic_handler("grpc.health.v1.Health", health),
    ]


@contextmanager
def blocking(*quotas: Any, **options: Any) -> Iterator[tuple[str, Guard]]:  # noqa: ANN401  # as `RateLimit`
    """
    A server with threads: its address, and its guard.
    """
    interceptor = RateLimit(*quotas, **options)
    with ThreadPoolExecutor(8) as pool:
        server = grpc.server(pool, handlers=handlers(Blocking()), interceptors=[interceptor])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}", interceptor.guard
        finally:
            server.stop(None).wait(20)
            interceptor.close()


@contextmanager
def awaiting(*quotas: Any, **options: Any) -> Iterator[tuple[str, Guard]]:  # noqa: ANN401  # as `AsyncRateLimit`
    """
    A server with an event loop of its own.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    interceptor = AsyncRateLimit(*quotas, **options)

    async def start() -> tuple[Any, int]:
        server = grpc.aio.server(handlers=handlers(Async()), interceptors=[interceptor])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return server, port

    server, port = asyncio.run_coroutine_threadsafe(start(), loop).result(20)
    try:
        yield f"127.0.0.1:{port}", interceptor.guard
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(None), loop).result(20)
        asyncio.run_coroutine_threadsafe(loop.shutdown_default_executor(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()
        interceptor.close()
