"""
A cluster, its failovers, and the resharding that a client must follow.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from . import binaries
from .faults import Proxy
from .node import HOST, Node, data_config, tls_config
from .ports import BUS_OFFSET
from .resharding import Migration
from .resp import Login, ServerError
from .single import credentials
from .tls import Certificates, certificates
from .waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SLOTS = 16_384


@dataclass(kw_only=True, eq=False)
class Cluster:
    """
    Running servers, from construction to `stop`, or to the end of the `with` block.

    Args:
        server: Which one, of `binaries.NAMES`.
        primaries: How many. They share the slots evenly, in order.
        replicas: How many in total; the first belongs to the first primary, and so on.
        password: Of all of them.
        tls: Whether clients speak TLS with them.
        tls_auth_clients: Whether clients must show a certificate.
        node_timeout_ms: After how much silence a node is thought to be down.
        config: More lines of configuration, such as `cluster-require-full-coverage no`.
    """

    server: str = "valkey"
    primaries: int = 3
    replicas: int = 3
    password: str | None = None
    tls: bool = False
    tls_auth_clients: bool = False
    node_timeout_ms: int = 1000
    config: Sequence[str] = ()
    nodes: list[Node] = field(init=False)
    ids: dict[Node, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        binary = binaries.binary(self.server)
        # A proxy speaks TLS for servers that cannot; of those, only newer ones can tell clients another port than each other.
        if self.tls and not binary.has_tls and binary.version < (9, 1, 0):
            raise binaries.Missing(f"{binary.text} was built without TLS, and cannot announce the port of a proxy that has it")
        self.nodes = [self._node(binary) for _ in range(self.primaries + self.replicas)]
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.wait_ready()
            self.ids[node] = node.ask("CLUSTER", "MYID")
        if self.tls and not binary.has_tls:
            self._put_fronts()
        self._share_slots()
        self._introduce()
        self._attach_replicas()
        self.wait_ok()

    def _node(self, binary: binaries.Binary) -> Node:
        lines = [
            *data_config(binary),
            "cluster-enabled yes",
            "cluster-config-file nodes.conf",
            f"cluster-node-timeout {self.node_timeout_ms}",
            *self.config,
        ]
        if self.password:
            lines += [f'requirepass "{self.password}"', f'masterauth "{self.password}"']
        is_tls_native = self.tls and binary.has_tls
        if is_tls_native:
            lines += [*tls_config(certificates(), auth_clients=self.tls_auth_clients), "tls-cluster yes"]
        return Node(
            binary,
            lines,
            "cluster",
            login=Login(self.password) if self.password else None,
            tls=certificates().client_context() if is_tls_native else None,
        )

    def _put_fronts(self) -> None:
        context = certificates().server_context(auth_clients=self.tls_auth_clients)
        for node in self.nodes:
            node.front = Proxy(node.port, tls=context)
            node.command("CONFIG", "SET", "cluster-announce-client-port", node.client_port)

    def _share_slots(self) -> None:
        bounds = [SLOTS * part // self.primaries for part in range(self.primaries + 1)]
        for epoch, (node, (first, end)) in enumerate(zip(self.nodes, itertools.pairwise(bounds), strict=False), 1):
            # 6.2 knows no ranges.
            if node.binary.is_redis_7:
                node.command("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
            else:
                node.command("CLUSTER", "ADDSLOTS", *range(first, end))
            # Else all start with the same one, and settle that only after they have met.
            node.command("CLUSTER", "SET-CONFIG-EPOCH", epoch)

    def _introduce(self) -> None:
        # Everyone to everyone: by gossip alone it takes seconds.
        for one, other in itertools.combinations(self.nodes, 2):
            one.command("CLUSTER", "MEET", HOST, other.port, other.port + BUS_OFFSET)

        def know_each_other() -> bool:
            tables = (self.table(node) for node in self.nodes)
            return all(len(table) == len(self.nodes) and not any("handshake" in row.flags for row in table) for table in tables)

        until(know_each_other, 20, lambda: f"all nodes know each other.\n{self.nodes[0].ask('CLUSTER', 'NODES')}")

    def _attach_replicas(self) -> None:
        for number, replica in enumerate(self.nodes[self.primaries :]):
            until(functools.partial(self._replicate, replica, self.nodes[number % self.primaries]), 10, "a replica found its primary")

    def _replicate(self, replica: Node, primary: Node) -> bool:
        try:
            replica.command("CLUSTER", "REPLICATE", self.ids[primary])
        except ServerError:
            return False  # it does not know yet that this is a primary
        return True

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
        Its address: all nodes.
        """
        scheme = "rediss+cluster" if self.tls else "redis+cluster"
        login = Login(self.password) if self.password else None
        return f"{scheme}://{credentials(login)}{','.join(node.address for node in self.nodes)}"

    def table(self, node: Node) -> list[Row]:
        """
        The cluster as one node sees it.
        """
        return [Row.parse(line) for line in node.ask("CLUSTER", "NODES").splitlines()]

    def living(self) -> list[Node]:
        """
        The nodes that answer.
        """
        return [node for node in self.nodes if node.is_running and not node.is_frozen]

    def primary_of(self, slot: int) -> Node:
        """
        Who serves a slot, by the newest opinion among the living.
        """
        owners = [
            (row.epoch, row.id)
            for node in self.living()
            for row in self.table(node)
            if any(first <= slot <= last for first, last in row.slots) and "fail" not in row.flags
        ]
        if not owners:
            raise LookupError(f"nobody serves slot {slot}")
        return self.by_id(max(owners)[1])

    def replicas_of(self, primary: Node) -> list[Node]:
        """
        Who copies a primary, and lives.
        """
        return [
            self.by_id(row.id) for row in self.table(primary) if row.primary == self.ids[primary] and self.by_id(row.id) in self.living()
        ]

    def by_id(self, identity: str) -> Node:
        """
        A node by its name in the cluster.
        """
        return next(node for node, own in self.ids.items() if own == identity)

    def migration(self, slots: Iterable[int], source: Node, target: Node) -> Migration:
        """
        Moves slots step by step, so that a test can stay half-way.
        """
        return Migration(list(slots), source, target, self._primaries)

    def migrate_slots(self, slots: Iterable[int], source: Node, target: Node) -> None:
        """
        Moves slots with all their keys.
        """
        migration = self.migration(slots, source, target)
        migration.begin()
        migration.move()
        migration.finish()

    def _primaries(self) -> list[Node]:
        return [node for node in self.living() if any("myself" in row.flags and "master" in row.flags for row in self.table(node))]

    def wait_for_failover(self, slot: int, old: Node, within: float = 15.0) -> Node:
        """
        Waits until a replica serves a slot instead of its old primary, and all of the living agree.
        """

        def is_over() -> bool:
            return all(self.ids[old] != owner for owner in self._owners(slot)) and len(set(self._owners(slot))) == 1

        until(is_over, within, lambda: f"a new primary of slot {slot}.\n{self.living()[0].ask('CLUSTER', 'NODES')}")
        return self.primary_of(slot)

    def _owners(self, slot: int) -> list[str | None]:
        return [
            next((row.id for row in self.table(node) if any(first <= slot <= last for first, last in row.slots)), None)
            for node in self.living()
        ]

    def wait_ok(self, within: float = 20.0) -> None:
        """
        Waits until all of the living say that the cluster works, and all replicas among them have copied their primaries.
        """
        until(self._is_ok, within, lambda: f"the cluster works.\n{self.living()[0].ask('CLUSTER', 'NODES')}")

    def _is_ok(self) -> bool:
        for node in self.living():
            if "cluster_state:ok" not in node.ask("CLUSTER", "INFO"):
                return False
            replication = node.ask("INFO", "replication")
            if "role:slave" in replication and "master_link_status:up" not in replication:
                return False
        # Clients learn replicas from any node: all must have heard of all.
        return all(sum("slave" in row.flags for row in self.table(node)) >= self._replicas_now() for node in self.living())

    def _replicas_now(self) -> int:
        return len(self.living()) - len(self._primaries())

    def stop(self) -> None:
        """
        Ends all of them for good.
        """
        for node in self.nodes:
            node.stop()


@dataclass(frozen=True)
class Row:
    """
    A line of CLUSTER NODES.
    """

    id: str
    address: str
    flags: frozenset[str]
    primary: str | None
    epoch: int
    slots: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, line: str) -> Row:
        """
        Reads it. Slots that are half-way count as those of their old primary.
        """
        identity, address, flags, primary, _, _, epoch, _, *slots = line.split()
        bounds = (slot.split("-") for slot in slots if not slot.startswith("["))
        ranges = tuple((int(bound[0]), int(bound[-1])) for bound in bounds)
        return cls(identity, address, frozenset(flags.split(",")), None if primary == "-" else primary, int(epoch), ranges)
