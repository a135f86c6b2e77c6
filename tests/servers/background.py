"""
The thread in which proxies and fake servers live, beside whatever loop a test has.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
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
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.accepted = 0

    async def open(self) -> None:
        """
        Accepts connections, always on the same port.
        """
        # Not by a server of asyncio: one that is closed while it accepts a connection forgets to close that.
        while self._listener is None:
            port = self.port or free_port()
            try:
                self._listener = socket.create_server(("127.0.0.1", port))
            except OSError:
                if self.port:
                    raise
            else:
                self.port = port
                self._listener.settimeout(0)
                asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)

    async def refuse(self) -> None:
        """
        Refuses new connections. Existing ones stay.
        """
        if self._listener:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    async def close(self) -> None:
        """
        Refuses new connections, and closes existing ones.
        """
        await self.refuse()
        # Everybody who was accepted has begun after that, and closes its connection when it is cancelled.
        await asyncio.sleep(0)  # noqa: TID251 - no time passes
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # it has gone again
        task = asyncio.ensure_future(self._talk(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _talk(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        connection.settimeout(0)
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        with contextlib.suppress(OSError, asyncio.CancelledError):  # the end of a connection, which the other side sees as well
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, ssl=self._tls)
            writer = asyncio.StreamWriter(transport, protocol, reader, loop)
            try:
                # Not before: whoever counts a connection must find it, to end it.
                self.accepted += 1
                await self._serve(reader, writer)
            finally:
                writer.close()
