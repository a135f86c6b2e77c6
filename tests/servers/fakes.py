"""
Servers that are none: what one reaches with a wrong address, and refusals that real servers give only in bad hours.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Self

from .background import Listener, run

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

KINDS = ("garbage", "memcached", "http", "closing", "silent", "refusing")
HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"


class Fake:
    """
    One such server.

    Args:
        kind: `garbage` answers random bytes, `memcached` and `http` what those answer to a Redis client, `closing` closes at once,
            `silent` never answers, `refusing` answers every command with an error.
        error: What the refusing one says, such as `LOADING the dataset is being loaded`.
        seed: Of the garbage.
    """

    def __init__(self, kind: str, *, error: str = "ERR no", seed: int = 0) -> None:
        if kind not in KINDS:
            raise ValueError(f"unknown kind {kind!r}: one of {', '.join(KINDS)}")
        self._kind = kind
        self._error = f"-{error}\r\n".encode()
        self._random = random.Random(seed)
        self._listener = Listener(self._serve, tls=None)
        run(self._listener.open())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def port(self) -> int:
        """
        Where it listens.
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
        Its address, as if it were a server.
        """
        return f"redis://127.0.0.1:{self.port}"

    def close(self) -> None:
        """
        Ends it.
        """
        run(self._listener.close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._kind == "closing":
            return
        commands = Commands()
        while data := await reader.read(65_536):
            match self._kind:
                case "garbage":
                    writer.write(b"\xff" + self._random.randbytes(63))  # no reply starts so, by whatever chance
                case "memcached":
                    writer.write(b"ERROR\r\n" * data.count(b"\n"))
                case "http":
                    writer.write(HTTP)
                    return
                case "refusing":
                    writer.write(self._error * sum(1 for _ in commands.feed(data)))
                case _:
                    pass
            await writer.drain()


class Commands:
    """
    Finds the ends of commands in a stream of them.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[list[bytes]]:
        """
        The commands that are complete now.
        """
        self._rest += data
        while (end := self._end()) is not None:
            command, self._rest = self._rest[:end], self._rest[end:]
            yield command.split(b"\r\n")[2::2]

    def _end(self) -> int | None:
        at = self._rest.find(b"\r\n")
        if at < 0:
            return None
        words = int(self._rest[1:at])
        at += 2
        for _ in range(words):
            line = self._rest.find(b"\r\n", at)
            if line < 0:
                return None
            at = line + 2 + int(self._rest[at + 1 : line]) + 2
        return at if at <= len(self._rest) else None
