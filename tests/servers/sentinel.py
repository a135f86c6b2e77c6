"""
A primary, its replica, and three sentinels that fail over.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self
from urllib.parse import urlencode

from . import binaries
from .node import HOST, Node, data_config, tls_config
from .resp import Login, ServerError
from .single import HARNESS, credentials
from .tls import Certificates, certificates
from .waiting import until

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

NAME = "mymaster"
SENTINELS = 3
# Their own periods are made for networks: a sentinel introduces itself every two seconds, and asks for replicas every ten.
# Five periods of ping must be longer than a second: a replica whose last report is older is not elected, and during a failover it is asked
# for one only every second, whatever the period of info is.
HURRY = {"publish-period": 100, "info-period": 200, "ping-period": 300, "ask-period": 100}


@dataclass(kw_only=True, eq=False)
class Sentinel:
    """
    Running servers, from construction to `stop`, or to the end of the `with` block.

    Args:
        server: Which one, of `binaries.NAMES`.
        password: Of the primary and its replica.
        sentinel_password: Of the sentinels.
        sentinel_user: Whom the sentinel_password belongs to, instead of the default user.
        tls: Whether all of them speak TLS. Only a server that was built with it can.
        tls_auth_clients: Whether clients must show a certificate.
        replicas: How many. More than one shows that the others follow the new primary.
        down_after_ms: After how much silence a sentinel thinks that a server is down. The default depends on how often it asks.
        config: More lines of configuration of the primary and its replicas.
    """

    server: str = "valkey"
    password: str | None = None
    sentinel_password: str | None = None
    sentinel_user: str | None = None
    tls: bool = False
    tls_auth_clients: bool = False
    replicas: int = 1
    down_after_ms: int | None = None
    config: Sequence[str] = ()
    nodes: list[Node] = field(init=False)
    sentinels: list[Node] = field(init=False)

    def __post_init__(self) -> None:
        binary = binaries.binary(self.server)
        if self.tls and not binary.has_tls:
            raise binaries.Missing(f"{binary.text} was built without TLS: sentinels need one that has it (redis70)")
        first = self._data_node(binary, [])
        first.start()
        first.wait_ready()
        self.nodes = [first, *(self._data_node(binary, [f"replicaof {HOST} {first.port}"]) for _ in range(self.replicas))]
        for node in self.nodes[1:]:
            node.start()
        for node in self.nodes[1:]:
            node.wait_ready()
            until(functools.partial(_is_synchronised, node), 10, "the replica has copied its primary")
        # Sentinels ask for replicas once when they start, and then rarely: there must be something to find.
        self.sentinels = [self._sentinel(binary, first.port) for _ in range(SENTINELS)]
        for sentinel in self.sentinels:
            sentinel.start()
        for sentinel in self.sentinels:
            sentinel.wait_ready()
            self._hurry(sentinel)
        until(self._is_complete, 20, lambda: f"all sentinels know everything.\n{self.sentinels[0].log()}")

    def _data_node(self, binary: binaries.Binary, role: list[str]) -> Node:
        lines = [*data_config(binary), *self._tls_lines(), *role, *self.config]
        if self.password:
            lines += [f'requirepass "{self.password}"', f'masterauth "{self.password}"']
        login = Login(self.password) if self.password else None
        return Node(binary, lines, "data", login=login, tls=self._tls_context())

    def _sentinel(self, binary: binaries.Binary, port: int) -> Node:
        # 6.2 cannot be told to hurry, and asks once a second at most: with less than two, every lost turn is a failover.
        down_after_ms = self.down_after_ms or (800 if binary.is_redis_7 else 2000)
        lines = [
            *self._tls_lines(),
            "protected-mode no",
            f"sentinel monitor {NAME} {HOST} {port} 2",
            f"sentinel down-after-milliseconds {NAME} {down_after_ms}",
            # Twice this time passes before a failover is tried again.
            f"sentinel failover-timeout {NAME} 2000",
            f"sentinel parallel-syncs {NAME} 2",
        ]
        if self.password:
            lines.append(f"sentinel auth-pass {NAME} {self.password}")
        login: Login | None = None
        if self.sentinel_user:
            login = HARNESS
            lines += [
                "user default off",
                f"user {self.sentinel_user} on >{self.sentinel_password} ~* &* +@all",
                f"user {HARNESS.user} on >{HARNESS.password} ~* &* +@all",
                f"sentinel sentinel-user {HARNESS.user}",
                f"sentinel sentinel-pass {HARNESS.password}",
            ]
        elif self.sentinel_password:
            login = Login(self.sentinel_password)
            lines += [f'requirepass "{self.sentinel_password}"', f"sentinel sentinel-pass {self.sentinel_password}"]
        return Node(binary, lines, "sentinel", login=login, tls=self._tls_context(), arguments=["--sentinel"])

    def _tls_lines(self) -> list[str]:
        return tls_config(certificates(), auth_clients=self.tls_auth_clients) if self.tls else []

    def _tls_context(self) -> ssl.SSLContext | None:
        return certificates().client_context() if self.tls else None

    def _hurry(self, sentinel: Node) -> None:
        if sentinel.binary.is_redis_7:
            sentinel.command("SENTINEL", "DEBUG", *(word for item in HURRY.items() for word in item))

    def _is_complete(self) -> bool:
        return all(
            len(_rows(sentinel, "SENTINELS")) == SENTINELS - 1
            and len(_rows(sentinel, "REPLICAS")) == self.replicas
            and all(row["flags"] == "slave" and row["master-link-status"] == "ok" for row in _rows(sentinel, "REPLICAS"))
            for sentinel in self.sentinels
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def certificates(self) -> Certificates | None:
        """
        The files for TLS.
        """
        return certificates() if self.tls else None

    def url(self) -> str:
        """
        Its address, with all credentials.
        """
        scheme = "rediss+sentinel" if self.tls else "redis+sentinel"
        login = Login(self.password) if self.password else None
        query = {"sentinel_username": self.sentinel_user, "sentinel_password": self.sentinel_password}
        told = urlencode({name: value for name, value in query.items() if value})
        hosts = ",".join(sentinel.address for sentinel in self.sentinels)
        return f"{scheme}://{credentials(login)}{hosts}/{NAME}" + (f"?{told}" if told else "")

    def primary(self) -> Node:
        """
        The server that the sentinels call the primary.
        """
        for sentinel in self.sentinels:
            if sentinel.is_running and not sentinel.is_frozen:
                return self._primary_of(sentinel)
        raise RuntimeError("no sentinel is left")

    def _primary_of(self, sentinel: Node) -> Node:
        reply = sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
        assert isinstance(reply, list)
        assert isinstance(reply[1], bytes)
        port = int(reply[1])
        return next(node for node in self.nodes if node.port == port)

    def kill_primary(self) -> Node:
        """
        SIGKILL.

        Returns:
            The one that was killed.
        """
        primary = self.primary()
        primary.kill()
        return primary

    def freeze_primary(self) -> Node:
        """
        Stops it without a word.

        Returns:
            The one that was frozen. Thawed, it thinks for a moment that it still is the primary.
        """
        primary = self.primary()
        primary.freeze()
        return primary

    def wait_for_new_primary(self, old: Node, within: float = 15.0) -> Node:
        """
        Waits until all sentinels name another primary, and that one agrees.
        """

        def is_over() -> bool:
            living = [sentinel for sentinel in self.sentinels if sentinel.is_running and not sentinel.is_frozen]
            named = {self._primary_of(sentinel) for sentinel in living}
            return len(named) == 1 and old not in named and "role:master" in named.pop().ask("INFO", "replication")

        until(is_over, within, lambda: f"a new primary.\n{self.sentinels[0].log()}")
        return self.primary()

    def wait_for_replica(self, old: Node, within: float = 60.0) -> None:
        """
        Waits until a primary of former days, started again, follows the present one.

        Sentinels look at what it says of itself every ten seconds, believe it only after some more, and then cut all its connections.
        """
        until(lambda: "role:slave" in old.ask("INFO", "replication"), within, lambda: f"a replica.\n{old.log()}")

    def stop(self) -> None:
        """
        Ends all of them for good.
        """
        for node in [*self.sentinels, *self.nodes]:
            node.stop()


def _is_synchronised(node: Node) -> bool:
    return "master_link_status:up" in node.ask("INFO", "replication")


def _rows(sentinel: Node, what: str) -> list[dict[str, str]]:
    try:
        reply = sentinel.command("SENTINEL", what, NAME)
    except ServerError:
        return []
    assert isinstance(reply, list)
    rows: list[dict[str, str]] = []
    for row in reply:
        assert isinstance(row, list)
        words = [word.decode() for word in row if isinstance(word, bytes)]
        rows.append(dict(zip(words[::2], words[1::2], strict=True)))
    return rows
