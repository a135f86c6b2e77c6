"""
What a server is asked: every command by MONITOR, and how many reads of its sockets these took by INFO.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from tests.servers import Single
    from tests.servers.resp import Connection
else:
    from servers.resp import Connection

COMMAND = re.compile(r'^[\d.]+ \[\d+ (?P<who>\S+)\] "(?P<name>\w+)"')
HEARTBEAT = "{instances}"
END = "the end of this watch"


class Watch:
    """
    Sees every command that clients send while its block runs. What scripts do is not sent by anybody.

    Args:
        server: The server.
        prefix: Only commands on keys that begin so are seen, and no heartbeats.
    """

    def __init__(self, server: Single, prefix: str) -> None:
        self._server = server
        self._prefix = prefix
        self.lines: list[str] = []
        """As the server prints them."""

    def __enter__(self) -> Self:
        self._monitor = Connection(self._server.port)
        assert self._monitor.call("MONITOR") == "OK"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.command("ECHO", END)
        with self._monitor:
            while END not in (line := str(self._monitor._read())):
                if self._prefix in line and HEARTBEAT not in line and " lua]" not in line:
                    self.lines.append(line)

    @property
    def names(self) -> list[str]:
        """
        The commands, once the block is over.
        """
        found = (COMMAND.match(line) for line in self.lines)
        return [command["name"].lower() for command in found if command]


def calls(server: Single) -> dict[str, int]:
    """
    How often each command was run since the server started, by clients and by scripts, without heartbeats and what connections begin with.
    """
    reply = server.command("INFO", "commandstats")
    assert isinstance(reply, bytes)
    found = {name: int(number) for name, number in re.findall(r"cmdstat_(\S+?):calls=(\d+)", reply.decode())}
    beats = found.get("zadd", 0)
    for name in ("evalsha", "time"):
        found[name] = found.get(name, 0) - beats
    unrelated = ("zadd", "zremrangebyscore", "zrevrange", "pexpire", "info", "auth", "ping", "client|setname", "select", "config|get")
    return {name: number for name, number in found.items() if name not in unrelated}


def stat(server: Single, name: str) -> int:
    """
    One number of INFO.
    """
    reply = server.command("INFO", "stats")
    assert isinstance(reply, bytes)
    found = re.search(rf"^{name}:(\d+)", reply.decode(), re.MULTILINE)
    assert found, reply
    return int(found[1])
