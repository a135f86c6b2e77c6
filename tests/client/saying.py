"""
A server that answers every request with the same bytes, whatever they are: everything that a service should not be.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

SILENCE = None
"""It reads, and says nothing."""


def response(body: bytes, status: str = "200 OK", fields: str = "") -> bytes:
    """
    A proper response.
    """
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{fields}\r\n".encode() + body


class Saying:
    """
    The server, on a free port, until the end of the `with` block.

    Args:
        answer: What it says to each request. `None` is nothing at all, and an empty text closes the connection.
        pieces: The answer is sent in pieces of so many bytes.
        is_closing: Whether it closes the connection after each answer.
    """

    def __init__(self, answer: bytes | None, *, pieces: int = 1 << 20, is_closing: bool = False) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self.connections = 0
        self._pieces = pieces
        self._is_closing = is_closing
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        """
        Its address.
        """
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def hang_up(self) -> None:
        """
        Closes all connections that there are.
        """
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        # A thread that waits in accept is not woken by closing the socket, but by somebody who comes.
        listener, self._listener = self._listener, socket.socket()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        listener.close()
        self._listener.close()
        self.hang_up()
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        listener = self._listener
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self.connections += 1
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            while (request := self._read(connection)) is not None:
                self.requests.append(request)
                if self.answer is None:
                    continue
                for start in range(0, len(self.answer), self._pieces):
                    connection.sendall(self.answer[start : start + self._pieces])
                if self._is_closing or not self.answer:
                    connection.shutdown(socket.SHUT_RDWR)
                    return

    @staticmethod
    def _read(connection: socket.socket) -> bytes | None:
        data = b""
        while b"\r\n\r\n" not in data:
            if not (more := connection.recv(65_536)):
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = next((int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), 0)
        while len(body) < length:
            if not (more := connection.recv(65_536)):
                return None
            body += more
        return head + b"\r\n\r\n" + body
