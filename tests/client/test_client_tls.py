"""
Who is trusted on the way to a service: certificates, and the token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidegate import Client
from tidegate.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.conftest import Connect
    from tests.servers import certificates
    from tests.service.running import here
else:
    from servers import certificates
    from service.running import here

FACTS = {"client": "a"}
RULES = "version: 1\nrules: [{name: all, per: client, quotas: 100/hour}]\n"
TOKEN = "a-token-of-the-service"  # noqa: S105, RUF100  # for this test only


def settings(*, is_mutual: bool = False) -> dict[str, Any]:
    """
    Certificates on both ports.
    """
    made = certificates()
    files = {"cert": made.server_cert, "key": made.server_key} | ({"client_ca": made.ca} if is_mutual else {})
    return {f"{port}.tls.{name}": path for port in ("http", "grpc") for name, path in files.items()}


@pytest.mark.parametrize(("port", "scheme"), [("http", "https"), ("grpc", "grpcs")])
def test_only_a_service_with_the_right_certificate_is_believed(port: str, scheme: str, connect: Connect) -> None:
    """
    Whom the system does not trust has to be named; nothing turns the check off.
    """
    with here(RULES, settings()) as service:
        address = f"{scheme}://localhost:{service.addresses[port].rpartition(':')[2]}"
        trusting, strict = connect(address, ca=certificates().ca), connect(address)

        assert [False] * 3 == [trusting.check(FACTS).degraded for _ in range(3)]
        assert "service_unavailable" == strict.check(FACTS).reason


@pytest.mark.parametrize(("port", "scheme"), [("http", "https"), ("grpc", "grpcs")])
def test_a_client_shows_its_certificate(port: str, scheme: str, connect: Connect) -> None:
    """
    To a service that lets in nobody else.
    """
    made = certificates()
    with here(RULES, settings(is_mutual=True)) as service:
        address = f"{scheme}://localhost:{service.addresses[port].rpartition(':')[2]}"
        known = connect(address, ca=made.ca, certificate=(made.client_cert, made.client_key))

        assert not known.check(FACTS).degraded
        assert "service_unavailable" == connect(address, ca=made.ca).check(FACTS).reason


async def test_tls_does_not_hold_up_the_loop(connect: Connect) -> None:
    """
    The same over an event loop, on one connection.
    """
    with here(RULES, settings()) as service:
        client = connect(f"https://localhost:{service.addresses['http'].rpartition(':')[2]}", ca=certificates().ca, connections=1)

        assert [False] * 20 == [(await client.check_async(FACTS)).degraded for _ in range(20)]


def test_the_token_is_shown(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    """
    Who shows another one is refused, which is told once and without the token; the service is not thought to be down.
    """
    with here(RULES, {"http.token": TOKEN}) as service:
        address = f"http://{service.addresses['http']}"
        right, wrong = connect(address, token=TOKEN), connect(address, token="another-token")  # noqa: S106, RUF100  # as above

        assert not right.check(FACTS).degraded
        assert right.reset(FACTS)
        assert {"service_refused"} == {wrong.check(FACTS).reason for _ in range(10)}
        assert "degraded" == wrong.health().status
        with pytest.raises(UsageError, match="token="):
            wrong.reset(FACTS)

    assert 1 == sum("service_refused" in record.message for record in caplog.records)
    assert "another-token" not in caplog.text + repr(wrong) + str(wrong.health())


def test_sockets_in_the_file_system(tmp_path: Path, connect: Connect) -> None:
    """
    Of both ports.
    """
    with here(RULES, {"http.listen": f"unix:{tmp_path}/h", "grpc.listen": f"unix:{tmp_path}/g"}):
        for address in (f"unix://{tmp_path}/h", f"grpc+unix://{tmp_path}/g"):
            client = connect(address)

            assert "all" == client.check(FACTS).rule
            assert f"Client({address!r})" == repr(client)


def test_a_closed_client_says_so() -> None:
    """
    As a closed limiter does.
    """
    with Client("http://127.0.0.1:1") as client:
        assert not client.closed
    client.close()

    with pytest.raises(UsageError, match="closed"):
        client.check(FACTS)
