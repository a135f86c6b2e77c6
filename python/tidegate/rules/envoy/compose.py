"""
From text to nodes, as the reference service's parser reads them: with anchors, aliases and merged keys.

Of several documents the first counts. The result is made of the same nodes as other rule files. An alias becomes a copy of what it names,
and copies are counted: a small file cannot become a large document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from tidegate.rules.node import Mapping, Node, Scalar, Sequence
from tidegate.rules.syntax import add_syntax_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.rules.document import Document

DEPTH_MAX = 120
"""Lists and mappings within each other: two for each level of descriptors."""
NODES_MAX = 200_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_NATIVE_KEYS = frozenset({"version", "rules", "include", "identity", "jwt"})


class _Stop(Exception):  # it ends the walk, and nobody outside sees it
    """
    The rest of the document cannot be made sense of.
    """


def is_envoy(text: str) -> bool:
    """
    Whether a text is a file of the reference service, judged by the keys of its first level.

    Args:
        text: The text.

    Returns:
        Whether it has `descriptors`, or a `domain` and none of the keys of our own files. A text that cannot be read is none.
    """
    found: set[str] = set()
    try:
        for key in _top_keys(text):
            if key == "descriptors" or key in _NATIVE_KEYS:
                return key == "descriptors"
            found.add(key)
    except (yaml.YAMLError, ValueError):
        return False
    return "domain" in found


def compose(document: Document) -> None:
    """
    Reads the text of a document and hangs the nodes into it.

    What is wrong is noted in the document's report; if it cannot be made sense of, `root` stays `None`.

    Args:
        document: The document; its text is what is read.
    """
    composer = _Composer(document)
    try:
        document.root = composer.document_node(_events(document.text))
    except yaml.MarkedYAMLError as error:
        add_syntax_problem(document, error)
    except yaml.reader.ReaderError as error:
        document.add_at("control-character", 1, 1, f"a character cannot stand in a file of rules: {error.reason}", "remove it")
    except _Stop:
        pass


def _events(text: str) -> Iterator[Any]:
    loader = _LOADER(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


def _top_keys(text: str) -> Iterator[str]:
    depth = 0
    is_key = False
    for event in _events(text):
        if depth == 1 and is_key and isinstance(event, yaml.ScalarEvent):
            yield event.value
        if isinstance(event, yaml.CollectionStartEvent):
            if depth == 0 and isinstance(event, yaml.SequenceStartEvent):
                return
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            if depth == 0:
                return
        if depth == 1 and isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            is_key = not is_key


def _is_end(event: Any) -> bool:  # noqa: ANN401  # the parser's events have no common type
    return isinstance(event, yaml.CollectionEndEvent)


class _Composer:
    """
    Builds nodes from events.

    Args:
        document: Where problems are noted.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.anchors: dict[str, Node] = {}
        self.count = 0

    def document_node(self, events: Iterator[Any]) -> Node | None:
        """
        The first document; those that follow are not looked at.
        """
        for event in events:
            if isinstance(event, yaml.NodeEvent):
                return self.node(event, events, 1)
        return None

    def node(self, event: Any, events: Iterator[Any], depth: int) -> Node:  # noqa: ANN401  # the parser's events have no common type
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event)
        if depth > DEPTH_MAX:
            self.stop("too-deep", event, f"lists and mappings are nested more than {DEPTH_MAX} deep", "look for a bracket too many")
        self.counted(event.start_mark)
        node: Node
        kind = type(event)
        if kind is yaml.ScalarEvent:
            node = Scalar(event.value, self.style(event), event.start_mark, event.end_mark)
        elif kind is yaml.SequenceStartEvent:
            node = self.sequence(event, events, depth)
        else:
            node = self.mapping(event, events, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def sequence(self, event: Any, events: Iterator[Any], depth: int) -> Sequence:  # noqa: ANN401
        node = Sequence(is_flow=bool(event.flow_style), start=event.start_mark, end=event.end_mark)
        for item in events:
            if _is_end(item):
                node.end = item.end_mark
                break
            node.items.append(self.node(item, events, depth + 1))
        return node

    def mapping(self, event: Any, events: Iterator[Any], depth: int) -> Mapping:  # noqa: ANN401
        node = Mapping(is_flow=bool(event.flow_style), start=event.start_mark, end=event.end_mark)
        merged: list[Node] = []
        for item in events:
            if _is_end(item):
                node.end = item.end_mark
                break
            key = self.node(item, events, depth + 1)
            value = self.node(next(events), events, depth + 1)
            if not isinstance(key, Scalar):
                self.document.add_at(
                    "key-not-text", key.start.line + 1, key.start.column + 1, "a key is a text, and this is none", "write a text"
                )
            elif key.text == "<<" and key.is_plain:
                merged.extend(value.items if isinstance(value, Sequence) else [value])
            else:
                self.enter(node, key, value)
        for other in merged:
            self.merge(node, other)
        return node

    def enter(self, node: Mapping, key: Scalar, value: Node) -> None:
        first = node.entries.get(key.text)
        if first is not None:
            message = f"the key `{key.text:.80}` is given twice, and only the last counts; the first is in line {first[0].start.line + 1}"
            self.document.add_at("repeated-key", key.start.line + 1, key.start.column + 1, message, "remove one of them")
        node.entries[key.text] = (key, value)

    def merge(self, node: Mapping, other: Node) -> None:
        if not isinstance(other, Mapping):
            self.document.add_at(
                "merge-key", other.start.line + 1, other.start.column + 1, "only a mapping can be merged", "name a mapping"
            )
            return
        for name, entry in other.entries.items():
            node.entries.setdefault(name, entry)

    def alias(self, event: Any) -> Node:  # noqa: ANN401
        named = self.anchors.get(event.anchor)
        if named is None:
            # A part that contains itself is not complete yet, so it has no name either.
            self.stop(
                "unknown-anchor",
                event,
                f"nothing above has the name `{event.anchor:.40}`",
                f"write `&{event.anchor:.40}` before a part above",
            )
            raise _Stop
        return self.copied(named)

    def copied(self, node: Node) -> Node:
        self.counted(node.start)
        if isinstance(node, Scalar):
            return Scalar(node.text, node.style, node.start, node.end)
        if isinstance(node, Sequence):
            sequence = Sequence(is_flow=node.is_flow, start=node.start, end=node.end)
            sequence.items = [self.copied(item) for item in node.items]
            return sequence
        mapping = Mapping(is_flow=node.is_flow, start=node.start, end=node.end)
        mapping.entries = {
            name: (Scalar(key.text, key.style, key.start, key.end), self.copied(value)) for name, (key, value) in node.entries.items()
        }
        return mapping

    def style(self, event: Any) -> str | None:  # noqa: ANN401
        if event.tag is None:
            return str(event.style) if event.style else None
        if event.tag in {"!", _TAG + "str"}:
            return "'"
        if event.tag in {_TAG + "int", _TAG + "bool", _TAG + "null", _TAG + "float"}:
            return None
        mark = event.start_mark
        self.document.add_at(
            "tag", mark.line + 1, mark.column + 1, f"the tag `{event.tag:.80}` asks for an unknown conversion", "remove the tag"
        )
        return "'"

    def counted(self, mark: Any) -> None:  # noqa: ANN401
        self.count += 1
        if self.count > NODES_MAX:
            message = f"the file has more than {NODES_MAX:,} values, those counted that aliases repeat"
            self.document.add_at("too-many-values", mark.line + 1, mark.column + 1, message, "divide it into several files")
            raise _Stop

    def stop(self, code: str, event: Any, message: str, hint: str) -> None:  # noqa: ANN401
        self.document.add_at(code, event.start_mark.line + 1, event.start_mark.column + 1, message, hint)
        raise _Stop
