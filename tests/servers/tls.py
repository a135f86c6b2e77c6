"""
Certificates for servers and clients, made when they are first needed.
"""

from __future__ import annotations

import functools
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from .process import new_folder

if TYPE_CHECKING:
    from pathlib import Path

    import trustme

HERE = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Certificates:
    """
    The files of one certificate authority, all PEM.
    """

    ca: Path
    server_cert: Path
    server_key: Path
    client_cert: Path
    client_key: Path

    def in_url(self, url: str) -> str:
        """
        An address that says whom to trust and who one is, as the store reads it. Other clients do not.
        """
        told = urlencode({"tls_ca": self.ca, "tls_cert": self.client_cert, "tls_key": self.client_key}, safe="/")
        return f"{url}{'&' if '?' in url else '?'}{told}"

    def server_context(self, *, auth_clients: bool) -> ssl.SSLContext:
        """
        What a server in Python needs.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_cert, self.server_key)
        if auth_clients:
            context.load_verify_locations(self.ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client_context(self) -> ssl.SSLContext:
        """
        What a client in Python needs that shows its certificate.
        """
        context = ssl.create_default_context(cafile=str(self.ca))
        context.check_hostname = False  # the harness also asks servers whose name is wrong on purpose
        context.load_cert_chain(self.client_cert, self.client_key)
        return context


@dataclass(frozen=True)
class SelfSigned:
    """
    A certificate that nobody else signed, as `openssl req -x509` makes it: it says of itself that it is an authority.
    """

    cert: Path
    key: Path


def self_signed(hosts: tuple[str, ...] = HERE) -> SelfSigned:
    """
    Makes one for a server with these names, each time another one.
    """
    import trustme  # noqa: PLC0415 - as below
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    folder = new_folder("self-signed")
    # Its names and dates are those of a usual one; only who signs it is not.
    usual = x509.load_pem_x509_certificate(trustme.CA().issue_cert(*hosts).cert_chain_pems[0].bytes())
    names = usual.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder(usual.subject, usual.subject, key.public_key(), usual.serial_number)
    builder = builder.not_valid_before(usual.not_valid_before_utc).not_valid_after(usual.not_valid_after_utc)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(names.value, critical=names.critical)
    made = SelfSigned(folder / "cert.pem", folder / "key.pem")
    made.cert.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    made.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return made


@functools.cache
def _folder() -> Path:
    return new_folder("certificates")


def certificates(hosts: tuple[str, ...] = HERE) -> Certificates:
    """
    Certificates for a server with these names, always the same in one process.

    Every set of names has an authority of its own, so that those of other names are also those of a stranger.
    """
    return _make(hosts)


@functools.cache
def _make(hosts: tuple[str, ...]) -> Certificates:
    import trustme  # noqa: PLC0415 - takes longer than the start of a server that needs none

    folder = _folder() / "-".join(hosts).replace(":", "_")
    folder.mkdir()
    authority = trustme.CA()
    ca = folder / "ca.pem"
    authority.cert_pem.write_to_path(ca)
    server = _write(authority.issue_cert(*hosts), folder, "server")
    client = _write(authority.issue_cert("limiter@localhost", common_name="limiter"), folder, "client")
    return Certificates(ca, *server, *client)


def _write(leaf: trustme.LeafCert, folder: Path, name: str) -> tuple[Path, Path]:
    chain, key = folder / f"{name}.pem", folder / f"{name}.key"
    chain.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    leaf.private_key_pem.write_to_path(key)
    return chain, key
