"""
HTTP/1.1 as bytes: a request is written at once, and a response is read as it comes. No sockets here.

Only what a service, or a load balancer before it, answers to a small POST is understood; whatever else comes is garbage.
"""

from __future__ import annotations

import re

from tidegate.client.away import Away

HEAD_MAX = 16 * 1024
BODY_MAX = 1024 * 1024
"""The most bytes of a response; the usual one has 700."""

_LENGTH_DIGITS_MAX = 8
_CHUNK_DIGITS_MAX = 6
_NO_BODY = frozenset({204, 304})
_FINAL = 200
_STATUS = re.compile(r"HTTP/1\.([01]) ([0-9]{3})(?: .*)?")


def request_head(authority: str, token: str | None) -> str:
    """
    The lines of a request that are the same in all of them.

    Args:
        authority: Host and port.
        token: What the service wants to see, if anything.

    Returns:
        The lines, each with its end.
    """
    authorization = f"authorization: Bearer {token}\r\n" if token else ""
    return f"host: {authority}\r\nuser-agent: tidegate\r\naccept: application/json\r\n{authorization}"


class ResponseReader:
    """
    Reads one response.
    """

    __slots__ = ("_buffer", "_is_chunked", "_length", "body", "is_done", "is_last", "status")

    def __init__(self) -> None:
        self.status = 0
        self.body = b""
        self.is_done = False
        self.is_last = False
        """Whether the connection ends with it."""
        self._buffer = bytearray()
        self._is_chunked = False
        self._length: int | None = None

    @property
    def has_begun(self) -> bool:
        """Whether anything has come."""
        return self.status > 0 or bool(self._buffer)

    def feed(self, data: bytes) -> None:
        """
        Takes what has come; nothing is the end of the connection.

        Args:
            data: Bytes.

        Raises:
            Away: This is no response.
        """
        if not data:
            self._end()
            return
        self._buffer += data
        while self.status == 0:
            if not self._read_head():
                return
        if self._is_chunked:
            self._read_chunks()
        elif self._length is not None and len(self._buffer) >= self._length:
            # More than one response to one question is garbage that the next question would take for its answer.
            self.is_last |= len(self._buffer) > self._length
            self.body, self.is_done = bytes(self._buffer[: self._length]), True
        elif len(self._buffer) > BODY_MAX:
            raise _garbage("is too long")

    def _end(self) -> None:
        if self.status == 0 or self._is_chunked or self._length is not None:
            raise Away("service_unavailable", "the service closed the connection before it had answered")
        self.body, self.is_done, self.is_last = bytes(self._buffer), True, True

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or end > HEAD_MAX:
            if len(self._buffer) > HEAD_MAX or not self._buffer.startswith(b"HTTP/1."[: len(self._buffer)]):
                raise _garbage("has no head")
            return False
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        found = _STATUS.fullmatch(lines[0])
        if found is None:
            raise _garbage("has no status")
        status = int(found[2])
        # "Early hints" and the like: the response comes after it.
        if status < _FINAL:
            return True
        self.status = status
        self.is_last = found[1] == "0"
        for line in lines[1:]:
            name, separator, value = line.partition(":")
            if not separator:
                raise _garbage("has a field without a name")
            self._read_field(name.lower(), value.strip(" \t").lower())
        if status in _NO_BODY:
            self._is_chunked, self._length = False, 0
        return True

    def _read_field(self, name: str, value: str) -> None:
        if name == "content-length":
            length = int(value) if value.isascii() and value.isdigit() and len(value) <= _LENGTH_DIGITS_MAX else BODY_MAX + 1
            if length > BODY_MAX or self._length not in {None, length}:
                raise _garbage("has no possible length")
            self._length = length
        elif name == "transfer-encoding":
            if value != "chunked":
                raise _garbage("is encoded")
            self._is_chunked = True
        elif name == "connection":
            self.is_last |= "close" in value

    def _read_chunks(self) -> None:
        """
        Reads all chunks from their beginning when their end has come, which for answers of this size is nearly always at once.
        """
        if len(self._buffer) > 2 * BODY_MAX:
            raise _garbage("is too long")
        pieces: list[bytes] = []
        position = 0
        while (end := self._buffer.find(b"\r\n", position)) >= 0:
            digits = self._buffer[position:end].partition(b";")[0].strip()
            if not 0 < len(digits) <= _CHUNK_DIGITS_MAX or not all(digit in b"0123456789abcdefABCDEF" for digit in digits):
                raise _garbage("has a chunk without a length")
            length, start = int(digits, 16), end + 2
            if length == 0:
                if self._buffer.startswith(b"\r\n", start) or self._buffer.find(b"\r\n\r\n", start) >= 0:
                    self.body, self.is_done = b"".join(pieces), True
                return
            if len(self._buffer) < start + length + 2:
                return
            pieces.append(bytes(self._buffer[start : start + length]))
            position = start + length + 2
            if self._buffer[position - 2 : position] != b"\r\n":
                raise _garbage("has a chunk without an end")


def _garbage(what: str) -> Away:
    return Away("service_protocol_error", f"the service answers what is no HTTP: it {what}")
