"""
What people are told of those on whom requests depend: servers of the store, and servers behind the proxy, that are away or back.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.service.log import LOG
from tidegate.service.repeat import Repeating

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOOK_S = 1.0
"""How often somebody looks. What comes and goes between two looks is in the metrics."""
LINES_MAX = 50
"""The most lines of one look: a fleet may be away as a whole."""

_WELL = "well"
_STATES = {
    "ejected": "it failed too often, and gets no requests for a while",
    "down": "its health checks fail, and it gets no requests",
    "away": "it is not connected; rules decide by on_store_error",
    "open": "it does not answer in time; rules decide by on_store_error",
}
_GROUP_STATES = {
    "none": "none of its servers is well; requests go to all of them",
    "nowhere": "no name of a server leads to an address",
}


class Vital(NamedTuple):
    """
    How one server is doing.

    Args:
        state: `well`, or what is wrong.
        why: Why it failed last.
    """

    state: str
    why: str = ""


class News(NamedTuple):
    """
    A line for the log.

    Args:
        level: Of `logging`.
        text: What happened.
    """

    level: int
    text: str


class Vigil(Repeating):
    """
    Looks at all of them once a second, in a thread of its own, and logs what has changed.

    Args:
        look: What tells how they are doing: `Server.vitals`.
    """

    def __init__(self, look: Callable[[], str]) -> None:
        super().__init__("vigil", LOOK_S, self._compare)
        self._look = look
        self._before: dict[str, Vital] = {}

    def _compare(self) -> None:
        now = vitals(json.loads(self._look()), self._before)
        told = list(news(self._before, now))
        self._before = now
        for line in told[:LINES_MAX]:
            LOG.log(line.level, "%s", line.text)
        if len(told) > LINES_MAX:
            LOG.warning("and %d servers more", len(told) - LINES_MAX)


def vitals(document: dict[str, Any], before: dict[str, Vital]) -> dict[str, Vital]:
    """
    Reads how all are doing.

    Args:
        document: What `Server.vitals` said.
        before: How they were doing at the last look.

    Returns:
        How each is doing, by what people call it: servers, and groups of them.
    """
    found: dict[str, Vital] = {}
    for shard in document["store"]["shards"]:
        name = f"store {shard['name']}"
        found[name] = _shard(shard, before.get(name, Vital(_WELL)))
    for group in document["upstreams"]:
        servers = {f"upstream {group['name']}, server {server['name']}": _server(server) for server in group["servers"]}
        found |= servers
        # Of a group with one server that server's line says it all.
        if len(servers) != 1:
            found[f"upstream {group['name']}"] = _group(list(servers.values()))
    return found


def news(before: dict[str, Vital], now: dict[str, Vital]) -> Iterator[News]:
    """
    Says what has changed between two looks.

    Args:
        before: The first.
        now: The second. Who is not in it any more is nobody's business; who is new is believed to have been well.

    Yields:
        A line for each.
    """
    for name, vital in now.items():
        was = before.get(name, Vital(_WELL))
        if vital.state == was.state:
            continue
        if vital.state == _WELL:
            yield News(logging.INFO, f"{name}: back")
        elif vital.state in _GROUP_STATES:
            yield News(logging.ERROR, f"{name}: {_GROUP_STATES[vital.state]}")
        else:
            yield News(logging.WARNING, f"{name}: {_STATES[vital.state]}{vital.why and f' ({vital.why})'}")


def _shard(shard: dict[str, Any], before: Vital) -> Vital:
    if not shard["is_up"] and shard["why"]:
        return Vital("away", shard["why"])
    if shard["breaker"] == "open":
        # Not connected is the better word for the same outage.
        return before if before.state == "away" else Vital("open", shard["why"])
    # While it is tried out nobody knows yet.
    return Vital(_WELL) if shard["is_up"] and shard["breaker"] == "closed" else before


def _group(servers: list[Vital]) -> Vital:
    if not servers:
        return Vital("nowhere")
    return Vital(_WELL) if any(vital.state == _WELL for vital in servers) else Vital("none")


def _server(server: dict[str, Any]) -> Vital:
    return Vital(_WELL) if server["state"] == "up" else Vital(server["state"], server["why"] or "")
