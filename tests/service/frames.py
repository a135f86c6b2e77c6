"""
HTTP/2 by hand: what no well-behaved client would send.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
REFUSED_STREAM, ENHANCE_YOUR_CALM = 7, 11


@dataclass(frozen=True)
class Frame:
    """
    One frame.
    """

    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def error(self) -> int:
        """
        The error of `RST_STREAM` and `GOAWAY`.
        """
        return int(struct.unpack(">I", self.payload[-4:] if self.kind == RST_STREAM else self.payload[4:8])[0])


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """
    A frame as it is sent.
    """
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def fields(pairs: dict[str, str]) -> bytes:
    """
    Header fields in the longest form there is, which needs no table.
    """
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in pairs.items())


def _text(text: str) -> bytes:
    length = len(text)
    if length < 127:  # seven bits
        return bytes([length]) + text.encode()
    rest, sent = length - 127, bytearray([127])
    while rest >= 128:  # and seven more each
        sent.append(rest % 128 + 128)
        rest //= 128
    return bytes([*sent, rest]) + text.encode()


def get(path: str) -> bytes:
    """
    The header fields of a GET.
    """
    return fields({":method": "GET", ":scheme": "http", ":path": path, ":authority": "test"})


def post(path: str) -> bytes:
    """
    The header fields of a POST of JSON.
    """
    told = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "test", "content-type": "application/json"}
    return fields(told)


@dataclass
class Connection:
    """
    A connection that has said its preface.

    Args:
        address: Such as `127.0.0.1:8080`.
    """

    address: str
    _socket: socket.socket = field(init=False)
    _read: bytearray = field(init=False, default_factory=bytearray)

    def __post_init__(self) -> None:
        host, _, port = self.address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self.send(PREFACE + frame(SETTINGS, 0, 0))

    def send(self, sent: bytes) -> bool:
        """
        Sends. Answers whether the other side is still there.
        """
        try:
            self._socket.sendall(sent)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def frames(self) -> Iterator[Frame]:
        """
        What comes, until the other side ends the connection.
        """
        while True:
            while len(self._read) >= 9:  # the head of a frame
                length = int.from_bytes(self._read[:3])
                if len(self._read) < 9 + length:
                    break
                kind, flags = self._read[3], self._read[4]
                stream = int.from_bytes(self._read[5:9])
                payload = bytes(self._read[9 : 9 + length])
                del self._read[: 9 + length]
                if kind == SETTINGS and not flags & ACK:
                    self.send(frame(SETTINGS, ACK, 0))
                yield Frame(kind, flags, stream, payload)
            try:
                read = self._socket.recv(65_536)
            except ConnectionResetError:
                return
            if not read:
                return
            self._read += read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._socket.close()
