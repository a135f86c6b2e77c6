"""
Clients behind a load balancer that only passes bytes on: it says in the PROXY protocol whom a connection is from.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import socket
import ssl
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Eventually
    from tests.gateways.gateway import Missing, find_program
    from tests.proxy.proxying import Answer, Running, ask, here
    from tests.proxy.test_access_log import entries
    from tests.proxy.test_clients import installed, run
    from tests.proxy.upstream import Upstream
    from tests.servers import certificates
    from tests.servers.ports import free_port
    from tests.servers.process import Process, new_folder
    from tests.servers.waiting import until
else:
    from gateways.gateway import Missing, find_program
    from proxying import Answer, Running, ask, here
    from servers import certificates
    from servers.ports import free_port
    from servers.process import Process, new_folder
    from servers.waiting import until
    from test_access_log import entries
    from test_clients import installed, run

RULES = "version: 1\nidentity: [{ip: {}}]\nrules: [{name: per_client, per: client, quotas: 2/hour}]\n"
INTRODUCED = {"proxy.proxy_protocol": "127.0.0.1"}
HAPROXY = """
defaults
  mode tcp
  timeout connect 30s
  timeout client 30s
  timeout server 30s
listen balancer
  bind 127.0.0.1:{port}
  server proxy {proxy} source 127.0.0.1 {word}
"""


def version_1(address: str) -> bytes:
    """How a connection from this address begins, as a line."""
    family, own = ("TCP6", "::1") if ":" in address else ("TCP4", "127.0.0.1")
    return f"PROXY {family} {address} {own} 50000 443\r\n".encode()


def version_2(address: str) -> bytes:
    """The same in bytes, with something behind the addresses that nobody asked for."""
    source = ipaddress.ip_address(address).packed
    family = 0x11 if len(source) == 4 else 0x21  # the lengths of addresses are those of the protocol
    added = source + bytes(len(source)) + struct.pack("!HH", 50_000, 443) + b"\x04\x00\x02ok"
    return b"\r\n\r\n\0\r\nQUIT\n" + bytes([0x21, family]) + struct.pack("!H", len(added)) + added


LOCAL = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00"


def ask_behind(proxy: str, header: bytes, context: ssl.SSLContext | None = None, times: int = 1) -> list[Answer]:
    """
    Sends requests on one connection that begins with this header.
    """
    host, _, port = proxy.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    connection.sock = socket.create_connection((host, int(port)), timeout=30)
    connection.sock.sendall(header)
    if context is not None:
        connection.sock = context.wrap_socket(connection.sock, server_hostname="localhost")
    try:
        return [_asked(connection) for _ in range(times)]
    finally:
        connection.close()


def _asked(connection: http.client.HTTPConnection) -> Answer:
    connection.request("GET", "/", headers={"x-forwarded-for": "198.51.100.1"})
    response = connection.getresponse()
    return Answer(response.status, response.headers, response.read())


def told_of(answer: Answer) -> str | None:
    """Whom a server takes for the client."""
    headers: dict[str, str] = dict(answer.json["headers"])
    return headers.get("x-forwarded-for")


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("version", [version_1, version_2])
@pytest.mark.parametrize("address", ["203.0.113.7", "2001:db8::7"])
def test_the_client_is_whom_the_load_balancer_names(
    upstream: Upstream, version: Callable[[str], bytes], address: str, *, is_tls: bool
) -> None:
    """Servers are told of it, and it is counted, whatever connection it comes on; another one behind the same load balancer is not."""
    made = certificates()
    tls = {"proxy.tls.cert": made.server_cert, "proxy.tls.key": made.server_key} if is_tls else {}
    context = ssl.create_default_context(cafile=str(made.ca)) if is_tls else None
    with here([upstream.url], RULES, {**INTRODUCED, **tls}) as proxy:
        answers = [*ask_behind(proxy, version(address), context, times=2), *ask_behind(proxy, version(address), context)]
        (other,) = ask_behind(proxy, version("203.0.113.8"), context)

    assert [200, 200, 429] == [answer.status for answer in answers]
    assert [address] * 2 == [told_of(answer) for answer in answers[:2]], "and not what it says itself"
    assert (200, "203.0.113.8") == (other.status, told_of(other))


@pytest.mark.parametrize("header", [LOCAL, b"PROXY UNKNOWN\r\n"], ids=["local", "unknown"])
def test_a_load_balancer_that_asks_for_itself_is_the_client(upstream: Upstream, header: bytes) -> None:
    """As its probes do."""
    with here([upstream.url], RULES, INTRODUCED) as proxy:
        (answer,) = ask_behind(proxy, header)

    assert (200, "127.0.0.1") == (answer.status, told_of(answer))


def test_who_does_not_begin_as_it_has_to_is_cut(upstream: Upstream) -> None:
    """A load balancer without a header gets no answer; from others a header is a malformed request, and they need none."""
    with here([upstream.url], RULES, INTRODUCED) as proxy:
        before = upstream.count
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            ask(proxy, "GET", "/")
        heard = upstream.count - before
    with here([upstream.url], RULES, {"proxy.proxy_protocol": "192.0.2.0/24"}) as proxy:
        host, _, port = proxy.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=30) as stranger:
            stranger.sendall(version_1("203.0.113.7") + b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            told = stranger.recv(65_536)
        answer = ask(proxy, "GET", "/")

    assert (0, True) == (heard, told.startswith(b"HTTP/1.1 400 "))
    assert (200, "127.0.0.1") == (answer.status, told_of(answer))


@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_curl_introduces_itself(upstream: Upstream, version: str) -> None:
    """In version 1, with the address that it comes from."""
    curl = installed("curl")
    with here([upstream.url], RULES, {"proxy.proxy_protocol": "127.0.0.0/8"}) as proxy:
        told = json.loads(run(curl, "-sS", version, "--haproxy-protocol", "--interface", "127.0.0.9", proxy))

    assert ["x-forwarded-for", "127.0.0.9"] in told["headers"]


@contextmanager
def balancer(proxy: str, word: str) -> Iterator[str]:
    """
    An HAProxy that passes bytes on; answers its address.
    """
    try:
        program = find_program("haproxy", "the Debian package haproxy")
    except Missing as missing:
        pytest.skip(str(missing))
    folder, port = new_folder("haproxy"), free_port()
    config = folder / "haproxy.cfg"
    config.write_text(HAPROXY.format(port=port, proxy=proxy.removeprefix("http://"), word=word), encoding="ascii")
    process = Process([program, "-db", "-f", config], log=folder / "log")

    def listens() -> bool:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
        return True

    until(listens, 20, lambda: (folder / "log").read_text(encoding="utf-8"))
    yield f"127.0.0.1:{port}"
    process.kill()


@pytest.mark.parametrize("word", ["send-proxy", "send-proxy-v2"])
def test_haproxy_says_whom_it_speaks_for(upstream: Upstream, tmp_path: Path, eventually: Eventually, word: str) -> None:
    """Clients from two addresses through one load balancer are counted apart, and the access log has them."""
    log = tmp_path / "access.log"
    statuses, named = [], set()
    with (
        Running([upstream.url], RULES, {**INTRODUCED, "access_log.to": log}) as proxy,
        balancer(proxy.address, word) as address,
    ):
        for own in ("127.0.0.21", "127.0.0.21", "127.0.0.21", "127.0.0.22"):
            connection = http.client.HTTPConnection(address, timeout=30, source_address=(own, 0))
            answer = _asked(connection)
            connection.close()
            statuses.append(answer.status)
            named |= {told_of(answer)} if answer.status == http.client.OK else set()
        eventually(lambda: len(entries(log)) == 4)

    assert [200, 200, 429, 200] == statuses
    assert {"127.0.0.21", "127.0.0.22"} == named
    assert ["127.0.0.21"] * 3 + ["127.0.0.22"] == [entry["remote"] for entry in entries(log)]
