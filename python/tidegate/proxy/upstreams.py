"""
Servers in groups: the setting `upstreams`.

    upstreams: [http://10.0.0.1:8000, http://10.0.0.2:8000]     # one group, called `default`

    upstreams:
      app: [http://10.0.0.1:8000, http://10.0.0.2:8000]
      search: {servers: [http://10.0.0.3:9000 weight 3, http://10.0.0.4:9000], first_byte_timeout: 5s}
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tidegate.proxy.server import URL_HINT, Server, read_server, refuse_password
from tidegate.rules.names import meant
from tidegate.rules.node import Mapping as Branch
from tidegate.rules.node import Scalar, Sequence, kind_of
from tidegate.rules.scalars import read_text, read_texts
from tidegate.service.kinds import File, Kind, Wrong

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.rules.document import Document
    from tidegate.rules.node import Node
    from tidegate.service.table import Setting

DEFAULT_GROUP: Final = "default"
SERVERS_MAX: Final = 1000
GROUPS_MAX: Final = 1000
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class Group:
    """
    Servers that are alike.

    Args:
        name: What routes call it.
        servers: The servers.
        options: What holds for this group only, by the names of the settings under `upstream.`.
    """

    name: str
    servers: tuple[Server, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upstreams(Kind):
    """
    Servers in groups.
    """

    metavar = "URL"
    is_structured = True

    def read(self, text: str) -> tuple[Group, ...]:
        """See `Kind`."""
        refuse_password(text)
        texts = [part.strip() for part in text.split(",")]
        if len(texts) > SERVERS_MAX:
            raise Wrong("too-many-servers", f"{len(texts)} servers are too many", f"name at most {SERVERS_MAX}")
        servers = [read_server(one) for one in texts]
        if (twice := _twice(servers)) is not None:
            raise Wrong("given-twice", f"{twice} is there twice", "give it a weight instead")
        return (Group(DEFAULT_GROUP, tuple(servers)),)

    def read_node(self, document: Document, node: Node) -> tuple[Group, ...] | None:
        """See `Kind`."""
        if isinstance(node, Scalar | Sequence):
            servers = _servers(document, node)
            return (Group(DEFAULT_GROUP, servers),) if servers else None
        if not node.entries:
            document.add("empty-mapping", node, "there is no group of servers", "write app: [http://10.0.0.1:8000], or remove the key")
            return None
        if len(node.entries) > GROUPS_MAX:
            document.add("too-many-groups", node, f"{len(node.entries)} groups are too many", f"name at most {GROUPS_MAX}")
            return None
        groups = [_group(document, name, key, value) for name, (key, value) in node.entries.items()]
        whole = tuple(group for group in groups if group is not None)
        return whole if len(whole) == len(groups) else None

    def schema(self) -> dict[str, Any]:
        """See `Kind`."""
        servers = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
        options = {name: {"description": setting.about, **setting.kind.schema()} for name, setting in _options().items()}
        group = {"type": "object", "properties": {"servers": servers, **options}, "required": ["servers"], "additionalProperties": False}
        named = {"type": "object", "additionalProperties": {"anyOf": [*servers["anyOf"], group]}, "minProperties": 1}
        return {"anyOf": [*servers["anyOf"], named]}

    def show(self, value: Any) -> str:  # noqa: ANN401  # see `Kind`
        """See `Kind`."""
        return "; ".join(f"{group.name}: {', '.join(map(str, group.servers))}" for group in value)


def _options() -> dict[str, Setting]:
    # The table holds this kind, so it can be looked at only later.
    from tidegate.proxy.table import GROUP_OPTIONS  # noqa: PLC0415

    return GROUP_OPTIONS


def _group(document: Document, name: str, key: Node, node: Node) -> Group | None:
    if not _NAME.fullmatch(name):
        hint = "begin with a letter, go on with letters, digits, hyphens and underscores"
        document.add("bad-name", key, f"`{name:.80}` is no name of a group", hint)
        return None
    if not isinstance(node, Branch):
        servers = _servers(document, node)
        return Group(name, servers) if servers else None
    options = _options()
    found: dict[str, Any] = {}
    servers = None
    for option, (at, value) in node.entries.items():
        if option == "servers":
            servers = _servers(document, value)
        elif option in options:
            _take(document, options[option], option, value, found)
        else:
            known = ["servers", *options]
            document.add("unknown-key", at, f"a group has no setting `{option:.80}`", meant(option, known))
    if "servers" not in node.entries:
        document.add("missing-key", node, f"the group `{name}` has no servers", "add servers: [http://10.0.0.1:8000]")
    return Group(name, servers, found) if servers else None


def _take(document: Document, setting: Setting, option: str, node: Node, found: dict[str, Any]) -> None:
    # Reading settings needs the table, as above.
    from tidegate.service.sources import written  # noqa: PLC0415

    text = written(document, setting, node)
    if text is None:
        return
    try:
        value = setting.kind.read(text)
    except Wrong as wrong:
        document.add(wrong.code, node, wrong.message, wrong.hint)
        return
    found[option] = document.path.parent / value if isinstance(setting.kind, File) else value


def _servers(document: Document, node: Node) -> tuple[Server, ...] | None:
    if isinstance(node, Branch):
        document.add("wrong-type", node, f"a list of servers is expected, and this is {kind_of(node)}", URL_HINT)
        return None
    texts = _texts(document, node)
    if len(texts) > SERVERS_MAX:
        document.add("too-many-servers", node, f"{len(texts)} servers are too many", f"name at most {SERVERS_MAX}")
        return None
    servers: list[Server] = []
    for at, text in texts:
        try:
            server = read_server(text)
        except Wrong as wrong:
            document.add(wrong.code, at, wrong.message, wrong.hint)
            continue
        if _twice([*servers, server]) is not None:
            document.add("given-twice", at, f"{server.url} is there twice", "give it a weight instead")
        else:
            servers.append(server)
    return tuple(servers) if servers and len(servers) == len(texts) else None


def _texts(document: Document, node: Scalar | Sequence) -> list[tuple[Scalar, str]]:
    items = node.items if isinstance(node, Sequence) else []
    mappings = [item for item in items if isinstance(item, Branch)]
    if not mappings:
        return read_texts(document, node)
    for item in mappings:
        document.add("wrong-type", item, "a server is one text with its weight, and this is a mapping", _in_one_text(item))
    return [(item, text) for item in items if isinstance(item, Scalar) and (text := read_text(document, item)) is not None]


def _in_one_text(node: Branch) -> str:
    # As it was meant, if that can be told: with a password in it nothing is repeated.
    texts = [value.text for value in map(node.get, ("url", "weight")) if isinstance(value, Scalar)]
    try:
        return f"write {read_server(' weight '.join(texts))}"
    except Wrong:
        return "write http://10.0.0.1:8000 weight 3"


def _twice(servers: list[Server]) -> str | None:
    # By host and port: metrics tell them apart by these.
    places = [server.url.partition("://")[2].lower() for server in servers]
    return next((place for place in places if places.count(place) > 1), None)
