"""
The tree of a file: descriptors, with their children and their limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidegate.rules.envoy.extension import read_extension
from tidegate.rules.envoy.limit import read_limit
from tidegate.rules.envoy.metadata import read_metadata
from tidegate.rules.envoy.scalars import is_nothing, read_flag, read_text
from tidegate.rules.node import Mapping, Node, Scalar, Sequence, kind_of

if TYPE_CHECKING:
    from tidegate.rules.document import Document

DEPTH_MAX: Final = 40

# Without a limit these say nothing.
_OF_LIMIT: Final = {"shadow_mode": "shadow", "quota_mode": "quota_mode", "detailed_metric": "detailed_metric"}


@dataclass(frozen=True, slots=True)
class Place:
    """
    Where a level of descriptors stands.

    Args:
        document: Its file, where problems are noted.
        path: The dotted path of its parent, beginning with the domain.
        depth: Which level it is, from 1.
    """

    document: Document
    path: str
    depth: int = 1

    def below(self, identity: str) -> Place:
        """
        The place of a descriptor's children.

        Args:
            identity: The descriptor.

        Returns:
            The place.
        """
        return Place(self.document, f"{self.path}.{identity}", self.depth + 1)


def read_level(place: Place, node: Node | None, seen: dict[str, tuple[str, int]] | None = None) -> list[dict[str, Any]]:
    """
    Siblings.

    Args:
        place: Where they stand.
        node: What stands below `descriptors`, if anything does.
        seen: Identities that are taken already, with file and line; those of this level are added.

    Returns:
        Their part of the RuleSet IR, in the order of the file.
    """
    document = place.document
    if node is None or is_nothing(node):
        return []
    if not isinstance(node, Sequence):
        document.add("wrong-type", node, f"`descriptors` is a list, and this is {kind_of(node)}", "begin each descriptor with `- key: ...`")
        return []
    if place.depth > DEPTH_MAX and node.items:
        document.add("too-deep", node, f"there are more than {DEPTH_MAX} levels of descriptors", "no request has so many entries")
        return []
    seen = {} if seen is None else seen
    # Items of other kinds were told when the keys were looked at.
    found = (_read(place, item, seen) for item in node.items if isinstance(item, Mapping))
    return [descriptor for descriptor in found if descriptor is not None]


def _read(place: Place, node: Mapping, seen: dict[str, tuple[str, int]]) -> dict[str, Any] | None:
    document = place.document
    key = read_text(document, node.get("key"))
    value = read_text(document, node.get("value"))
    identity = f"{key}_{value}" if value else key
    if not key:
        document.add("empty-key", node, "a descriptor has no key", "add `key: ...`")
    else:
        _check_duplicate(place, node, identity, seen)
    is_shared = read_flag(document, node.get("share_threshold"))
    if is_shared and "*" not in identity:
        message = f"`{identity:.80}` has no `*`, so that there is nothing to share"
        document.add(
            "nothing-to-share", node.get("share_threshold") or node, message, "write a value with `*`, or remove `share_threshold`"
        )
    limit = _limit(document, node)
    children = read_level(place.below(identity), node.get("descriptors"))
    if not key:
        return None
    return {
        "key": key,
        "value": value or None,
        "limit": limit,
        "share_threshold": is_shared,
        "value_to_metric": read_flag(document, node.get("value_to_metric")),
        "descriptors": children,
    }


def _limit(document: Document, node: Mapping) -> dict[str, Any] | None:
    limit = read_limit(document, node.get("rate_limit"), read_extension(document, node))
    flags = {name: read_flag(document, node.get(name)) for name in _OF_LIMIT}
    metadata = read_metadata(document, node.get("metadata"))
    if limit is not None:
        return limit | {_OF_LIMIT[name]: is_set for name, is_set in flags.items()} | {"metadata": metadata}
    # With a broken `rate_limit` nothing can be said about what belongs to it.
    if is_nothing(node.get("rate_limit")):
        for name in (*(name for name, is_set in flags.items() if is_set), *(("metadata",) if metadata else ())):
            document.add("no-effect", node.entries[name][0], f"`{name}` has no effect without a limit", "add `rate_limit`, or remove it")
    return None


def _check_duplicate(place: Place, node: Mapping, identity: str, seen: dict[str, tuple[str, int]]) -> None:
    document = place.document
    first = seen.get(identity)
    if first is None:
        seen[identity] = (document.name, node.start.line + 1)
        return
    where = f"line {first[1]}" if first[0] == document.name else f"{first[0]}, line {first[1]}"
    message = f"duplicate descriptor `{place.path}.{identity}`; the first is in {where}"
    at: Node = node.entries["key"][1] if isinstance(node.get("key"), Scalar) else node
    document.add("duplicate-descriptor", at, message, "remove one of them; `a_b` without a value is the same as `a` with the value `b`")
