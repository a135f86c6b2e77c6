"""
The proxy does to connections what networks do, and the fakes answer what strangers answer.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tests.servers import Fake, Proxy, Single
    from tests.servers.background import Listener, run
    from tests.servers.resp import Connection
else:
    from servers import Fake, Proxy
    from servers.background import Listener, run
    from servers.resp import Connection


@pytest.fixture
def proxy(server: Single) -> Iterator[Proxy]:
    """
    A proxy in front of the shared server.
    """
    with Proxy(server.port) as proxy:
        yield proxy


def test_bytes_pass(proxy: Proxy) -> None:
    """
    Unchanged, in both directions, also more than one read.
    """
    big = bytes(range(256)) * 4000
    with Connection(proxy.port) as connection:
        assert big == connection.call("ECHO", big)
        assert 1 == proxy.accepted


def test_both_directions_can_be_slow(proxy: Proxy) -> None:
    """
    The delays add up.
    """
    proxy.delay(requests_ms=40, replies_ms=30)
    with Connection(proxy.port) as connection:
        start = perf_counter()
        connection.call("PING")
        assert 0.07 <= perf_counter() - start


def test_replies_that_are_held_back_arrive_late(proxy: Proxy, server: Single, eventually: Eventually) -> None:
    """
    The command was executed meanwhile.
    """
    with Connection(proxy.port, timeout=0.1) as connection:
        proxy.black_hole()
        with pytest.raises(TimeoutError):
            connection.call("SET", "faults:late", "1")
        eventually(lambda: server.command("GET", "faults:late") == b"1")

    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as late:
        late.sendall(b"PING\r\n")
        proxy.pass_through()
        assert b"+PONG\r\n" == late.recv(100)


def test_silence_keeps_requests_from_the_server(proxy: Proxy, server: Single) -> None:
    """
    It accepts, and that is all.
    """
    proxy.silence()
    with Connection(proxy.port, timeout=0.1) as connection, pytest.raises(TimeoutError):
        connection.call("SET", "faults:silence", "1")

    assert server.command("GET", "faults:silence") is None


def test_connections_are_reset(proxy: Proxy) -> None:
    """
    The kernel says so, and a new connection works.
    """
    with Connection(proxy.port) as connection:
        connection.call("PING")
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            connection.call("PING")
    with Connection(proxy.port) as connection:
        assert connection.call("PING") == "PONG"


def test_connections_are_refused_until_they_pass_again(proxy: Proxy) -> None:
    """
    On the same port.
    """
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        Connection(proxy.port)
    proxy.pass_through()
    with Connection(proxy.port) as connection:
        assert connection.call("PING") == "PONG"


@pytest.mark.parametrize(
    ("kind", "answer"),
    [("memcached", b"ERROR\r\n"), ("http", b"HTTP/1.1 400 Bad Request\r\n"), ("refusing", b"-LOADING wait\r\n"), ("closing", b"")],
)
def test_a_fake_answers_what_it_stands_for(kind: str, answer: bytes) -> None:
    """
    To the first bytes of a client.
    """
    with Fake(kind, error="LOADING wait") as fake, socket.create_connection(("127.0.0.1", fake.port), timeout=5) as client:
        if kind != "closing":
            client.sendall(b"*1\r\n$4\r\nPING\r\n")
        assert client.recv(1000).startswith(answer)


def test_garbage_is_the_same_in_every_run() -> None:
    """
    Its seed decides.
    """
    seen = []
    for _ in range(2):
        with Fake("garbage", seed=1) as fake, socket.create_connection(("127.0.0.1", fake.port), timeout=5) as client:
            client.sendall(b"*1\r\n$4\r\nPING\r\n")
            seen.append(client.recv(1000))

    assert 64 == len(seen[0])
    assert seen[0] == seen[1]


def test_a_fake_refuses_each_command_once() -> None:
    """
    Also if several arrive together, or one in pieces.
    """
    with Fake("refusing", error="BUSY") as fake, socket.create_connection(("127.0.0.1", fake.port), timeout=5) as client:
        client.sendall(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPI")
        assert b"-BUSY\r\n-BUSY\r\n" == client.recv(1000)
        client.sendall(b"NG\r\n")
        assert b"-BUSY\r\n" == client.recv(1000)


@pytest.mark.parametrize("turns", range(6))
def test_who_connects_while_a_listener_closes_is_let_go(turns: int) -> None:
    """
    However far the connection has come by then: what is forgotten there is blamed on a random test later.
    """

    async def answer_never(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    listener = Listener(answer_never, tls=None)
    run(listener.open())

    async def connect_and_close() -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", listener.port), timeout=5)
        for _ in range(turns):
            await asyncio.sleep(0)  # noqa: TID251 - turns of the loop, no time
        await listener.close()
        return connection

    with run(connect_and_close()) as connection, suppress(ConnectionResetError):
        assert b"" == connection.recv(1)
