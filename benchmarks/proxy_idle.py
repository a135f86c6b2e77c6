"""
What a connection costs in memory that has asked once, and then keeps quiet.
"""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import proxy_servers as proxies
import psutil
from child import Advance
from proxy_speed import PEERS
from service_lanes import missing
from service_load import program
from service_servers import Target

REQUEST = b"GET /api/v1/orders HTTP/1.1\r\nHost: a\r\nX-API-Key: 4f1c2d7e-client-42\r\n\r\n"
# The server behind, and the first buffers of the proxy, are there before anything is weighed.
FIRST = 100


def measure(*, quick: bool, folder: Path, advance: Advance) -> dict[str, Any]:  # noqa: ARG001 - as the others
    """Return the bytes of one idle connection, by proxy."""
    wanted = 1_000 if quick else 10_000
    with _files(wanted + 1_000) as allowed:
        count = min(wanted, allowed - 1_000)
        if program("nginx") is None or count < FIRST:
            return {"rows": [missing("tidegate", "", "nginx is not installed, or too few files may be open")]}
        return {"rows": list(_rows(count, advance)), "connections": count}


def _rows(count: int, advance: Advance) -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        server = stack.enter_context(proxies.upstream(()))
        own, address = stack.enter_context(proxies.tidegate(server, ()))
        targets = {"tidegate": (own, address)}
        for who, (_, start) in PEERS.items():
            if program(who.lower()) is None:
                yield missing(who, "", f"{who} is not installed")
            else:
                target = stack.enter_context(start(server, ()))
                targets[who] = (target, target.http)
        for number, (who, (target, at)) in enumerate(targets.items()):
            advance(f"{who}, {count:,} idle connections", number / len(targets))
            yield {"who": who, "bytes": _weigh(target, at, count)}


def _weigh(target: Target, address: str, count: int) -> float:
    host, _, port = address.removeprefix("http://").partition(":")
    with ExitStack() as stack:

        def ask(times: int) -> None:
            for _ in range(times):
                connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
                connection.sendall(REQUEST)
                assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")

        ask(FIRST)
        before = _resident(target)
        ask(count)
        return (_resident(target) - before) / count


def _resident(target: Target) -> int:
    parent = psutil.Process(target.pid)
    return sum(int(process.memory_info().rss) for process in (parent, *parent.children(recursive=True)))


@contextmanager
def _files(wanted: int) -> Iterator[int]:
    """Let so many files be open in this block and in the processes that it starts, if the system allows it; yield how many are."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if before[1] == resource.RLIM_INFINITY else min(wanted, before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], allowed), before[1]))
    try:
        yield max(before[0], allowed)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
