"""
A client of one command at a time, with which the harness looks at its servers.

redis-py would do, but takes longer to import than a server takes to start.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

if TYPE_CHECKING:
    import ssl

Reply: TypeAlias = "int | bytes | str | list[Reply] | None"
"""A status is a `str`, a bulk string is `bytes`."""
Argument: TypeAlias = str | bytes | int


class ServerError(Exception):
    """
    The server answered with an error.
    """


@dataclass(frozen=True)
class Login:
    """
    Who one is to a server.
    """

    password: str
    user: str | None = None

    def command(self) -> tuple[str, ...]:
        """
        The command that logs in.
        """
        return ("AUTH", self.user, self.password) if self.user else ("AUTH", self.password)


class Connection:
    """
    One connection, closed by its `with` block.
    """

    def __init__(self, port: int, *, login: Login | None = None, tls: ssl.SSLContext | None = None, timeout: float = 5.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        try:
            if tls:
                self._socket = tls.wrap_socket(self._socket, server_hostname="localhost")
            self._input = self._socket.makefile("rb")
            if login:
                self.call(*login.command())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """
        Closes it.
        """
        if hasattr(self, "_input"):
            self._input.close()
        self._socket.close()

    def call(self, *arguments: Argument) -> Reply:
        """
        Sends a command and waits for its reply.

        Raises:
            ServerError: It was answered with an error.
            OSError: It was not answered.
        """
        words = [word if isinstance(word, bytes) else str(word).encode() for word in arguments]
        self._socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))
        return self._read()

    def _read(self) -> Reply:
        line = self._input.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        match kind:
            case b"+":
                return rest.decode()
            case b"-":
                raise ServerError(rest.decode())
            case b":":
                return int(rest)
            case b"$":
                return None if rest == b"-1" else self._input.read(int(rest) + 2)[:-2]
            case b"*":
                return None if rest == b"-1" else [self._read() for _ in range(int(rest))]
            case _:
                raise ServerError(f"not an answer: {line!r}")
