"""
Which requests go to which group of servers: the setting `routes`.

    routes:
      - {hosts: [shop.example.com, "*.shop.example.com"], upstream: shop}
      - {path: /api, rewrite: /v2, upstream: api}

The most exact route wins, whatever the order: a host before a pattern before any, and of those the longest path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidegate.rules.names import meant
from tidegate.rules.node import Mapping as Branch
from tidegate.rules.node import Sequence, kind_of
from tidegate.rules.scalars import read_text, read_texts
from tidegate.service.kinds import Kind, Wrong

if TYPE_CHECKING:
    from tidegate.rules.document import Document
    from tidegate.rules.node import Node

ROUTES_MAX: Final = 1000
_KEYS: Final = ("hosts", "path", "rewrite", "upstream")
_HOST = re.compile(r"(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]+\]")
_PATH = re.compile(r"/[\x21\x24-\x3e\x40-\x7e]{0,1023}")


@dataclass(frozen=True, slots=True)
class Route:
    """
    Which requests go where.

    Args:
        hosts: Names of hosts, or patterns such as `*.example.com`; none is any.
        path: How the path begins, in whole segments.
        upstream: The name of a group.
        rewrite: What stands in place of `path` for the servers; `None` leaves it.
    """

    hosts: tuple[str, ...]
    path: str
    upstream: str
    rewrite: str | None


@dataclass(frozen=True, slots=True)
class Routes(Kind):
    """
    Which requests go to which group.
    """

    metavar = "ROUTES"
    is_structured = True

    def read(self, text: str) -> tuple[Route, ...]:
        """See `Kind`."""
        raise Wrong(
            "not-here", f"routes are written in a file, and this is {text:.40}", "write `routes:` in a file of settings, and use --config"
        )

    def read_node(self, document: Document, node: Node) -> tuple[Route, ...] | None:
        """See `Kind`."""
        if not isinstance(node, Sequence) or not node.items:
            document.add(
                "wrong-type", node, f"a list of routes is expected, and this is {kind_of(node)}", "write - {path: /, upstream: app}"
            )
            return None
        if len(node.items) > ROUTES_MAX:
            document.add("too-many-routes", node, f"{len(node.items)} routes are too many", f"write at most {ROUTES_MAX}")
            return None
        routes = [(item, route) for item in node.items if (route := _route(document, item)) is not None]
        _refuse_twice(document, routes)
        # Nothing starts if some have problems; whether the others lead somewhere is told at once all the same.
        return tuple(route for _, route in routes) or None

    def schema(self) -> dict[str, Any]:
        """See `Kind`."""
        text = {"type": "string", "minLength": 1}
        hosts = {"anyOf": [text, {"type": "array", "items": text, "minItems": 1}]}
        properties = {"hosts": hosts, "path": text, "rewrite": text, "upstream": text}
        route = {"type": "object", "properties": properties, "required": ["upstream"], "additionalProperties": False}
        return {"type": "array", "items": route, "minItems": 1}

    def show(self, value: Any) -> str:  # noqa: ANN401  # see `Kind`
        """See `Kind`."""
        return "; ".join(f"{','.join(route.hosts) or '*'}{route.path} -> {route.upstream}" for route in value)


def _route(document: Document, node: Node) -> Route | None:
    if not isinstance(node, Branch):
        document.add("wrong-type", node, f"a route is a mapping, and this is {kind_of(node)}", f"write keys: {', '.join(_KEYS)}")
        return None
    before = len(document.report.problems)
    for name, (key, _) in node.entries.items():
        if name not in _KEYS:
            document.add("unknown-key", key, f"a route has no setting `{name:.80}`", meant(name, _KEYS))
    values = {name: value for name, (_, value) in node.entries.items()}
    hosts = tuple(_host(document, at, text) for at, text in read_texts(document, values["hosts"])) if "hosts" in values else ()
    path = _path(document, values["path"]) if "path" in values else "/"
    rewrite = _path(document, values["rewrite"]) if "rewrite" in values else None
    upstream = read_text(document, values["upstream"]) if "upstream" in values else None
    if "upstream" not in values:
        document.add("missing-key", node, "a route says where it leads", "add upstream: and the name of a group")
    if len(document.report.problems) > before or path is None or upstream is None:
        return None
    return Route(hosts, path, upstream, rewrite)


def _refuse_twice(document: Document, routes: list[tuple[Node, Route]]) -> None:
    # As requests are matched: names in any case, paths in whole segments.
    taken: dict[tuple[str, str], Route] = {}
    for node, route in routes:
        for host in route.hosts or ("",):
            first = taken.setdefault((host.lower(), route.path.rstrip("/")), route)
            if (first.upstream, first.rewrite) != (route.upstream, route.rewrite):
                what = f"another route has {host or 'any host'} with the path {route.path:.80} too, and leads to `{first.upstream:.80}`"
                document.add("given-twice", node, what, "keep one of them, or give them different paths or hosts")
                break


def _host(document: Document, at: Node, text: str) -> str:
    if text == "*":
        document.add("bad-host", at, "`*` is no name of a host", "leave `hosts` out: a route without it is for all hosts")
    elif not _HOST.fullmatch(text):
        document.add("bad-host", at, f"`{text:.80}` is no name of a host", "write shop.example.com or *.example.com, without a port")
    return text


def _path(document: Document, node: Node) -> str | None:
    text = read_text(document, node)
    if text is not None and not _PATH.fullmatch(text):
        document.add("bad-path", node, f"`{text:.80}` is no beginning of a path", "write /api, without a query")
        return None
    return text
