"""
A server behind a proxy that notes every byte, and understands as little of HTTP as possible.

    with RawUpstream() as upstream:
        upstream.url        # http://127.0.0.1:41234
        upstream.heard      # all bytes of all connections

`GET /long/<bytes>` is answered by so many bytes, and the body of a request is counted, not kept.
"""

from __future__ import annotations

import re
import socket
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

BLOCK = b"x" * (1 << 20)
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: chunked\r\n", re.IGNORECASE)
_LONG = re.compile(rb"GET /long/(\d+) ")


class RawUpstream:
    """
    A server on threads of this process.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._lock = threading.Lock()
        self._heard: list[bytearray] = []
        self.received = 0
        """Bytes of bodies with a length."""

    @property
    def url(self) -> str:
        """
        Its address, as settings have it.
        """
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def heard(self) -> bytes:
        """
        The heads of all requests, and all bodies that have no length.
        """
        return b"|".join(self.connections)

    @property
    def connections(self) -> list[bytes]:
        """
        The same, by connections.
        """
        with self._lock:
            return [bytes(heard) for heard in self._heard]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        heard = bytearray()
        with self._lock:
            self._heard.append(heard)
        with connection:
            try:
                self._answer(connection, heard)
            except OSError:
                return

    def _answer(self, connection: socket.socket, heard: bytearray) -> None:
        rest = bytearray()
        while True:
            while (end := rest.find(b"\r\n\r\n")) < 0:
                if not (read := connection.recv(65_536)):
                    return
                heard += read
                rest += read
            head = bytes(rest[: end + 4])
            del rest[: end + 4]
            if _CHUNKED.search(head):
                while (end := rest.find(b"0\r\n\r\n")) < 0:
                    if not (read := connection.recv(65_536)):
                        return
                    heard += read
                    rest += read
                del rest[: end + 5]
            elif (said := _LENGTH.search(head)) is not None and not self._count(connection, rest, int(said[1])):
                return
            long = _LONG.match(head)
            size = int(long[1]) if long else 2
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
            for _ in range(size // len(BLOCK)):
                connection.sendall(BLOCK)
            connection.sendall(BLOCK[: size % len(BLOCK)])

    def _count(self, connection: socket.socket, rest: bytearray, length: int) -> bool:
        taken = min(length, len(rest))
        del rest[:taken]
        self.received += taken
        room = bytearray(len(BLOCK))
        while taken < length:
            if not (read := connection.recv_into(room, min(len(room), length - taken))):
                return False
            taken += read
            self.received += read
        return True

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
