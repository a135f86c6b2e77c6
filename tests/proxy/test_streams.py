"""
Much at once: long bodies, and many connections that keep quiet.
"""

from __future__ import annotations

import http.client
import resource
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.proxy.proxying import Running
    from tests.proxy.raw_upstream import BLOCK, RawUpstream
else:
    from proxying import Running
    from raw_upstream import BLOCK, RawUpstream

GIGABYTE = 1 << 30
IDLE = 10_000
AT_ONCE = 100
# What it takes is measured by `make bench`; this is far above that, and far below what a buffer of hyper for each of them would take.
IDLE_BYTES_MAX = 32 * 1024


def memory(proxy: Running, field: str) -> int:
    """
    What the system says about the memory of a proxy, in bytes: `VmRSS` now, `VmHWM` the most ever.
    """
    status = Path(f"/proc/{proxy.process.pid}/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{field}:"))


@pytest.mark.timeout(180)
def test_a_gigabyte_streams_both_ways_in_flat_memory() -> None:
    """1 GiB down and 1 GiB up pass whole, and the proxy never holds more than a fraction."""
    with RawUpstream() as upstream, Running([upstream.url]) as proxy:
        connection = http.client.HTTPConnection(proxy.address.removeprefix("http://"), timeout=120)
        connection.request("GET", "/long/1048576")
        connection.getresponse().read()
        before = memory(proxy, "VmHWM")
        connection.request("GET", f"/long/{GIGABYTE}")
        response = connection.getresponse()
        room, received = bytearray(len(BLOCK)), 0
        while read := response.readinto(room):
            received += read
        connection.putrequest("PUT", "/up")
        connection.putheader("content-length", str(GIGABYTE))
        connection.endheaders()
        for _ in range(GIGABYTE // len(BLOCK)):
            connection.send(BLOCK)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        after = memory(proxy, "VmHWM")

    assert (GIGABYTE, GIGABYTE, 200) == (received, upstream.received, answer.status)
    assert after - before < 16 * 1024 * 1024


def ask(clients: list[socket.socket]) -> None:
    """
    Lets all of them ask, and waits for the answers.
    """
    for client in clients:
        client.sendall(b"GET /idle HTTP/1.1\r\nhost: a\r\n\r\n")
    for client in clients:
        answer = b""
        while not answer.endswith(b"\r\n\r\nxx"):
            answer += (read := client.recv(65_536))
            assert read, answer
        assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.timeout(180)
def test_ten_thousand_idle_connections_are_cheap() -> None:
    """Each asks once and keeps quiet; then they are asked again, and all are still there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < IDLE + 1_000:
        pytest.skip(f"only {hard} files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, IDLE + 1_000), hard))
    clients: list[socket.socket] = []
    try:
        with RawUpstream() as upstream, Running([upstream.url], settings={"limits.connections": IDLE + 100}) as proxy:
            host, _, port = proxy.address.removeprefix("http://").partition(":")

            def join() -> None:
                new = [socket.create_connection((host, int(port)), timeout=60) for _ in range(AT_ONCE)]
                clients.extend(new)
                ask(new)

            join()
            before = memory(proxy, "VmRSS")
            while len(clients) < IDLE:
                join()
            each = (memory(proxy, "VmRSS") - before) / (IDLE - AT_ONCE)

            assert each < IDLE_BYTES_MAX, f"{each:,.0f} bytes each"
            ask(clients[::100])
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
