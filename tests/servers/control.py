"""
What another program can tell the servers that it started, as lines of JSON.

A line is an object: `do` names the action, the rest are its arguments.
Each is answered by one line, `{"answer": ...}` or `{"error": "..."}`.

    {"do": "command", "args": ["SET", "a", "1"], "node": "127.0.0.1:12345"} "OK"; without a node: the first one
    {"do": "kill"}, freeze, thaw, restart                                   null; also with a node
    {"do": "describe"}                                                      what was printed at the start, as it is now
    {"do": "proxy"}                                                         {"proxy": 0, "address": "...", "url": "..."}; also with a node
    {"do": "fault", "proxy": 0, "fault": "delay", "replies_ms": 50}         {"accepted": 3}: connections so far
    {"do": "fake", "kind": "garbage"}                                       {"address": "...", "url": "..."}

A string is bytes, one character each: U+0000 to U+00FF, so that keys that are no text can be asked for and shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from .fakes import Fake
from .faults import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable

    from .node import Node
    from .resp import Argument, Reply

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Request: TypeAlias = dict[str, Any]


class Control:
    """
    The actions that all topologies know. Each topology adds its own to the table.
    """

    def __init__(self, describe: Callable[[], dict[str, Json]], nodes: list[Node]) -> None:
        self.describe = describe
        self._nodes = nodes
        self._proxies: list[Proxy] = []
        self._fakes: list[Fake] = []
        self.actions: dict[str, Callable[[Request], Json]] = {
            "describe": lambda _: describe(),
            "command": lambda request: to_json(self.node(request).command(*map(to_argument, request["args"]))),
            "kill": lambda request: self.node(request).kill(),
            "freeze": lambda request: self.node(request).freeze(),
            "thaw": lambda request: self.node(request).thaw(),
            "restart": lambda request: self.node(request).restart(),
            "proxy": self._proxy,
            "fault": self._fault,
            "fake": self._fake,
        }

    def node(self, request: Request, name: str = "node") -> Node:
        """
        The server that a request names.
        """
        address = request.get(name, self._nodes[0].address if self._nodes else None)
        for node in self._nodes:
            if node.address == address:
                return node
        raise ValueError(f"no node {address}: one of {', '.join(node.address for node in self._nodes)}")

    def answer(self, request: Request) -> Json:
        """
        Does what is asked for.
        """
        action = self.actions.get(request["do"])
        if action is None:
            raise ValueError(f"cannot do {request['do']!r}: one of {', '.join(self.actions)}")
        return action(request)

    def _proxy(self, request: Request) -> Json:
        proxy = Proxy(self.node(request).client_port)
        self._proxies.append(proxy)
        return {"proxy": len(self._proxies) - 1, "address": f"127.0.0.1:{proxy.port}", "url": proxy.url}

    def _fault(self, request: Request) -> Json:
        proxy = self._proxies[request["proxy"]]
        match request.get("fault"):
            case "pass_through":
                proxy.pass_through()
            case "delay":
                proxy.delay(requests_ms=request.get("requests_ms", 0), replies_ms=request.get("replies_ms", 0))
            case "black_hole":
                proxy.black_hole()
            case "silence":
                proxy.silence()
            case "reset":
                proxy.reset()
            case "refuse":
                proxy.refuse()
            case None:
                pass  # only the number is asked for
            case other:
                raise ValueError(f"unknown fault {other!r}")
        return {"accepted": proxy.accepted}

    def _fake(self, request: Request) -> Json:
        fake = Fake(request["kind"], error=request.get("error", "ERR no"), seed=request.get("seed", 0))
        self._fakes.append(fake)
        return {"address": f"127.0.0.1:{fake.port}", "url": fake.url}


def to_argument(value: str | float) -> Argument:
    """
    A word of a command, from JSON.
    """
    return value.encode("latin-1") if isinstance(value, str) else str(value)


def to_json(reply: Reply) -> Json:
    """
    A reply of a server, as JSON.
    """
    if isinstance(reply, list):
        return [to_json(item) for item in reply]
    return reply.decode("latin-1") if isinstance(reply, bytes) else reply
