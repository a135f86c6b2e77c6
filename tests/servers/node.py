"""
One server process: what single servers, sentinels and the nodes of a cluster have in common.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .ports import free_port
from .process import Process, new_folder
from .resp import Argument, Connection, Login, Reply
from .waiting import until

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .binaries import Binary
    from .faults import Proxy
    from .tls import Certificates

HOST = "127.0.0.1"


class StartFailed(Exception):
    """
    A server ended instead of answering. The message has the end of its log.
    """


def data_config(binary: Binary) -> list[str]:
    """
    What every server has that keeps data: nothing on disk, and commands that break it on purpose.
    """
    config = ['save ""', "appendonly no", "repl-diskless-sync yes", "repl-diskless-sync-delay 0", "protected-mode no"]
    if binary.is_redis_7:
        config.append("enable-debug-command yes")
    return config


def tls_config(files: Certificates, *, auth_clients: bool) -> list[str]:
    """
    TLS of a server that was built with it, also among servers.
    """
    return [
        f"tls-ca-cert-file {files.ca}",
        f"tls-cert-file {files.server_cert}",
        f"tls-key-file {files.server_key}",
        f"tls-auth-clients {'yes' if auth_clients else 'no'}",
        "tls-replication yes",
    ]


@dataclass(eq=False)
class Node:
    """
    One server, started by `start` and answering after `wait_ready`.

    Args:
        binary: The program.
        config: Lines of its configuration, without port and folder.
        name: For its folder.
        login: How the harness logs in.
        tls: How the harness connects, if the port speaks TLS.
        env: More variables of its environment.
        arguments: More arguments of the program.
        front: Speaks TLS for it. The nodes of a cluster and their replicas still use the port behind it.
    """

    binary: Binary
    config: Sequence[str]
    name: str
    login: Login | None = None
    tls: ssl.SSLContext | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    front: Proxy | None = None
    port: int = field(init=False, default=0)
    folder: Path = field(init=False)
    process: Process = field(init=False)
    is_frozen: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.folder = new_folder(self.name)

    @property
    def client_port(self) -> int:
        """
        Where clients connect.
        """
        return self.front.port if self.front else self.port

    @property
    def address(self) -> str:
        """
        Host and port, for clients.
        """
        return f"{HOST}:{self.client_port}"

    @property
    def is_running(self) -> bool:
        """
        Whether the process has not ended.
        """
        return self.process.is_running

    def start(self) -> None:
        """
        Starts the process, and does not wait: several can start at the same time.
        """
        file = self.folder / "server.conf"
        # Written once: sentinels keep what they have learnt in their configuration.
        if not file.exists():
            self.port = free_port()
            ports = f"port 0\ntls-port {self.port}" if self.tls else f"port {self.port}"
            file.write_text(f"bind {HOST}\n{ports}\ndir {self.folder}\n" + "".join(f"{line}\n" for line in self.config))
        self.process = Process([self.binary.path, file, *self.arguments], log=self.folder / "log", env=self.env)
        self.is_frozen = False

    def wait_ready(self, within: float = 10.0) -> None:
        """
        Waits for its first answer.

        Raises:
            StartFailed: It ended.
        """
        until(self._is_ready, within, lambda: f"{self.name} answers. Its log:\n{self.log()}")

    def _is_ready(self) -> bool:
        if not self.process.is_running:
            log = self.log()
            if "Address already in use" not in log:
                raise StartFailed(f"{self.binary.text} ended. Its log:\n{log}")
            self.process.kill()
            (self.folder / "server.conf").unlink()
            (self.folder / "log").unlink()
            self.start()
        # A stranger may listen on this port, whose own process has not noticed yet that it is taken.
        return f"process_id:{self.process.pid}\r\n" in self.ask("INFO", "server")

    def log(self, lines: int = 30) -> str:
        """
        The end of what it logged.
        """
        return "\n".join((self.folder / "log").read_text(errors="replace").splitlines()[-lines:])

    def connect(self) -> Connection:
        """
        A connection, logged in.
        """
        return Connection(self.port, login=self.login, tls=self.tls)

    def command(self, *arguments: Argument) -> Reply:
        """
        Asks one command on a connection of its own.
        """
        with self.connect() as connection:
            return connection.call(*arguments)

    def ask(self, *arguments: Argument) -> str:
        """
        Asks a command that is answered by text.
        """
        reply = self.command(*arguments)
        assert isinstance(reply, (bytes, str)), reply
        return reply if isinstance(reply, str) else reply.decode()

    def kill(self) -> None:
        """
        SIGKILL. Connections are reset, and new ones are refused.
        """
        self.process.kill()
        if self.front:
            self.front.refuse()

    def freeze(self) -> None:
        """
        Stops it without a word: connections stay, answers do not come.
        """
        self.process.freeze()
        self.is_frozen = True

    def thaw(self) -> None:
        """
        Lets it go on.
        """
        self.process.thaw()
        self.is_frozen = False

    def restart(self) -> None:
        """
        Kills it if it still runs, and starts it again on the same port, without its data.
        """
        self.kill()
        self.start()
        self.wait_ready()
        if self.front:
            self.front.pass_through()

    def stop(self) -> None:
        """
        Ends it for good.
        """
        self.process.kill()
        if self.front:
            self.front.close()
