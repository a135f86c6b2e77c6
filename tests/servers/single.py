"""
One server for the tests, with everything that an address can ask for: password, users, Unix socket, TLS.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from . import binaries
from .faketime import Clock
from .faults import Proxy
from .node import HOST, Node, data_config, tls_config
from .resp import Argument, Login, Reply
from .tls import HERE, Certificates, certificates
from .waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HARNESS = Login(user="harness", password="harness")
"""Who the harness is where users exist: a test may take all rights away from the default one."""


def credentials(login: Login | None) -> str:
    """
    The part of an address before the host.
    """
    return f"{quote(login.user or '', safe='')}:{quote(login.password, safe='')}@" if login else ""


@dataclass(kw_only=True, eq=False)
class Single:
    """
    A running server. It runs from construction to `stop`, or to the end of the `with` block.

    Args:
        server: Which one, of `binaries.NAMES`.
        password: What the default user must say.
        acl: Lines of users, such as `user limiter on >secret ~tg:* +@all`.
        tls: Whether the port speaks TLS: by itself where it was built with it, else by a proxy in front of it.
        tls_auth_clients: Whether clients must show a certificate.
        tls_hosts: Names in the certificate.
        maxmemory: Such as `3mb`.
        maxmemory_policy: What goes when it is full.
        faketime: Whether `step_clock` is possible.
        config: More lines of configuration.
    """

    server: str = "valkey"
    password: str | None = None
    acl: Sequence[str] = ()
    tls: bool = False
    tls_auth_clients: bool = False
    tls_hosts: tuple[str, ...] = HERE
    maxmemory: str | None = None
    maxmemory_policy: str = "noeviction"
    faketime: bool = False
    config: Sequence[str] = ()
    node: Node = field(init=False)
    _clock: Clock | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        binary = binaries.binary(self.server)
        is_tls_native = self.tls and binary.has_tls
        self.node = Node(
            binary,
            [],
            name=self.server,
            login=HARNESS if self.acl else Login(self.password) if self.password else None,
            tls=self._files().client_context() if is_tls_native else None,
        )
        self.node.config = self._config(binary, is_tls_native=is_tls_native)
        if self.faketime:
            if binary.name == "redis70":
                raise binaries.Missing("libfaketime does not work with the memory allocator of this redis-server")
            self._clock = Clock(self.node.folder)
            self.node.env = self._clock.environment()
        self.node.start()
        self.node.wait_ready()
        if self.tls and not is_tls_native:
            self.node.front = Proxy(self.node.port, tls=self._files().server_context(auth_clients=self.tls_auth_clients))

    def _config(self, binary: binaries.Binary, *, is_tls_native: bool) -> list[str]:
        lines = [*data_config(binary), f"unixsocket {self.unix_socket}", f"maxmemory-policy {self.maxmemory_policy}"]
        if self.maxmemory:
            lines.append(f"maxmemory {self.maxmemory}")
        if self.password:
            lines.append(f'requirepass "{self.password}"')
        if self.acl:
            lines += [*self.acl, f"user {HARNESS.user} on >{HARNESS.password} ~* &* +@all"]
        if is_tls_native:
            lines += tls_config(self._files(), auth_clients=self.tls_auth_clients)
        return [*lines, *self.config]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """
        Where clients connect.
        """
        return self.node.client_port

    @property
    def address(self) -> str:
        """
        Host and port.
        """
        return self.node.address

    @property
    def pid(self) -> int:
        """
        The number of the process.
        """
        return self.node.process.pid

    @property
    def unix_socket(self) -> Path:
        """
        The other way to it, without TLS.
        """
        return self.node.folder / "socket"

    @property
    def certificates(self) -> Certificates | None:
        """
        The files for TLS.
        """
        return self._files() if self.tls else None

    def _files(self) -> Certificates:
        return certificates(self.tls_hosts)

    def url(self, *, login: Login | None = None, db: int | None = None, host: str = HOST) -> str:
        """
        Its address, by default with the password of the default user.
        """
        scheme = "rediss" if self.tls else "redis"
        login = login or (Login(self.password) if self.password else None)
        return f"{scheme}://{credentials(login)}{host}:{self.port}" + ("" if db is None else f"/{db}")

    def unix_url(self, *, db: int | None = None) -> str:
        """
        Its address by the Unix socket.
        """
        login = Login(self.password) if self.password else None
        return f"unix://{credentials(login)}{self.unix_socket}" + ("" if db is None else f"?db={db}")

    def command(self, *arguments: Argument) -> Reply:
        """
        Asks one command, as a user who may do everything.
        """
        return self.node.command(*arguments)

    def step_clock(self, seconds: float) -> None:
        """
        Moves its clock, only with `faketime`. The step is in force on return.
        """
        assert self._clock, "started without faketime=True"
        self._clock.step(seconds)
        expected = self._clock.offset_s
        self._skew_s()  # the first command after a step may still be answered by the time that the server has cached
        until(lambda: abs(self._skew_s() - expected) < 0.05, 5, "the clock was stepped")

    def _skew_s(self) -> float:
        reply = self.command("TIME")
        assert isinstance(reply, list)
        seconds, microseconds = (int(part) for part in reply if isinstance(part, bytes))
        return seconds + microseconds / 1e6 - time.time()  # noqa: TID251 - compares a clock with the true one

    def kill(self) -> None:
        """
        SIGKILL. Connections are reset, and new ones are refused.
        """
        self.node.kill()

    def freeze(self) -> None:
        """
        Stops it without a word.
        """
        self.node.freeze()

    def thaw(self) -> None:
        """
        Lets it go on.
        """
        self.node.thaw()

    def restart(self) -> None:
        """
        Kills it if it still runs, and starts it again on the same port, without its data.
        """
        self.node.restart()

    def stop(self) -> None:
        """
        Ends it for good.
        """
        self.node.stop()
