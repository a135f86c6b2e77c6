"""
Sentinels fail over, a cluster fails over and moves slots, and other programs can tell them to.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
from redis.sentinel import MasterNotFoundError
from redis.sentinel import Sentinel as SentinelClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Eventually
    from tests.servers import Cluster, Sentinel, ServerError
else:
    from servers import Cluster, Sentinel, ServerError

ROOT = Path(__file__).parent.parent
KEY = "{a}"
SLOT = 15495
"""Of that key, and of all others with the same tag."""


@pytest.mark.timeout(150)
def test_a_replica_becomes_the_primary(eventually: Eventually) -> None:
    """
    Another client follows, with the credentials of the address, and the old primary comes back as a replica.
    """
    with Sentinel(password="data", sentinel_user="limiter", sentinel_password="guard") as servers:
        login = {"username": "limiter", "password": "guard"}
        client: Any = SentinelClient(  # type: ignore[no-untyped-call] # redis-py has not typed it
            [("127.0.0.1", node.port) for node in servers.sentinels], sentinel_kwargs=login, password="data"
        )
        old = servers.kill_primary()
        new = servers.wait_for_new_primary(old)

        # Not all sentinels hear of it at once, and none names a primary that was silent for most of a second.
        def is_found() -> bool:
            with suppress(MasterNotFoundError):
                return bool(("127.0.0.1", new.port) == client.discover_master("mymaster"))
            return False

        eventually(is_found)
        assert client.master_for("mymaster").set("a", "1")
        assert servers.url().endswith("/mymaster?sentinel_username=limiter&sentinel_password=guard")

        old.restart()
        servers.wait_for_replica(old)
        for connection in client.sentinels:
            connection.close()


def test_a_cluster_serves_all_slots(cluster: Cluster, eventually: Eventually) -> None:
    """
    Another client finds its way, from any node.
    """
    with redis.RedisCluster("127.0.0.1", cluster.nodes[-1].port) as client:
        for number in range(30):
            client.set(f"topologies:{number}", number)

    def is_complete() -> bool:
        # A node tells clients of a replica only when it has heard how far that is.
        with redis.RedisCluster("127.0.0.1", cluster.nodes[-1].port) as client:
            return (3, 3) == (len(client.get_primaries()), len(client.get_replicas()))

    eventually(is_complete, within=30)


def test_a_replica_takes_over_from_a_killed_node() -> None:
    """
    Within seconds, and the cluster works again.
    """
    with Cluster() as cluster:
        old = cluster.primary_of(SLOT)
        (replica,) = cluster.replicas_of(old)
        old.kill()

        assert replica is cluster.wait_for_failover(SLOT, old)

        cluster.wait_ok()
        assert replica.command("SET", KEY, "1") == "OK"


@pytest.mark.parametrize("server", ["valkey", "redis62"])
def test_a_slot_moves_and_can_stay_half_way(server: str) -> None:
    """
    ASK for keys that are not there any more, TRYAGAIN for commands that need both sides, MOVED in the end.
    """
    # Nobody fails here, and who is silent for a second on a busy machine is not to be thought down.
    with Cluster(server=server, replicas=0, password="secret", node_timeout_ms=4_000) as cluster:
        source, target = cluster.primary_of(SLOT), cluster.nodes[0]
        for name in ("1", "2", "3"):
            source.command("SET", KEY + name, name)
        migration = cluster.migration([SLOT], source, target)
        migration.begin()

        assert b"1" == source.command("GET", KEY + "1")
        with pytest.raises(ServerError, match=f"ASK {SLOT} 127.0.0.1:{target.port}"):
            source.command("GET", KEY + "absent")
        assert 1 == migration.move(1)
        with pytest.raises(ServerError, match="ASK" if server == "redis62" else "TRYAGAIN"):
            source.command("MGET", KEY + "1", KEY + "2", KEY + "3")
        with target.connect() as connection:
            connection.call("ASKING")
            with pytest.raises(ServerError, match="TRYAGAIN"):
                connection.call("MGET", KEY + "1", KEY + "2", KEY + "3")

        assert 2 == migration.move()
        migration.finish()

        assert target is cluster.primary_of(SLOT)
        assert b"2" == target.command("GET", KEY + "2")
        with pytest.raises(ServerError, match=f"MOVED {SLOT} 127.0.0.1:{target.port}"):
            source.command("GET", KEY + "1")


def test_a_cluster_behind_tls_announces_what_clients_can_reach() -> None:
    """
    Its own nodes still talk to each other without it.
    """
    with Cluster(tls=True, node_timeout_ms=4_000) as cluster:
        files = cluster.certificates
        assert files is not None
        first = cluster.nodes[0]
        with pytest.raises(ServerError, match=f"MOVED {SLOT} 127.0.0.1:{cluster.primary_of(SLOT).client_port}"):
            first.command("GET", KEY)
        with redis.RedisCluster("127.0.0.1", first.client_port, ssl=True, ssl_ca_certs=str(files.ca)) as client:
            assert client.set(KEY, "1")


@pytest.mark.parametrize(
    ("arguments", "requests"),
    [
        (
            ["single", "--faketime", "--acl", "user limiter on >secret ~tg:* +@all"],
            lambda at: [
                {"do": "command", "args": ["SET", "\u00ff", "1"]},
                {"do": "step_clock", "seconds": 5},
                {"do": "proxy"},
                {"do": "fault", "proxy": 0, "fault": "refuse"},
                {"do": "freeze", "node": at[0]},
                {"do": "thaw"},
                {"do": "kill"},
                {"do": "restart"},
            ],
        ),
        (["nothing"], lambda at: [{"do": "fake", "kind": "http"}]),
        (
            ["cluster", "--primaries", "3", "--replicas", "0"],
            lambda at: [
                {"do": "primary_of", "slot": 0},
                {"do": "replicas_of", "node": at[0]},
                {"do": "migrate_slots", "slots": [0, 1], "source": at[0], "target": at[1]},
                {"do": "begin_migration", "slots": [2], "source": at[0], "target": at[1]},
                {"do": "move_keys", "count": 1},
                {"do": "finish_migration"},
                {"do": "wait_ok"},
            ],
        ),
    ],
    ids=["single", "nothing", "cluster"],
)
def test_another_program_is_answered_line_by_line(arguments: list[str], requests: Callable[[list[str]], list[dict[str, object]]]) -> None:
    """
    A description first, then one answer to each request, and an error to one that makes no sense. All of it ends with the input.
    """
    command = [sys.executable, "-m", "tests.servers", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        description = json.loads(program.stdout.readline())
        for request in [*requests(description.get("addresses", [])), {"do": "describe"}]:
            program.stdin.write(json.dumps(request) + "\n")
            program.stdin.flush()
            answer = json.loads(program.stdout.readline())
            assert "answer" in answer, (request, answer)
        program.stdin.write('{"do": "nonsense"}\n')
        program.stdin.flush()
        assert "nonsense" in json.loads(program.stdout.readline())["error"]
        program.stdin.close()

        assert 0 == program.wait()
    for address in description.get("addresses", []):
        host, port = address.split(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))
