"""
A network that misbehaves: a proxy in front of a server, told at run time what to do.

It delays and holds back bytes and ends connections; it never loses bytes of a connection that goes on, because TCP does not either.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from .background import Listener, run

if TYPE_CHECKING:
    import ssl

CHUNK = 65_536
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time to linger: closing sends RST."""


@dataclass
class Direction:
    """
    What happens to the bytes that flow one way, in all connections.
    """

    delay_s: float = 0.0
    is_open: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.is_open.set()


class Proxy:
    """
    Forwards connections to a server, until it is told otherwise.

    Args:
        upstream: The port of the server.
        tls: Makes it the TLS of a server that has none.
    """

    def __init__(self, upstream: int, *, tls: ssl.SSLContext | None = None) -> None:
        self._upstream = upstream
        self._requests = Direction()
        self._replies = Direction()
        self._writers: set[asyncio.StreamWriter] = set()
        self._listener = Listener(self._serve, tls)
        run(self._listener.open())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def port(self) -> int:
        """
        Where it listens. It stays the same.
        """
        return self._listener.port

    @property
    def accepted(self) -> int:
        """
        How many connections it has accepted.
        """
        return self._listener.accepted

    @property
    def url(self) -> str:
        """
        The address, for a server without TLS and password.
        """
        return f"redis://127.0.0.1:{self.port}"

    def pass_through(self) -> None:
        """
        Ends every fault. What was held back arrives now.
        """
        run(self._set(requests=True, replies=True))
        self.delay()
        run(self._listener.open())

    def delay(self, *, requests_ms: float = 0, replies_ms: float = 0) -> None:
        """
        Makes what arrives from now on travel so long.
        """
        self._requests.delay_s = requests_ms / 1000
        self._replies.delay_s = replies_ms / 1000

    def black_hole(self) -> None:
        """
        Requests arrive and are executed; replies are held back.
        """
        run(self._set(requests=True, replies=False))

    def silence(self) -> None:
        """
        Connections are accepted, and nothing arrives anywhere.
        """
        run(self._set(requests=False, replies=False))

    def reset(self) -> None:
        """
        Ends all connections by RST. New ones are accepted.
        """
        run(self._reset())

    def refuse(self) -> None:
        """
        Ends all connections by RST, and refuses new ones.
        """
        run(self._listener.refuse())
        self.reset()

    def close(self) -> None:
        """
        Ends it.
        """
        run(self._listener.close())

    async def _set(self, *, requests: bool, replies: bool) -> None:
        for direction, is_open in ((self._requests, requests), (self._replies, replies)):
            if is_open:
                direction.is_open.set()
            else:
                direction.is_open.clear()

    async def _reset(self) -> None:
        for writer in self._writers:
            with contextlib.suppress(OSError):  # it has ended by itself
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        server: asyncio.StreamWriter | None = None
        try:
            answers, server = await asyncio.open_connection("127.0.0.1", self._upstream)
            ways = {
                asyncio.ensure_future(_forward(reader, server, self._requests)),
                asyncio.ensure_future(_forward(answers, writer, self._replies)),
            }
            # One side that closes ends both, as a server does with its connection.
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            self._writers.discard(writer)
            if server is not None:
                server.close()


async def _forward(source: asyncio.StreamReader, sink: asyncio.StreamWriter, direction: Direction) -> None:
    loop = asyncio.get_running_loop()
    travelling: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def deliver() -> None:
        while True:
            due, data = await travelling.get()
            if (left := due - loop.time()) > 0:
                await asyncio.sleep(left)  # noqa: TID251 - this delay is the fault
            await direction.is_open.wait()
            if not data:
                return
            sink.write(data)
            await sink.drain()

    delivery = asyncio.ensure_future(deliver())
    try:
        while data := await source.read(CHUNK):
            travelling.put_nowait((loop.time() + direction.delay_s, data))
        travelling.put_nowait((loop.time() + direction.delay_s, b""))
        await delivery
    finally:
        delivery.cancel()
        await asyncio.gather(delivery, return_exceptions=True)
