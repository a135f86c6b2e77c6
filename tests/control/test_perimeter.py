"""
Whom the control plane talks to at all, how much it reads, and what it tells browsers.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import httpx
import pytest

from tidegate.control.api.perimeter import BODY_BYTES
from tidegate.control.web import _bind
from tidegate.service.places import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.control.controlling import Clients


@pytest.fixture
def kind() -> str:
    """
    The database does not matter here.
    """
    return "sqlite"


def test_a_foreign_name_that_leads_here_is_refused(client: Clients) -> None:
    """
    DNS rebinding: a page of somebody else asks its own name, which now is our address.
    """
    good = [client.nobody.get("/healthz", headers={"host": host}).status_code for host in ("localhost:1", "127.0.0.1", "[::1]:8090")]
    foreign = [
        client.nobody.get("/healthz", headers={"host": host}) for host in ("evil.example", "localhost.evil.example:8090", "", "a:b:c")
    ]

    assert [200] * 3 == good
    assert [421] * 4 == [answer.status_code for answer in foreign]
    assert "admin.hosts" in foreign[0].json()["detail"]


def test_a_page_of_somebody_else_changes_nothing(client: Clients) -> None:
    """
    Not even with a token.
    """
    ours = {"origin": f"http://{client.control.address}"}
    foreign = [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}]
    body = {"name": "ours", "role": "viewer"}

    assert [403] * 4 == [client.admin.post("/admin/v1/tokens", json=body, headers=headers).status_code for headers in foreign]
    assert 201 == client.admin.post("/admin/v1/tokens", json=body, headers=ours).status_code


def test_ten_megabytes_are_refused(client: Clients) -> None:
    """
    Whether their length is told or not, and before anybody has read them.
    """

    def pieces() -> Iterator[bytes]:
        for _ in range(10):
            yield b"x" * BODY_BYTES

    told = client.admin.post("/admin/v1/tokens", content=b"x" * 10 * BODY_BYTES)
    assert 413 == told.status_code
    assert "application/problem+json" == told.headers["content-type"]
    try:
        streamed = client.admin.post("/admin/v1/tokens", content=pieces())
    except (OSError, httpx.TransportError):
        # The answer came while the client was still sending, and the connection was closed.
        return
    assert 413 == streamed.status_code


def test_a_body_that_fits_is_read(client: Clients) -> None:
    """
    And then it is too long for a name.
    """
    assert 422 == client.admin.post("/admin/v1/tokens", json={"name": "x" * (BODY_BYTES - 100), "role": "viewer"}).status_code


def test_browsers_are_told_to_be_strict(client: Clients) -> None:
    """
    On answers of every kind: no script inside a page, nothing from elsewhere, in no frame, in no cache.
    """
    for answer in (client.viewer.get("/api/v1/session"), client.nobody.get("/api/v1/session"), client.nobody.get("/nothing")):
        policy = answer.headers["content-security-policy"]

        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "nosniff" == answer.headers["x-content-type-options"]
        assert "no-store" == answer.headers["cache-control"]
        assert "server" not in answer.headers


def test_what_is_not_there_is_a_problem(client: Clients) -> None:
    """
    As everywhere in Tidegate.
    """
    missing, wrong = client.viewer.get("/nothing"), client.viewer.patch("/admin/v1/audit")

    assert (404, 405) == (missing.status_code, wrong.status_code)
    assert {"application/problem+json"} == {answer.headers["content-type"] for answer in (missing, wrong)}
    assert "GET" in wrong.headers["allow"]


def test_what_nobody_foresaw_is_told_without_its_inside(client: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The log has it; the answer does not.
    """

    def fail() -> None:
        raise RuntimeError("hunter2")

    monkeypatch.setattr(client.control.database, "reading", fail)
    answer = client.viewer.get("/api/v1/session")

    assert 500 == answer.status_code
    assert "application/problem+json" == answer.headers["content-type"]
    assert "hunter2" not in answer.text


def test_bytes_that_are_no_http_hurt_nobody(client: Clients) -> None:
    """
    The port answers others afterwards.
    """
    host, _, port = str(client.control.address).rpartition(":")
    for sent in (b"\x16\x03\x01\x02\x00", b"GET / HTTP/9\r\n\r\n", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1000)

    assert 200 == client.nobody.get("/healthz").status_code


def test_an_answer_waits_for_nobody_to_acknowledge_its_head() -> None:
    """
    Head and body are two packets: one that waits for the other to arrive takes 40 ms more. Connections have what their listener has.
    """
    with _bind(Place("127.0.0.1", 0)) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
