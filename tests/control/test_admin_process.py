"""
The port of the control plane as a real process has it: TLS, sockets, signals, and a database that is away when it starts.
"""

from __future__ import annotations

import re
import shutil
import signal
import ssl
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Eventually
    from tests.control.controlling import bring_back, take_away
    from tests.servers import Certificates, certificates
    from tests.servers.process import Process
    from tests.servers.waiting import until
else:
    from controlling import bring_back, take_away
    from servers import certificates
    from servers.process import Process
    from servers.waiting import until

RULES = "version: 1\nrules: [{name: everybody, per: global, quotas: 1000/minute}]\n"
API = "/api/v1/rate-limit/rules"
DENIES = {"rule_id": "no_orders", "endpoint_pattern": "/orders/**", "limit": 0, "window_seconds": 60, "scope": "global"}
WITHIN = 30.0
_PORT = re.compile(r"^  (http|admin) +(\S+)$", re.MULTILINE)


class Running:
    """
    A child process that runs `tidegate serve` or `tidegate admin`: where it listens, and what it said.
    """

    def __init__(self, command: str, folder: Path, *words: str) -> None:
        self.log_file = folder / "log"
        self.log_file.unlink(missing_ok=True)
        rules = folder / "rules.yaml"
        rules.write_text(RULES, encoding="utf-8")
        shared = ["--rules", str(rules), "--admin-database", f"sqlite:///{folder}/tidegate.db", "--shutdown-grace", "0"]
        shared += ["--admin-cache", str(folder / "kept")]
        if command == "serve":
            shared += ["--http-listen", "127.0.0.1:0", "--grpc-listen", "off", "--workers", "1"]
        self.process = Process([sys.executable, "-m", "tidegate", command, *shared, *words], log=self.log_file)
        until(lambda: not self.process.is_running or "\nstop: " in self.log, WITHIN, lambda: self.log)
        self.addresses = dict(_PORT.findall(self.log))

    @property
    def log(self) -> str:
        """
        Everything that it said.
        """
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    @property
    def token(self) -> str:
        """
        The first token, which is shown once.
        """
        found = re.search(r"\btg_[\w-]+", self.log)
        assert found is not None, self.log
        return found[0]

    def end(self) -> int | None:
        """
        SIGTERM: its exit code.
        """
        self.process.send(signal.SIGTERM)
        until(lambda: not self.process.is_running, WITHIN, lambda: self.log)
        return self.process.exit_code


@contextmanager
def running(command: str, folder: Path, *words: str) -> Iterator[Running]:
    """
    Runs it for as long as the block.
    """
    made = Running(command, folder, *words)
    try:
        yield made
    except BaseException as error:
        error.add_note(made.log[-4000:])
        raise
    finally:
        made.process.kill()


def client(running: Running, **options: Any) -> httpx.Client:  # noqa: ANN401  # as httpx
    """
    Who may do everything, with the token of the first start.
    """
    base = options.pop("base_url", running.addresses["admin"])
    return httpx.Client(base_url=base, headers={"authorization": f"Bearer {running.token}"}, timeout=30, **options)


def is_denied(running: Running) -> bool:
    """
    What the data plane says to an order.
    """
    body = {"client_id": "a", "method": "POST", "endpoint": "/orders/1"}
    return not httpx.post(f"{running.addresses['http']}/api/v1/rate-limit/check", json=body, timeout=30).json()["allowed"]


@pytest.mark.parametrize("command", ["serve", "admin"])
def test_it_starts_shows_a_token_once_and_ends_in_peace(command: str, tmp_path: Path) -> None:
    """Beside a service and on its own; the second start has no token to show."""
    with running(command, tmp_path, "--admin-listen", "127.0.0.1:0") as first:
        with client(first) as admin:
            assert 200 == admin.get(API).status_code
        assert 0 == first.end()
        token = first.token
    with running(command, tmp_path, "--admin-listen", "127.0.0.1:0") as second:
        assert token not in second.log
        assert 200 == httpx.get(f"{second.addresses['admin']}/healthz", timeout=30).status_code
        assert 200 == httpx.get(f"{second.addresses['admin']}{API}", headers={"authorization": f"Bearer {token}"}, timeout=30).status_code
        assert 0 == second.end()


def test_a_socket_in_the_file_system_is_a_port_too(tmp_path: Path) -> None:
    """It goes when the process ends, and one that was left over by a process that was killed is taken."""
    path = tmp_path / "admin.sock"
    with running("admin", tmp_path, "--admin-listen", f"unix:{path}") as first:
        token = first.token
        first.process.kill()
    assert path.exists()
    with running("admin", tmp_path, "--admin-listen", f"unix:{path}") as second:
        transport = httpx.HTTPTransport(uds=str(path))
        headers = {"authorization": f"Bearer {token}"}
        with httpx.Client(transport=transport, base_url="http://localhost", headers=headers, timeout=30) as admin:
            assert 200 == admin.get(API).status_code
        assert 0 == second.end()
    assert not path.exists()


def trusting(made: Certificates) -> ssl.SSLContext:
    """
    A client that trusts an authority.
    """
    return ssl.create_default_context(cafile=str(made.ca))


def test_tls_is_spoken_and_certificates_are_read_again(tmp_path: Path, eventually: Eventually) -> None:
    """On SIGHUP, without an end; one that cannot be read leaves those in force."""
    first, second = certificates(), certificates(("127.0.0.1", "localhost", "other.test"))
    cert, key = (shutil.copy(path, tmp_path / name) for path, name in ((first.server_cert, "cert.pem"), (first.server_key, "key.pem")))
    words = ("--admin-listen", "127.0.0.1:0", "--admin-tls-cert", str(cert), "--admin-tls-key", str(key))
    with running("admin", tmp_path, *words) as plane, ExitStack() as stack:
        assert plane.addresses["admin"].startswith("https://")
        admin = stack.enter_context(client(plane, verify=trusting(first)))
        assert 200 == admin.get(API).status_code

        (tmp_path / "cert.pem").write_text("no certificate", encoding="utf-8")
        plane.process.send(signal.SIGHUP)
        eventually(lambda: "certificates refused" in plane.log, WITHIN)
        assert 200 == httpx.get(f"{plane.addresses['admin']}/healthz", verify=trusting(first), timeout=30).status_code

        shutil.copy(second.server_cert, tmp_path / "cert.pem")
        shutil.copy(second.server_key, tmp_path / "key.pem")
        plane.process.send(signal.SIGHUP)
        eventually(lambda: is_trusted(plane, second), WITHIN)
        assert 0 == plane.end()


def is_trusted(plane: Running, made: Certificates) -> bool:
    """
    Whether it shows a certificate of an authority.
    """
    try:
        return httpx.get(f"{plane.addresses['admin']}/healthz", verify=trusting(made), timeout=30).is_success
    except httpx.ConnectError:
        return False


def test_a_service_whose_database_is_away_at_its_start_decides_by_what_was_kept(tmp_path: Path, eventually: Eventually) -> None:
    """It says so, SIGHUP does not hurt, and it takes up the database when that is there."""
    listen = ("--admin-listen", "127.0.0.1:0")
    with running("serve", tmp_path, *listen) as first, client(first) as admin:
        assert 201 == admin.post(API, json=DENIES).status_code
        eventually(lambda: is_denied(first), WITHIN)
        eventually(lambda: (tmp_path / "kept").exists() and "no_orders" in (tmp_path / "kept").read_text(encoding="utf-8"), WITHIN)
        assert 0 == first.end()
    take_away(tmp_path / "tidegate.db")
    with running("serve", tmp_path, *listen) as again:
        assert is_denied(again)
        ready = httpx.get(f"{again.addresses['http']}/readyz", timeout=30)
        assert (200, ["control_plane_failing"]) == (ready.status_code, [reason["code"] for reason in ready.json()["reasons"]])
        assert 503 == httpx.get(f"{again.addresses['admin']}/readyz", timeout=30).status_code
        again.process.send(signal.SIGHUP)
        eventually(lambda: "rules loaded" in again.log, WITHIN)
        assert is_denied(again)

        bring_back(tmp_path / "tidegate.db")
        eventually(lambda: [] == httpx.get(f"{again.addresses['http']}/readyz", timeout=30).json()["reasons"], WITHIN)
        assert is_denied(again)
        assert 0 == again.end()


def test_on_its_own_it_does_not_start_without_its_database(tmp_path: Path) -> None:
    """There is nothing that it could do."""
    (tmp_path / "tidegate.db").mkdir()
    with running("admin", tmp_path, "--admin-listen", "127.0.0.1:0") as plane:
        assert not plane.process.is_running
        assert plane.process.exit_code not in {0, None}
        assert "error:" in plane.log
        assert "Traceback" not in plane.log
