"""
Requests that two programs could understand in two ways: the answer to each is defined, and the server notes every byte that reaches it.

`crates/server/tests/proxy/smuggling.rs` has the lengths; this is the rest of the catalogue, and HTTP/2 that becomes HTTP/1.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.proxy.proxying import here
    from tests.proxy.raw_upstream import RawUpstream
    from tests.service import frames
else:
    from proxying import here
    from raw_upstream import RawUpstream
    from service import frames

HIDDEN = b"GET /hidden HTTP/1.1\r\nhost: a\r\n\r\n"
START = b"POST /seen HTTP/1.1\r\nhost: a\r\nconnection: close\r\n"
_LENGTH = re.compile(rb"\r\n(transfer-encoding: chunked|content-length: (\d+))(?=\r\n|$)", re.IGNORECASE)


@pytest.fixture
def upstream() -> Iterator[RawUpstream]:
    """
    A server of its own for each request.
    """
    with RawUpstream() as server:
        yield server


def talk(proxy: str, sent: bytes, *, is_all: bool) -> list[int]:
    """
    Sends, says that this is all if it is, and answers the statuses of all answers until the connection ends.
    """
    host, port = proxy.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(sent)
        if is_all:
            connection.shutdown(socket.SHUT_WR)
        read = bytearray()
        try:
            while some := connection.recv(65_536):
                read += some
        except ConnectionResetError:
            pass
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3})", bytes(read))]


def paths_heard(upstream: RawUpstream) -> list[bytes]:
    """
    The targets of all requests, as the strictest of servers would read them: each has one length at most, and what follows it is the next.
    """
    paths = []
    for heard in upstream.connections:
        rest = heard
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            paths.append(head.split(b" ")[1])
            lengths = _LENGTH.findall(head)
            assert len(lengths) <= 1, head
            if lengths and lengths[0][1]:
                rest = rest[int(lengths[0][1]) :]
            elif lengths:
                rest = _behind_chunks(rest)
    return paths


def _behind_chunks(rest: bytes) -> bytes:
    size = -1
    while rest and size != 0:
        line, _, rest = rest.partition(b"\r\n")
        size = int(line, 16)
        rest = rest[size + 2 :]
    return rest


@pytest.mark.parametrize(
    ("rest", "statuses"),
    [
        pytest.param(b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN, [400], id="cl-te"),
        pytest.param(
            b"transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN), [400], id="te-cl"
        ),
        pytest.param(b"transfer-encoding: chunked\r\ntransfer-encoding: cow\r\n\r\n0\r\n\r\n" + HIDDEN, [400], id="te-te-second"),
        pytest.param(b"transfer-encoding: cow\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN, [501], id="te-te-first"),
        pytest.param(b"transfer-encoding: \x0bchunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n" + HIDDEN, [400], id="te-vertical-tab"),
        pytest.param(b"transfer-encoding: chunked\x00\r\ncontent-length: 4\r\n\r\n0\r\n\r\n" + HIDDEN, [400], id="te-zero"),
        pytest.param(b"transfer-encoding\t: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n" + HIDDEN, [400], id="te-tab-before-colon"),
        pytest.param(b"\ttransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n" + HIDDEN, [400], id="te-folded"),
        pytest.param(b"transfer-encoding:\r\n chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n" + HIDDEN, [400], id="te-value-folded"),
        pytest.param(b'transfer-encoding: "chunked"\r\n\r\n0\r\n\r\n' + HIDDEN, [400], id="te-quoted"),
        pytest.param(b"content-length: 3\r\ncontent-length: 3\r\n\r\nabc", [200], id="same-length-twice"),
        pytest.param(b"transfer-encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n", [200], id="chunk-extension"),
        pytest.param(b"transfer-encoding: chunked\r\n\r\n3;a=\nb\r\nabc\r\n0\r\n\r\n" + HIDDEN, [400], id="line-feed-in-extension"),
        pytest.param(b"transfer-encoding: chunked\r\n\r\n3\nabc\n0\n\n" + HIDDEN, [400], id="chunks-with-bare-line-feeds"),
        pytest.param(b"transfer-encoding: chunked\r\n\r\n3\r\nabcX\r\n0\r\n\r\n" + HIDDEN, [400], id="chunk-without-its-end"),
        pytest.param(b"transfer-encoding: chunked\r\n\r\n\r\n0\r\n\r\n" + HIDDEN, [400], id="chunk-without-a-size"),
    ],
)
def test_a_server_hears_one_request_or_none(upstream: RawUpstream, rest: bytes, statuses: list[int]) -> None:
    """What is refused may have reached it in part, but never as two requests."""
    with here([upstream.url]) as proxy:
        # Who ends its side while a good request is answered is taken to have gone.
        found = talk(proxy, START + rest, is_all=statuses != [200])

    assert statuses == found
    assert paths_heard(upstream) in ([], [b"/seen"]), upstream.heard


FIELDS = {":method": "POST", ":scheme": "http", ":path": "/seen", ":authority": "a"}


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        pytest.param({**FIELDS, "transfer-encoding": "chunked"}, b"0\r\n\r\n" + HIDDEN, id="transfer-encoding"),
        pytest.param({**FIELDS, "connection": "keep-alive"}, b"abc", id="connection"),
        pytest.param({**FIELDS, "upgrade": "websocket"}, b"abc", id="upgrade"),
        pytest.param({**FIELDS, "content-length": "0"}, HIDDEN, id="length-too-small"),
        pytest.param({**FIELDS, "content-length": "100"}, b"abc", id="length-too-large"),
        pytest.param({**FIELDS, "content-length": "3, 4"}, b"abc", id="two-lengths"),
        pytest.param({**FIELDS, "x-field": "a\r\ntransfer-encoding: chunked"}, b"abc", id="line-in-a-value"),
        pytest.param({**FIELDS, "x: a\r\ny": "b"}, b"abc", id="line-in-a-name"),
        pytest.param({**FIELDS, "X-Upper": "a"}, b"abc", id="upper-case"),
        pytest.param({**FIELDS, ":path": "/seen HTTP/1.1\r\nhost: a\r\n\r\nGET /hidden"}, b"", id="line-in-the-path"),
        pytest.param({**FIELDS, ":method": "GET /hidden HTTP/1.1\r\nhost: a\r\n\r\nPOST"}, b"", id="line-in-the-method"),
        pytest.param({**FIELDS, ":authority": "a\r\nx: y"}, b"", id="line-in-the-authority"),
        pytest.param({**FIELDS, ":other": "x"}, b"", id="unknown-pseudo-field"),
        pytest.param({":method": "POST", ":scheme": "http", ":authority": "a"}, b"", id="no-path"),
        pytest.param({":scheme": "http", ":path": "/seen", ":authority": "a"}, b"", id="no-method"),
        pytest.param({"x-field": "a", **FIELDS}, b"", id="pseudo-fields-behind-others"),
        pytest.param({**FIELDS, "host": "other", ":path": "/seen/../hidden"}, b"", id="dots"),
    ],
)
def test_what_http2_forbids_never_becomes_http1(upstream: RawUpstream, fields: dict[str, str], body: bytes) -> None:
    """The stream is reset, or the request is refused; a length that is wrong reaches the server in part at most."""
    with here([upstream.url]) as proxy, frames.Connection(proxy.removeprefix("http://")) as connection:
        connection.send(frames.frame(frames.HEADERS, frames.END_HEADERS, 1, frames.fields(fields)))
        connection.send(frames.frame(frames.DATA, frames.END_STREAM, 1, body))
        connection.send(frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 3, frames.get("/after")))
        answered = {
            frame.stream: frame.kind
            for frame in _until_answered(connection)
            if frame.kind in {frames.HEADERS, frames.RST_STREAM, frames.GOAWAY}
        }

    assert answered, "an answer or an end"
    heard = paths_heard(upstream)
    assert sorted(heard) in ([], [b"/seen"], [b"/after"], [b"/after", b"/seen"]), upstream.heard
    assert b"hidden" not in upstream.heard
    assert b"x: y" not in upstream.heard
    assert b"upgrade" not in upstream.heard
    assert b"keep-alive" not in upstream.heard


def _until_answered(connection: frames.Connection) -> Iterator[frames.Frame]:
    """What comes until the second request is answered, or the connection ends."""
    for frame in connection.frames():
        yield frame
        if frame.kind == frames.GOAWAY or (frame.stream == 3 and frame.kind in {frames.HEADERS, frames.RST_STREAM}):  # the second stream
            return
