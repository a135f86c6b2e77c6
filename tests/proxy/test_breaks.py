"""
Clients that are slow, break off, or send too much: each gets a defined answer, and gives back what it held.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tests.proxy.proxying import ask, here
    from tests.proxy.upstream import Upstream
else:
    from proxying import ask, here

ONE_AT_A_TIME = "version: 1\nrules: [{name: slots, per: global, quotas: 1 concurrent}]\n"
QUICK = {"limits.read_timeout": "500ms"}


@contextlib.contextmanager
def connected(proxy: str) -> Iterator[socket.socket]:
    """
    A plain connection.
    """
    host, port = proxy.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as client:
        yield client


def rest(client: socket.socket) -> bytes:
    """
    Whatever comes until the proxy ends the connection.
    """
    read = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while some := client.recv(65_536):
            read += some
    return bytes(read)


def test_who_sends_a_head_too_slowly_is_told(upstream: Upstream) -> None:
    """408, and the connection ends."""
    with here([upstream.url], settings=QUICK) as proxy, connected(proxy) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nx-")
        assert rest(client).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("length", ["content-length: 1000000", "transfer-encoding: chunked"])
def test_an_upload_that_breaks_off_gives_its_slot_back(upstream: Upstream, eventually: Eventually, length: str) -> None:
    """And the server does not take half of it for the whole."""
    with here([upstream.url], ONE_AT_A_TIME) as proxy:
        before = upstream.count
        with connected(proxy) as client:
            start = b"1000\r\n" if "chunked" in length else b""
            client.sendall(f"POST /up HTTP/1.1\r\nhost: a\r\n{length}\r\n\r\n".encode() + start + b"x" * 100)
            eventually(lambda: upstream.count > before)
            assert 429 == ask(proxy, "GET", "/").status
        eventually(lambda: ask(proxy, "GET", "/").status == 200)


def test_a_download_that_breaks_off_gives_its_slot_back(upstream: Upstream, eventually: Eventually) -> None:
    """Also if the client only stopped to read before."""
    with here([upstream.url], ONE_AT_A_TIME) as proxy:
        with connected(proxy) as client:
            client.sendall(b"GET /stream/1000 HTTP/1.1\r\nhost: a\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200 ")
            assert 429 == ask(proxy, "GET", "/").status
        eventually(lambda: ask(proxy, "GET", "/").status == 200)


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        pytest.param(b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nhost: a\r\n\r\n", {431, 414}, id="target"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 20_000 + b"\r\n\r\n", {431}, id="one-field"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 3_000 + b"\r\n", {431}, id="many-fields"),
    ],
)
def test_heads_have_a_limit(upstream: Upstream, request_head: bytes, status: set[int]) -> None:
    """`limits.head_bytes`, 16 KiB by default; no server hears of it."""
    with here([upstream.url]) as proxy:
        before = upstream.count
        with connected(proxy) as client:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(request_head)
            told = rest(client)

        assert int(told[9:12]) in status, told
        assert before == upstream.count


def test_trailers_reach_the_other_side_of_a_denied_request_or_not_at_all(upstream: Upstream) -> None:
    """A denied request with a chunked body and trailers leaves the connection usable for the next one."""
    rules = "version: 1\nrules: [{name: one, match: {method: POST}, per: global, quotas: 1/hour}]\n"
    denied = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 1\r\n\r\n"
    with here([upstream.url], rules) as proxy, connected(proxy) as client:
        for _ in range(2):
            client.sendall(denied)
        client.sendall(b"GET /next HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        told = rest(client)

    assert [b"200", b"429", b"200"] == [part[:3] for part in told.split(b"HTTP/1.1 ")[1:]]
    assert b'"path": "/next"' in told
