"""
How a service ends: nobody who asked goes without an answer.
"""

from __future__ import annotations

import http.client
import json
import signal
import threading
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

import grpc
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Eventually
    from tests.service.conftest import Serve
    from tests.service.running import ask
else:
    from running import ask

RULES = """
version: 1
rules:
  - {name: each, per: [client], quotas: 1000000/minute}
"""
CHECK = "/api/v1/rate-limit/check"
METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
HEALTH = "/grpc.health.v1.Health/Check"
LINGER_S = 0.25
"""Half as long as an idle connection is kept for requests that are on their way when the service closes."""
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


@dataclass
class Load:
    """
    A client that asks over HTTP until nobody listens any more, on connections that it keeps as long as it may.
    """

    address: str
    answered: int = 0
    lost: list[str] = field(default_factory=list)

    def run(self) -> None:
        """
        Asks until the end.
        """
        body = json.dumps({"client_id": "load"})
        began_at = perf_counter()
        connection = http.client.HTTPConnection(self.address, timeout=20)
        while True:
            before, began_at = began_at, perf_counter()
            is_kept = connection.sock is not None
            if not is_kept:
                try:
                    connection.connect()
                except ConnectionRefusedError:
                    return
            sent_at: float | None = None
            try:
                connection.request("POST", CHECK, body, {"content-type": "application/json"})
                sent_at = perf_counter()
                response = connection.getresponse()
                response.read()
            except OSError as error:
                # Who was held up, on a busy machine, asks on a connection that has ended meanwhile: no service can help that.
                if not is_kept or (sent_at or perf_counter()) - before < LINGER_S:
                    self.lost.append(repr(error))
                    return
                connection.close()
                continue
            if response.status != 200:  # OK
                self.lost.append(f"status {response.status}")
            self.answered += 1


@dataclass
class Calls:
    """
    The same over gRPC.
    """

    address: str
    answered: int = 0
    lost: list[str] = field(default_factory=list)

    def run(self) -> None:
        """
        Asks until the end.
        """
        # A domain without rules, and no descriptor: nothing to limit, which is an answer too.
        request = b"\x0a\x01x\x12\x08\x0a\x06\x0a\x01a\x12\x01b"
        # The client sends a call again by itself only if it did not leave before the GOAWAY came: then nothing was lost.
        with grpc.insecure_channel(self.address) as channel:
            call: Callable[..., bytes] = channel.unary_unary(METHOD)
            while True:
                try:
                    call(request, timeout=20)
                except grpc.RpcError as error:
                    details = str(error.details())
                    if "refused" not in details.lower():
                        self.lost.append(f"{error.code()}: {details}")
                    return
                self.answered += 1


@pytest.mark.parametrize("grace", [0, 1])
def test_sigterm_loses_no_request(grace: int, serve: Serve, eventually: Eventually) -> None:
    """
    Under load on both ports, with and without a time of grace.
    """
    service = serve(RULES, {"shutdown.grace": grace, "workers": 2})
    loads: list[Load | Calls] = [*(Load(service.http.rpartition("/")[2]) for _ in range(4)), *(Calls(service.grpc) for _ in range(2))]
    threads = [threading.Thread(target=load.run) for load in loads]
    for thread in threads:
        thread.start()
    eventually(lambda: all(load.answered > 10 for load in loads), within=30)  # all are at work
    service.send(signal.SIGTERM)
    for thread in threads:
        thread.join()

    assert service.wait() == 0
    assert [load.lost for load in loads] == [[]] * len(loads)


def test_readiness_goes_before_the_service(serve: Serve, eventually: Eventually) -> None:
    """
    During the grace everything is still answered, and both ports say that they will not be for long.
    """
    service = serve(RULES, {"shutdown.grace": 60})
    with grpc.insecure_channel(service.grpc) as channel:
        health: Callable[..., bytes] = channel.unary_unary(HEALTH)
        assert health(b"", timeout=20) == SERVING
        service.send(signal.SIGTERM)
        eventually(lambda: service.ask("GET", "/readyz").status == 503)  # Service Unavailable

        assert "draining" in service.ask("GET", "/readyz").body.decode()
        assert service.ask("GET", "/healthz").status == 200
        assert service.ask("POST", CHECK, {"client_id": "late"}).headers["connection"] == "close"
        assert health(b"", timeout=20) == NOT_SERVING


def test_unix_sockets_are_served_and_removed(serve: Serve, tmp_path: Path) -> None:
    """
    Both ports; and a service that was killed does not stand in the way of the next.
    """
    paths = {port: tmp_path / port for port in ("http", "grpc")}
    service = serve(RULES, {f"{port}.listen": f"unix:{path}" for port, path in paths.items()})
    assert ask(service.http, "GET", "/healthz").status == 200
    service.kill()
    assert all(path.is_socket() for path in paths.values())
    service.start()

    assert ask(service.http, "GET", "/healthz").status == 200
    # Otherwise the client sends the path as the name of the host, and HTTP/2 has no such names.
    with grpc.insecure_channel(f"unix:{paths['grpc']}", options=[("grpc.default_authority", "localhost")]) as channel:
        health: Callable[..., bytes] = channel.unary_unary(HEALTH)
        assert health(b"", timeout=20) == SERVING
    service.send(signal.SIGTERM)
    assert service.wait() == 0
    assert not any(path.exists() for path in paths.values())
