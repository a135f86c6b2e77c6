"""
Nodes as text again, in the one form of `fmt`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from tidegate.rules.fields import COST, FILE, IP, JWT, OVERRIDE, QUOTA, RULE, SOURCE, Field
from tidegate.rules.node import Mapping, Node, Scalar, Sequence
from tidegate.rules.scalars import is_ambiguous

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.rules.comments import Attached, Comments

WIDTH = 100

# What a mapping is -> the order of its keys, and what their values are.
_SHAPES: dict[str, tuple[dict[str, Field], dict[str, str]]] = {
    "file": (FILE, {"identity": "source", "jwt": "jwt", "rules": "rule"}),
    "source": (SOURCE, {"ip": "ip"}),
    "ip": (IP, {}),
    "jwt": (JWT, {}),
    "rule": (RULE, {"cost": "cost", "quotas": "quota", "tiers": "tiers", "overrides": "overrides"}),
    "cost": (COST, {}),
    "override": (OVERRIDE, {"quotas": "quota"}),
    "quota": (QUOTA, {}),
}
# Marks the lines of a text: nothing is tidied there. No file of rules contains this character.
_KEPT = "\0"
_SPACED = frozenset({"identity", "jwt", "rules"})
_PLAIN = re.compile(r"[A-Za-z0-9_/.]([A-Za-z0-9_/.*%+=@~^$()<>; -]*[A-Za-z0-9_/.*%+=@~^$()<>;-])?")
_ODD = re.compile(r"[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|[\t\r]")


def entries_of(node: Mapping, shape: str) -> list[tuple[Scalar, Node, str]]:
    """
    The entries of a mapping in their order.

    Args:
        node: The mapping.
        shape: What it is.

    Returns:
        Key, value, and what the value is; keys that nobody knows come last.
    """
    if shape == "overrides" and "key" in node.entries:
        shape = "override"
    order, inner = _SHAPES.get(shape, ({}, {}))
    places = {name: number for number, name in enumerate(order)}
    found = sorted(node.entries.items(), key=lambda entry: places.get(entry[0], len(places)))
    if shape in {"tiers", "overrides"}:
        return [(key, value, "override" if _is_plan(value) else "quota") for _, (key, value) in found]
    return [(key, value, inner.get(name, "")) for name, (key, value) in found]


def _is_plan(node: Node) -> bool:
    return isinstance(node, Mapping) and bool(node.entries.keys() & {"tier", "quotas"})


def scalar(node: Scalar) -> str:
    """
    A scalar in one line.

    Args:
        node: The scalar.

    Returns:
        As it was if it had no quotes, without quotes if it needs none, and otherwise in double quotes; single ones save backslashes.
    """
    text = node.text
    if node.is_plain or (_PLAIN.fullmatch(text) and not is_ambiguous(text)):
        return text
    if ("\\" in text or '"' in text) and "\n" not in text and not _ODD.search(text):
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text, ensure_ascii=bool(_ODD.search(text)))


class Emitter:
    """
    Writes a document.

    Args:
        comments: Its comments.
    """

    def __init__(self, comments: Comments) -> None:
        self.comments = comments

    def document(self, root: Node) -> list[str]:
        """
        Writes everything.

        Args:
            root: The document's mapping.

        Returns:
            The lines.
        """
        self.comments.attach(list(self.anchors(root, "file", 0)))
        return _tidy([*self.comments.head, *self.block(root, "file", 0), *self.comments.tail])

    def anchors(self, node: Node, shape: str, indent: int) -> Iterator[tuple[Node, int]]:
        """
        Keys and items that get a line of their own.

        Args:
            node: A list or a mapping.
            shape: What it is.
            indent: How far it will be indented.

        Yields:
            Them, in the order of the file, and the columns in which their blocks begin.
        """
        column = node.start.column
        if isinstance(node, Sequence):
            for item in node.items:
                yield item, column
                if not self.is_inline(item, shape, indent + 2):
                    yield from self.anchors(item, shape, indent + 2)
        elif isinstance(node, Mapping):
            kinds = {id(key): kind for key, _, kind in entries_of(node, shape)}
            for key, value in node.entries.values():
                yield key, column
                if not self.is_inline(value, kinds[id(key)], indent + len(scalar(key)) + 2):
                    yield from self.anchors(value, kinds[id(key)], indent + 2)

    def is_inline(self, node: Node, shape: str, column: int) -> bool:
        """
        Whether a value stands behind its key.

        Args:
            node: The value.
            shape: What it is.
            column: Where it would begin.

        Returns:
            Whether it fits there, and was written so.
        """
        if isinstance(node, Scalar):
            return True
        if not (node.items if isinstance(node, Sequence) else node.entries):
            return True
        return node.is_flow and not self.comments.has_inside(node) and column + len(flow(node, shape)) <= WIDTH

    def block(self, node: Node, shape: str, indent: int) -> Iterator[str]:
        """
        A list or a mapping, line by line.

        Args:
            node: The list or mapping.
            shape: What it is.
            indent: How far it is indented.

        Yields:
            Its lines.
        """
        if isinstance(node, Mapping):
            for number, (key, value, kind) in enumerate(entries_of(node, shape)):
                attached = self.comments.of(key)
                is_spaced = shape == "file" and number > 0 and key.text in _SPACED and not isinstance(value, Scalar)
                yield from self._before(attached, indent, is_spaced=is_spaced)
                yield from self._entry(key, value, kind, indent)
                yield from (" " * indent + line for line in attached.after)
        elif isinstance(node, Sequence):
            for number, item in enumerate(node.items):
                attached = self.comments.of(item)
                is_spaced = shape == "rule" and number > 0 and not self.is_inline(item, shape, indent + 2)
                yield from self._before(attached, indent, is_spaced=is_spaced)
                yield from self._item(item, shape, indent)
                yield from (" " * indent + line for line in attached.after)

    def _before(self, attached: Attached, indent: int, *, is_spaced: bool) -> Iterator[str]:
        if is_spaced and "" not in attached.before[:1]:
            yield ""
        yield from (" " * indent + line if line else "" for line in attached.before)

    def _entry(self, key: Scalar, value: Node, shape: str, indent: int) -> Iterator[str]:
        head = " " * indent + scalar(key) + ":"
        attached = self.comments.of(key)
        if not self.is_inline(value, shape, len(head) + 1):
            yield behind(head, attached)
            yield from self.block(value, shape, indent + 2)
        elif isinstance(value, Scalar) and (lines := literal(value)) is not None:
            yield behind(f"{head} {lines[0]}", attached)
            yield from (_KEPT + " " * (indent + 2) + line for line in lines[1:])
        else:
            yield behind(f"{head} {flow(value, shape)}".rstrip(), attached)

    def _item(self, item: Node, shape: str, indent: int) -> Iterator[str]:
        attached = self.comments.of(item)
        if self.is_inline(item, shape, indent + 2):
            lines = literal(item) if isinstance(item, Scalar) else None
            yield behind(" " * indent + f"- {lines[0] if lines else flow(item, shape)}".rstrip(), attached)
            yield from (_KEPT + " " * (indent + 2) + line for line in (lines or [])[1:])
            return
        inner = list(self.block(item, shape, indent + 2))
        # Comments that stand above what is now the first key go above the item.
        while inner and (not inner[0].strip() or inner[0].lstrip().startswith("#")):
            yield inner.pop(0)[2:]
        # The comment in its line belongs to the first key, whichever that was.
        yield " " * indent + "- " + inner[0][indent + 2 :]
        yield from inner[1:]


def behind(line: str, attached: Attached) -> str:
    """
    A line with the comment that stands in it.

    Args:
        line: The line.
        attached: What belongs to it.

    Returns:
        The line; the comment keeps its column if there is room.
    """
    comment = attached.behind
    if comment is None:
        return line
    return line.ljust(max(comment.column, len(line) + 2)) + comment.text


def flow(node: Node, shape: str) -> str:
    """
    A value in one line.

    Args:
        node: The value.
        shape: What it is.

    Returns:
        Its text.
    """
    if isinstance(node, Scalar):
        return scalar(node)
    if isinstance(node, Sequence):
        return "[" + ", ".join(flow(item, shape) for item in node.items) + "]"
    inner = (f"{scalar(key)}: {flow(value, kind)}".rstrip() for key, value, kind in entries_of(node, shape))
    return "{" + ", ".join(inner) + "}"


def literal(node: Scalar) -> list[str] | None:
    """
    A text of several lines as a block.

    Args:
        node: The text.

    Returns:
        Its lines with the sign that begins it, or `None` if it is written in one line.
    """
    text = node.text
    lines = text.split("\n")
    is_odd = (
        bool(_ODD.search(text)) or any(line != line.rstrip() for line in lines) or lines[0] != lines[0].lstrip() or not text.strip("\n")
    )
    if "\n" not in text or is_odd or text.endswith("\n\n"):
        return None
    return ["|", *lines[:-1]] if text.endswith("\n") else ["|-", *lines]


def _tidy(lines: list[str]) -> list[str]:
    # At most one blank line, and none at the beginning, at the end and before the first item of a list.
    found: list[str] = []
    for line in lines:
        is_first = not found or found[-1] == "" or found[-1].endswith(":")
        if line.strip() or not is_first:
            found.append(line.rstrip())
    while found and not found[-1]:
        found.pop()
    return [line.removeprefix(_KEPT).rstrip() for line in found]
