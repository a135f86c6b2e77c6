"""
Clients that are slow, break off, or send too much: each gets a defined answer, and gives back what it held.
"""

from __future__ import annotations

import contextlib
import socket
from time import perf_counter
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tests.proxy.proxying import ask, here
    from tests.proxy.raw_upstream import RawUpstream
    from tests.proxy.upstream import Upstream
else:
    from proxying import ask, here
    from raw_upstream import RawUpstream
    from upstream import Upstream

ONE_AT_A_TIME = "version: 1\nrules: [{name: slots, per: global, quotas: 1 concurrent}]\n"
QUICK = {"limits.read_timeout": "2s"}


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


EXPECTS = b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n"


def test_who_waits_for_a_silent_server_goes_on_after_a_second() -> None:
    """The body reaches it although it never asked, and the client is not left to its own patience."""
    with RawUpstream() as silent, here([silent.url]) as proxy, connected(proxy) as client:
        begun = perf_counter()
        client.sendall(EXPECTS)
        told = client.recv(65_536)
        took = perf_counter() - begun
        before = silent.received
        client.sendall(b"hello")
        answer = rest(client)

    assert (b"HTTP/1.1 100 Continue\r\n\r\n", 0) == (told, before)
    assert took > 0.9
    assert (b"HTTP/1.1 200 ", 5) == (answer[:13], silent.received)


def test_who_waits_for_a_server_of_http2_goes_on() -> None:
    """Such a server is not asked, and takes the body."""
    with (
        Upstream(is_http2=True) as server,
        here([server.url], settings={"upstream.protocol": "http2"}) as proxy,
        connected(proxy) as client,
    ):
        client.sendall(EXPECTS)
        told = client.recv(65_536)
        client.sendall(b"hello")
        answer = rest(client)

    assert b"HTTP/1.1 100 Continue\r\n\r\n" == told
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b'"size": 5' in answer


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
        pytest.param(b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nhost: a\r\n\r\n", 431, id="target"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 20_000 + b"\r\n\r\n", 431, id="one-field"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 3_000 + b"\r\n", 431, id="many-bytes"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 100 + b"\r\n", 431, id="many-fields"),
    ],
)
def test_heads_have_a_limit(upstream: Upstream, request_head: bytes, status: int) -> None:
    """`limits.head_bytes`, 16 KiB by default, and 100 fields; no server hears of it."""
    with here([upstream.url]) as proxy:
        before = upstream.count
        with connected(proxy) as client:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(request_head)
            told = rest(client)

        assert status == int(told[9:12]), told
        assert before == upstream.count


def test_a_target_has_a_limit_of_its_own(upstream: Upstream) -> None:
    """414 for more than 65,534 bytes, where `limits.head_bytes` allows for a longer head; one byte less passes."""
    with here([upstream.url], settings={"limits.head_bytes": 200_000}) as proxy:
        before = upstream.count
        answers = []
        for length in (65_534, 65_535):
            with connected(proxy) as client:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    client.sendall(b"GET /" + b"a" * (length - 1) + b" HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
                answers.append(int(rest(client)[9:12]))

        assert [200, 414] == answers
        assert before + 1 == upstream.count


def test_more_fields_pass_over_http2(upstream: Upstream) -> None:
    """There it is only their bytes that count."""
    with here([upstream.url]) as proxy, httpx.Client(http1=False, http2=True, timeout=30, trust_env=False) as client:
        passed = client.get(proxy, headers=[("x", "y")] * 200)
        refused = client.get(proxy, headers={"x": "y" * 20_000})

    assert (200, 200) == (passed.status_code, passed.json()["headers"].count(["x", "y"]))
    assert 431 == refused.status_code


def test_a_hundred_fields_pass(upstream: Upstream) -> None:
    """As many as there may be, over HTTP/1; all of them reach the server."""
    with here([upstream.url]) as proxy, connected(proxy) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n" + b"x: y\r\n" * 98 + b"\r\n")
        told = rest(client)

    assert told.startswith(b"HTTP/1.1 200 ")
    assert 98 == told.count(b'["x", "y"]')


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
