"""
Which keys a file of the reference service may have, and where.

The service keeps one list of keys for all levels: what is unknown is refused, what is known but stands in the wrong place is ignored.
Here the latter is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegate.rules.envoy.scalars import kind
from tidegate.rules.names import meant
from tidegate.rules.node import Mapping, Node, Scalar, Sequence, kind_of

if TYPE_CHECKING:
    from tidegate.rules.document import Document

EXTENSION: Final = "tidegate"
"""The one key that the service does not know."""

TOP: Final = ("domain", "descriptors")
DESCRIPTOR: Final = (
    "key",
    "value",
    "rate_limit",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
    "descriptors",
)
RATE_LIMIT: Final = ("unit", "requests_per_unit", "unlimited", "name", "replaces")
REPLACES: Final = ("name",)

KNOWN: Final = frozenset({*TOP, *DESCRIPTOR, *RATE_LIMIT, *REPLACES})

# What stands below a key that is in its place.
_BELOW: Final = {"descriptors": DESCRIPTOR, "rate_limit": RATE_LIMIT, "replaces": REPLACES}
_PLACE: Final = {TOP: "the top of the file", DESCRIPTOR: "a descriptor", RATE_LIMIT: "`rate_limit`", REPLACES: "an item of `replaces`"}


def check_keys(document: Document, node: Mapping, level: tuple[str, ...] | None = TOP) -> None:
    """
    Checks all keys of a mapping and of everything below it, but for metadata and our own block.

    Args:
        document: Where problems are noted.
        node: The mapping.
        level: The keys that belong here; `None` below a key that is out of its place.
    """
    for name, (key, value) in node.entries.items():
        if kind(key) != "text":
            document.add("key-not-text", key, f"a key is a text, and `{name:.80}` is none", "remove it, or write one of the known keys")
        elif name == EXTENSION and level in {TOP, DESCRIPTOR}:
            continue
        elif name not in KNOWN:
            document.add("unknown-key", key, f"the reference service has no `{name:.80}`", meant(name, level or sorted(KNOWN)))
        else:
            _check_place(document, key, level)
            if name != "metadata":
                _check_value(document, value, _BELOW.get(name) if level is not None and name in level else None)


def _check_place(document: Document, key: Scalar, level: tuple[str, ...] | None) -> None:
    if level is None or key.text in level:
        return
    home = next(_PLACE[other] for other in (RATE_LIMIT, DESCRIPTOR, TOP) if key.text in other)
    document.add("misplaced-key", key, f"`{key.text}` has no meaning in {_PLACE[level]} and is ignored", f"move it to {home}, or remove it")


def _check_value(document: Document, node: Node, below: tuple[str, ...] | None) -> None:
    if isinstance(node, Mapping):
        check_keys(document, node, below)
    elif isinstance(node, Sequence):
        for item in node.items:
            if isinstance(item, Mapping):
                check_keys(document, item, below)
            else:
                document.add("list-item", item, f"a list holds only mappings here, and this is {kind_of(item)}", "write `- key: ...`")
    elif kind(node) == "decimal":
        document.add(
            "decimal-value",
            node,
            f"`{node.text:.40}` is a decimal number, and no field holds one",
            f'write "{node.text:.40}" if it is a text',
        )
