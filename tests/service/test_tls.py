"""
TLS on both ports: who is trusted, and certificates that change while the service runs.
"""

from __future__ import annotations

import shutil
import socket
import ssl
from typing import TYPE_CHECKING, Any

import grpc
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Eventually
    from tests.servers import Certificates, certificates
    from tests.service.conftest import Serve
    from tests.service.running import Running, ask
else:
    from running import ask
    from servers import certificates

HEALTH = "/grpc.health.v1.Health/Check"
SERVING = b"\x08\x01"


def files(made: Certificates, *, is_mutual: bool = False) -> dict[str, Any]:
    """
    Settings that use certificates on both ports.
    """
    names = {"cert": made.server_cert, "key": made.server_key, **({"client_ca": made.ca} if is_mutual else {})}
    return {f"{port}.tls.{name}": path for port in ("http", "grpc") for name, path in names.items()}


def trusting(made: Certificates) -> ssl.SSLContext:
    """
    A client that trusts an authority, and shows nothing.
    """
    return ssl.create_default_context(cafile=str(made.ca))


def is_trusted(service: Running, made: Certificates) -> bool:
    """
    Whether a client that trusts an authority trusts the service.
    """
    try:
        return ask(service.http, "GET", "/healthz", context=trusting(made)).status == 200
    except ssl.SSLCertVerificationError:
        return False


def health(service: Running, credentials: grpc.ChannelCredentials) -> bytes:
    """
    What the port of gRPC says about itself.
    """
    with grpc.secure_channel(service.grpc, credentials) as channel:
        call: Callable[..., bytes] = channel.unary_unary(HEALTH)
        return call(b"", timeout=20)


@pytest.fixture
def copies(tmp_path: Path) -> dict[str, Any]:
    """
    Settings that use copies of certificates, which a test may replace.
    """
    return {f"http.tls.{name}": tmp_path / name for name in replace(tmp_path, certificates())}


def replace(folder: Path, made: Certificates) -> dict[str, Path]:
    """
    Puts certificates into a folder, as one step each.
    """
    found = {"cert": made.server_cert, "key": made.server_key}
    for name, path in found.items():
        shutil.copy(path, folder / f"{name}.new")
        (folder / f"{name}.new").rename(folder / name)
    return found


def test_both_ports_speak_tls(serve: Serve) -> None:
    """
    And both versions of HTTP, as the client likes.
    """
    made = certificates()
    service = serve(settings=files(made))

    assert service.http.startswith("https://")
    assert is_trusted(service, made)
    assert health(service, grpc.ssl_channel_credentials(made.ca.read_bytes())) == SERVING
    for offered, expected in [(["h2", "http/1.1"], "h2"), (["http/1.1"], "http/1.1"), (["h2"], "h2")]:
        context = trusting(made)
        context.set_alpn_protocols(offered)
        host, _, port = service.http.rpartition("/")[2].rpartition(":")
        with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain, server_hostname=host) as wrapped:
            assert wrapped.selected_alpn_protocol() == expected


def test_who_speaks_no_tls_is_sent_away(serve: Serve) -> None:
    """
    Without a word of HTTP.
    """
    service = serve(settings=files(certificates()))
    host, _, port = service.http.rpartition("/")[2].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n")
        assert not plain.recv(1_000).startswith(b"HTTP/")
    assert is_trusted(service, certificates())


def test_clients_show_certificates_if_asked_to(serve: Serve) -> None:
    """
    Of the authority that was named, and of no other.
    """
    made, stranger = certificates(), certificates(("stranger",))
    service = serve(settings=files(made, is_mutual=True))

    assert ask(service.http, "GET", "/healthz", context=made.client_context()).status == 200
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(service.http, "GET", "/healthz", context=trusting(made))
    context = trusting(made)
    context.load_cert_chain(stranger.client_cert, stranger.client_key)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(service.http, "GET", "/healthz", context=context)
    shown = (made.ca.read_bytes(), made.client_key.read_bytes(), made.client_cert.read_bytes())
    assert health(service, grpc.ssl_channel_credentials(*shown)) == SERVING
    with pytest.raises(grpc.RpcError):
        health(service, grpc.ssl_channel_credentials(made.ca.read_bytes()))


def test_new_certificates_are_used_without_a_restart(serve: Serve, copies: dict[str, Any], tmp_path: Path, eventually: Eventually) -> None:
    """
    New connections see them; nothing else changes.
    """
    old, new = certificates(), certificates(("127.0.0.1", "renewed"))
    service = serve(settings=copies)
    assert is_trusted(service, old)
    replace(tmp_path, new)
    eventually(lambda: is_trusted(service, new))

    assert not is_trusted(service, old)
    eventually(lambda: "certificates loaded again" in service.log)


def test_bad_certificates_keep_the_old_ones_and_are_told(
    serve: Serve, copies: dict[str, Any], tmp_path: Path, eventually: Eventually
) -> None:
    """
    Until they are mended.
    """
    old, new = certificates(), certificates(("127.0.0.1", "renewed"))
    service = serve(settings=copies)
    shutil.copy(new.server_key, tmp_path / "key")

    def told() -> str:
        return ask(service.http, "GET", "/readyz", context=trusting(old)).body.decode()

    # A half of the key, which is copied byte by byte, has another problem.
    eventually(lambda: "http.tls.key" in told() and "does not belong to the certificate" in told())
    eventually(lambda: "certificates refused, those in force stay: http.tls.key" in service.log)
    assert is_trusted(service, old)
    replace(tmp_path, new)
    eventually(lambda: is_trusted(service, new))
    # Noted after they are in force.
    eventually(lambda: "http.tls" not in ask(service.http, "GET", "/readyz", context=trusting(new)).body.decode())
