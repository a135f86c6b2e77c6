"""
The thread in which proxies and fake servers live, beside whatever loop a test has.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import TYPE_CHECKING, TypeVar

from .ports import free_port

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Coroutine

Result = TypeVar("Result")


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="tests.servers", daemon=True).start()
    return loop


def run(work: Coroutine[None, None, Result]) -> Result:
    """
    Runs a coroutine there, and waits for its result.
    """
    return asyncio.run_coroutine_threadsafe(work, _loop()).result(timeout=10)


class Listener:
    """
    A port on loopback that can be closed and opened again, and its connections.

    Args:
        serve: What to do with a connection. It is closed afterwards, whatever happens.
        tls: Who answers must first shake hands.
    """

    def __init__(self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], tls: ssl.SSLContext | None) -> None:
        self._serve = serve
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.accepted = 0

    async def open(self) -> None:
        """
        Accepts connections, always on the same port.
        """
        while self._server is None:
            port = self.port or free_port()
            try:
                self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, ssl=self._tls)
            except OSError:
                if self.port:
                    raise
            else:
                self.port = port

    async def refuse(self) -> None:
        """
        Refuses new connections. Existing ones stay.
        """
        if self._server:
            self._server.close()
            self._server = None

    async def close(self) -> None:
        """
        Refuses new connections, and closes existing ones.
        """
        await self.refuse()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # the end of a connection, which the other side sees as well
        finally:
            self._tasks.discard(task)
            writer.close()
