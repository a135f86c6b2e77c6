"""
The port of HTTP over real sockets: what connections add to requests, and a store that goes away.
"""

from __future__ import annotations

import http.client
import json
import socket
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Eventually
    from tests.servers import Single
    from tests.service.running import ask, here
else:
    from running import ask, here
    from servers import Single

CHECK = "/api/v1/rate-limit/check"
FORWARD_AUTH = "/api/v1/rate-limit/forward-auth"
RULES = """
version: 1
identity: [{header: x-api-key}, {ip: {}}]
rules: [{name: per_client, per: client, quotas: 2/minute}]
"""


@pytest.fixture
def address() -> Iterator[str]:
    """
    Where a service listens that allows every client two requests a minute.
    """
    with here(RULES) as service:
        yield service.addresses["http"]


def receive(connection: socket.socket, count: int) -> list[tuple[bytes, bytes]]:
    """
    So many responses of one connection, each as its head and its body.
    """
    responses = []
    reader = connection.makefile("rb")
    for _ in range(count):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = reader.readline()
            assert line, head
            head += line
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        responses.append((head, reader.read(int(length.partition(b":")[2]))))
    return responses


def connect(address: str) -> socket.socket:
    """
    A connection to the port.
    """
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def test_requests_that_come_at_once_on_one_connection_are_answered_in_order(address: str) -> None:
    """
    Pipelined checks of one client: two are allowed, the third is not.
    """
    body = json.dumps({"client_id": "a"}).encode()
    request = b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (CHECK.encode(), len(body), body)
    with connect(address) as connection:
        connection.sendall(request * 3)
        answers = [json.loads(body) for _, body in receive(connection, 3)]

    assert [True, True, False] == [answer["allowed"] for answer in answers]
    assert [1, 0, 0] == [answer["remaining"] for answer in answers]


def test_a_body_in_chunks_is_read(address: str) -> None:
    """
    A client that does not know how long its body is.
    """
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (b'{"client', b'_id": "a"}')) + b"0\r\n\r\n"
    with connect(address) as connection:
        connection.sendall(b"POST %s HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" % CHECK.encode() + chunks)
        ((head, body),) = receive(connection, 1)

    assert head.startswith(b"HTTP/1.1 200 ")
    assert json.loads(body)["rule"] == "per_client"


def test_a_client_may_wait_until_its_body_is_wanted(address: str) -> None:
    """
    `Expect: 100-continue` is answered before the body comes.
    """
    body = b'{"client_id": "a"}'
    with connect(address) as connection:
        connection.sendall(
            b"POST %s HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n" % (CHECK.encode(), len(body))
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        ((head, _),) = receive(connection, 1)

    assert head.startswith(b"HTTP/1.1 200 ")


def test_a_body_that_is_too_large_is_refused_before_it_is_sent() -> None:
    """
    By what the head says of it.
    """
    with here(RULES, {"limits.body_bytes": 1024}) as service, connect(service.addresses["http"]) as connection:
        connection.sendall(b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: 1025\r\n\r\n" % CHECK.encode())
        ((head, body),) = receive(connection, 1)

    assert head.startswith(b"HTTP/1.1 413 ")
    assert json.loads(body)["title"] == "Payload Too Large"


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    """
    The request is answered when its time is over.
    """
    with here(RULES, {"limits.read_timeout": 0.2}) as service, connect(service.addresses["http"]) as connection:
        connection.sendall(b'POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: 20\r\n\r\n{"client' % CHECK.encode())
        ((head, body),) = receive(connection, 1)

    assert head.startswith(b"HTTP/1.1 408 ")
    assert json.loads(body)["detail"] == "the body took too long"


def test_head_has_no_body_and_the_connection_goes_on(address: str) -> None:
    """
    The length is told, and the next response begins where the head ends.
    """
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    for _ in range(2):
        connection.request("HEAD", "/healthz")
        response = connection.getresponse()
        assert (response.status, response.read(), response.headers["content-length"]) == (200, b"", "15")
    connection.close()


def test_a_gateway_on_a_socket_in_the_file_system_is_believed(tmp_path: Path) -> None:
    """
    It says whom it asks for, and each client is counted by itself.
    """
    with here(RULES, {"http.listen": f"unix:{tmp_path}/tidegate", "trusted_gateways": "198.51.100.0/24"}) as service:
        statuses = [
            ask(service.addresses["http"], "GET", FORWARD_AUTH, headers={"x-forwarded-for": client}).status
            for client in ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2"]
        ]

    assert statuses == [200, 200, 429, 200]


def test_a_client_id_and_its_key_at_a_gateway_are_one_client(address: str) -> None:
    """
    What was checked over JSON counts at the gateway, and the other way round.
    """
    url = f"http://{address}"

    assert ask(url, "POST", CHECK, {"client_id": "abc"}).json["remaining"] == 1
    assert ask(url, "GET", FORWARD_AUTH, headers={"x-api-key": "abc"}).headers["ratelimit"] == '"per_client";r=0;t=60'
    assert ask(url, "POST", CHECK, {"client_id": "abc"}).json["allowed"] is False


def test_a_store_that_is_away_is_told(eventually: Eventually) -> None:
    """
    In readiness, in each decision, and in the status of the reference service's form.
    """
    rules = "version: 1\nrules: [{name: everybody, per: global, quotas: 1000/minute, on_store_error: deny}]\n"
    request = {"domain": "default", "descriptors": [{"entries": [{"key": "client", "value": "a"}]}]}
    with Single() as server, here(rules, {"store": server.url(), "on_store_error": "deny", "budget": "10s"}) as service:
        url = f"http://{service.addresses['http']}"
        eventually(lambda: ask(url, "GET", "/readyz").json["status"] == "ready")
        assert ask(url, "POST", CHECK, {}).json["degraded"] is False
        assert ask(url, "POST", "/json", request).status == 200

        server.kill()
        eventually(lambda: ask(url, "GET", "/readyz").json["status"] == "degraded")
        ready = ask(url, "GET", "/readyz")
        checked = ask(url, "POST", CHECK, {}).json
        forwarded = ask(url, "GET", FORWARD_AUTH)

        assert ready.status == 200
        assert {reason["code"] for reason in ready.json["reasons"]} <= {"store_down", "store_failing"}
        assert (checked["allowed"], checked["degraded"]) == (False, True)
        assert (forwarded.status, forwarded.headers["x-ratelimit-decision"]) == (429, "error")
        assert ask(url, "POST", "/json", request).status == 503


def test_callers_who_go_away_say_nothing_about_the_store(eventually: Eventually) -> None:
    """
    Many of them leave while a slow store works on their requests. It answers them all the same, and is asked again.
    """
    rules = "version: 1\nrules: [{name: everybody, per: global, quotas: 1000/minute}]\n"
    body = b"{}"
    request = b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (CHECK.encode(), len(body), body)
    with Single() as server, here(rules, {"store": server.url(), "budget": "30s", "workers": 1}) as service:
        url = f"http://{service.addresses['http']}"
        assert ask(url, "POST", CHECK, {}).json["remaining"] == 999
        server.node.freeze()
        callers = [connect(service.addresses["http"]) for _ in range(100)]
        for caller in callers:
            caller.sendall(request)
        # With the one that asks for the number.
        eventually(lambda: 'ratelimit_connections{port="http"} 101\n' in ask(url, "GET", "/metrics").body.decode())
        for caller in callers:
            caller.close()
        eventually(lambda: 'ratelimit_connections{port="http"} 1\n' in ask(url, "GET", "/metrics").body.decode())
        server.node.thaw()

        eventually(lambda: ask(url, "POST", "/api/v1/rate-limit/peek", {}).json["remaining"] == 899)
        assert ask(url, "POST", CHECK, {}).json["degraded"] is False
        eventually(lambda: ask(url, "GET", "/readyz").json["status"] == "ready")
