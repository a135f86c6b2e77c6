"""
The topologies as another program sees them: how each is described, and what can be done to it beyond what `control` knows.

The description has `url`, `tls_url` (with the certificates, for the store), `server`, `addresses`, `pids` and `certificates`; that of
sentinels also `sentinels`, that of a single server `unix_url`. Servers are named by their addresses.

    sentinel  {"do": "primary"}, kill_primary, freeze_primary                            "127.0.0.1:12345"
              {"do": "wait_for_new_primary", "old": "127.0.0.1:12345"}                   "127.0.0.1:12346"
    cluster   {"do": "primary_of", "slot": 7}                                            "127.0.0.1:12345"
              {"do": "replicas_of", "node": "127.0.0.1:12345"}                           ["127.0.0.1:12348"]
              {"do": "wait_for_failover", "slot": 7, "old": "127.0.0.1:12345"}           "127.0.0.1:12348"
              {"do": "wait_ok"}                                                          null
              {"do": "migrate_slots", "slots": [7, 8], "source": "...", "target": "..."} null
              {"do": "begin_migration", "slots": [7], "source": "...", "target": "..."}  null
              {"do": "move_keys", "count": 1}                                            1: how many; without a count: all
              {"do": "finish_migration"}                                                 null
    single    {"do": "step_clock", "seconds": -30}                                       null
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from .binaries import available
from .control import Control, Json, Request

if TYPE_CHECKING:
    from .cluster import Cluster
    from .node import Node
    from .resharding import Migration
    from .sentinel import Sentinel
    from .single import Single
    from .tls import Certificates


def nothing() -> Control:
    """
    No server at all: fakes can be started, and one sees what is installed.
    """
    installed: list[Json] = [binary.text for binary in available()]
    return Control(lambda: {"kind": "nothing", "url": "", "available": installed}, [])


def control_single(server: Single) -> Control:
    """
    One server.
    """

    def describe() -> dict[str, Json]:
        return {
            "kind": "single",
            "unix_url": server.unix_url(),
            **_describe(server.url(), [server.node], server.certificates),
        }

    control = Control(describe, [server.node])
    control.actions["step_clock"] = lambda request: server.step_clock(request["seconds"])
    return control


def control_sentinel(servers: Sentinel) -> Control:
    """
    Primary, replicas and sentinels.
    """

    def describe() -> dict[str, Json]:
        return {
            "kind": "sentinel",
            "sentinels": [sentinel.address for sentinel in servers.sentinels],
            **_describe(servers.url(), [*servers.nodes, *servers.sentinels], servers.certificates),
        }

    control = Control(describe, [*servers.nodes, *servers.sentinels])
    control.actions |= {
        "primary": lambda _: servers.primary().address,
        "kill_primary": lambda _: servers.kill_primary().address,
        "freeze_primary": lambda _: servers.freeze_primary().address,
        "wait_for_new_primary": lambda request: servers.wait_for_new_primary(control.node(request, "old")).address,
    }
    return control


def control_cluster(cluster: Cluster) -> Control:
    """
    The nodes of a cluster.
    """
    migrations: list[Migration] = []

    def describe() -> dict[str, Json]:
        return {"kind": "cluster", **_describe(cluster.url(), cluster.nodes, cluster.certificates)}

    def ends(request: Request) -> tuple[Node, Node]:
        return control.node(request, "source"), control.node(request, "target")

    def begin(request: Request) -> None:
        migrations.append(cluster.migration(request["slots"], *ends(request)))
        migrations[-1].begin()

    control = Control(describe, cluster.nodes)
    control.actions |= {
        "primary_of": lambda request: cluster.primary_of(request["slot"]).address,
        "replicas_of": lambda request: [node.address for node in cluster.replicas_of(control.node(request))],
        "wait_for_failover": lambda request: cluster.wait_for_failover(request["slot"], control.node(request, "old")).address,
        "wait_ok": lambda _: cluster.wait_ok(),
        "migrate_slots": lambda request: cluster.migrate_slots(request["slots"], *ends(request)),
        "begin_migration": begin,
        "move_keys": lambda request: migrations[-1].move(request.get("count")),
        "finish_migration": lambda _: migrations.pop().finish(),
    }
    return control


def _describe(url: str, nodes: list[Node], files: Certificates | None) -> dict[str, Json]:
    return {
        "url": url,
        "tls_url": files.in_url(url) if files else None,
        "server": nodes[0].binary.text,
        "addresses": [node.address for node in nodes],
        "pids": [node.process.pid for node in nodes],
        "certificates": {name: str(path) for name, path in asdict(files).items()} if files else None,
    }
