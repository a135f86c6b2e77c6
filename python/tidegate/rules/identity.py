"""
The section `identity`: where a client is named.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.rules.addresses import read_network
from tidegate.rules.fields import IP, SOURCE, read_fields
from tidegate.rules.model import Source
from tidegate.rules.names import ATTRIBUTE_NAME, HEADER_NAME
from tidegate.rules.node import Mapping, Node, Scalar, Sequence, kind_of
from tidegate.rules.scalars import read_text, read_texts, read_whole

if TYPE_CHECKING:
    from tidegate.rules.document import Document

_KINDS = ("header", "jwt_claim", "attribute", "ip")
_RESERVED = frozenset({"client", "method", "path", "host", "ip", "headers", "query", "global"})


def read_identity(document: Document, node: Node) -> tuple[Source, ...]:
    """
    The sources of a client's name.

    Args:
        document: Where problems are noted.
        node: What stands under `identity`.

    Returns:
        Those that are right, in their order.
    """
    if not isinstance(node, Sequence):
        document.add("wrong-type", node, f"`identity` is a list, and this is {kind_of(node)}", "write `- header: x-api-key`")
        return ()
    if not node.items:
        document.add("empty-list", node, "`identity` has no source", "write `- header: x-api-key`, or remove the section")
    found: dict[str, Source] = {}
    for item in node.items:
        source = _read_source(document, item)
        if source is None:
            continue
        if source.attribute in found:
            message = f"two sources set the attribute `{source.attribute}`"
            document.add(
                "duplicate-attribute", item, message, "choose another name with `as:`" if source.kind != "ip" else "remove one of them"
            )
        found[source.attribute] = source
    return tuple(found.values())


def _read_source(document: Document, node: Node) -> Source | None:  # noqa: PLR0911  # one return for each kind
    entries = read_fields(document, node, SOURCE, "a source")
    if entries is None:
        return None
    kinds = [name for name in entries if name in _KINDS]
    if len(kinds) != 1 and isinstance(node, Mapping) and node.entries.keys() - entries.keys():
        return None
    if len(kinds) != 1:
        message = f"a source is exactly one of {', '.join(_KINDS)}, and this has {', '.join(kinds) or 'none'}"
        document.add("bad-source", node, message, "write each source as an item of its own")
        return None
    kind = kinds[0]
    value = entries[kind][1]
    alias = _read_alias(document, entries.get("as"), kind)
    valid = _read_valid(document, entries.get("valid"), kind)
    if kind == "ip":
        return _read_ip(document, value)
    text = read_text(document, value)
    if text is None or not isinstance(value, Scalar):
        return None
    if kind == "header":
        return _read_header(document, value, Source("header", text, alias or "", valid=valid))
    if kind == "jwt_claim":
        return _named(document, value, Source("jwt_claim", text, alias or ("user" if text == "sub" else text)), is_named=alias is not None)
    return _named(document, value, Source("attribute", text, text), is_named=True)


def _read_alias(document: Document, entry: tuple[Scalar, Node] | None, kind: str) -> str | None:
    if entry is None:
        return None
    key, node = entry
    if kind not in {"header", "jwt_claim"}:
        document.add("bad-source", key, "`as` names the attribute of a header or a claim only", "remove it")
        return None
    text = read_text(document, node)
    if text is not None and (not ATTRIBUTE_NAME.fullmatch(text) or text in _RESERVED):
        document.add("bad-attribute", node, f"`{text:.80}` cannot be set", "write a name of letters, digits and _ that has no meaning yet")
        return None
    return text


def _read_valid(document: Document, entry: tuple[Scalar, Node] | None, kind: str) -> tuple[str, ...]:
    if entry is None:
        return ()
    key, node = entry
    if kind != "header":
        document.add("bad-source", key, "`valid` is about the keys in a header only", "remove it")
        return ()
    return tuple(text for _, text in read_texts(document, node))


def _read_header(document: Document, node: Scalar, said: Source) -> Source | None:
    if not HEADER_NAME.fullmatch(said.name):
        document.add("bad-attribute", node, f"`{said.name:.80}` is no name of a header", "write letters, digits and -, as in x-api-key")
        return None
    name = said.name.lower()
    attribute = said.attribute or name.removeprefix("x-").replace("-", "_")
    return _named(document, node, replace(said, name=name, attribute=attribute), is_named=said.attribute != "")


def _named(document: Document, node: Scalar, source: Source, *, is_named: bool) -> Source | None:
    is_taken = source.attribute in _RESERVED - ({"client"} if source.kind == "attribute" else set())
    if ATTRIBUTE_NAME.fullmatch(source.attribute) and not is_taken:
        return source
    hint = "write a name of letters, digits and _ that has no meaning yet"
    document.add("bad-attribute", node, f"`{source.attribute:.80}` cannot be set", hint if is_named else "choose a name with `as:`")
    return None


def _read_ip(document: Document, node: Node) -> Source | None:
    entries = read_fields(document, node, IP, "`ip`")
    if entries is None:
        return None
    networks: list[str] = []
    prefix: int | None = 64
    if "trusted_proxies" in entries:
        value = entries["trusted_proxies"][1]
        # An empty list says in so many words that nobody is trusted.
        texts = [] if isinstance(value, Sequence) and not value.items else read_texts(document, value)
        networks = [network for scalar, text in texts if (network := read_network(document, scalar, text)) is not None]
    if "ipv6_prefix" in entries:
        prefix = read_whole(document, entries["ipv6_prefix"][1], 0, 128)
    return None if prefix is None else Source("ip", "", "ip", tuple(networks), prefix)
