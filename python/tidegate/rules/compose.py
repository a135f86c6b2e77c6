"""
From text to nodes: YAML without the parts that surprise, and JSON as a part of it.

The events of the parser are taken as they come, and it is stopped at the first that is too many: a small file cannot become a large
document.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from tidegate.rules.node import Mapping, Node, Scalar, Sequence
from tidegate.rules.syntax import add_syntax_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.rules.document import Document

DEPTH_MAX = 32
NODES_MAX = 200_000
"""Values; a key belongs to its value."""

# The compiled parser is ten times as fast; both give the same events.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What YAML refuses, and the line ends that only YAML takes for such: editors would count other lines than the parser.
_REFUSED = re.compile(r"[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
# JSON writes characters beyond 16 bits as two escapes, which YAML does not know.
_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


class _Stop(Exception):
    """
    The rest of the document cannot be made sense of.
    """


def compose(document: Document) -> None:
    """
    Reads the text of a document and hangs the nodes into it.

    What is wrong is noted in the document's report; if it cannot be made sense of, `root` stays `None`.

    Args:
        document: The document; its text is what is read.
    """
    if "\\u" in document.text:
        document.text = _PAIR.sub(_joined, document.text)
    if refused := _REFUSED.search(document.text):
        _add_refused(document, refused)
        return
    composer = _Composer(document)
    loader = _LOADER(document.text)
    try:
        composer.walk(loader.get_event)
    except yaml.MarkedYAMLError as error:
        add_syntax_problem(document, error)
    except _Stop:
        pass
    else:
        composer.finish()
    finally:
        loader.dispose()


def _joined(pair: re.Match[str]) -> str:
    high, low = int(pair[2], 16), int(pair[3], 16)
    return f"{pair[1]}\\U{0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF):08X}"


def _add_refused(document: Document, refused: re.Match[str]) -> None:
    before = document.text[: refused.start()]
    line = before.count("\n") + before.replace("\r\n", "").count("\r")
    column = refused.start() - max(before.rfind("\n"), before.rfind("\r"))
    number = ord(refused[0])
    escape = f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"  # noqa: PLR2004  # two digits
    hint = f'remove it, or write it as "{escape}" in double quotes'
    document.add_at("control-character", line + 1, column, f"the character U+{number:04X} cannot stand in a file of rules", hint)


class _Composer:
    """
    Builds nodes from events.

    Args:
        document: Where they are hung, and where problems are noted.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.root: Node | None = None
        self.open: list[tuple[Mapping | Sequence | None, Scalar | None]] = []
        self.count = 0
        self.is_broken = False

    def walk(self, next_event: Callable[[], Any]) -> None:
        # One loop with local names: of the time that a large file takes, most is spent here.
        parent: Mapping | Sequence | None = None
        key: Scalar | None = None
        while True:
            event = next_event()
            kind = event.__class__
            if kind is yaml.ScalarEvent or kind is yaml.AliasEvent:
                scalar = (
                    self.scalar(event)
                    if kind is yaml.AliasEvent or event.anchor is not None or event.tag is not None
                    else (Scalar(event.value, event.style, event.start_mark, event.end_mark))
                )
                if key is None and parent.__class__ is Mapping:
                    key = scalar
                else:
                    self.hang(parent, key, scalar)
                    key = None
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                node = self.start(event, parent, key)
                self.open.append((parent, None))
                parent, key = node, None
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                if parent is not None:
                    parent.end = event.end_mark
                parent, key = self.open.pop()
            elif kind is yaml.DocumentStartEvent:
                self.document_start(event)
            elif kind is yaml.StreamEndEvent:
                return

    def finish(self) -> None:
        if self.root is None or (isinstance(self.root, Scalar) and self.root.is_plain and not self.root.text):
            hint = "begin with `version: 1` and `rules:`"
            self.document.add_at("empty-file", 1, 1, "the file is empty", hint)
        elif not self.is_broken:
            self.document.root = self.root

    def document_start(self, event: Any) -> None:  # noqa: ANN401
        if self.root is not None:
            hint = "give each document a file of its own, and load the directory"
            self.stop("several-documents", event, "a second document begins here", hint)

    def scalar(self, event: Any) -> Scalar:  # noqa: ANN401
        is_alias = event.__class__ is yaml.AliasEvent
        if is_alias:
            self.is_broken = True
            self.add(
                "anchor",
                event,
                f"`*{event.anchor:.40}` repeats another part of the file, which is not possible here",
                "write it out, or use `include`",
            )
            return Scalar("", "'", event.start_mark, event.end_mark)
        self.refuse_properties(event)
        return Scalar(event.value, event.style, event.start_mark, event.end_mark)

    def start(self, event: Any, parent: Mapping | Sequence | None, key: Scalar | None) -> Mapping | Sequence:  # noqa: ANN401
        if event.anchor is not None or event.tag is not None:
            self.refuse_properties(event)
        if key is None and isinstance(parent, Mapping):
            self.stop(
                "key-not-text", event, "a key is a text, and this is a list or a mapping", 'put quotes around it if it is a text: "[a]"'
            )
        if len(self.open) >= DEPTH_MAX:
            self.stop(
                "too-deep",
                event,
                f"lists and mappings are nested more than {DEPTH_MAX} deep",
                "no rule needs that: look for a bracket too many",
            )
        make = Mapping if isinstance(event, yaml.MappingStartEvent) else Sequence
        node = make(is_flow=bool(event.flow_style), start=event.start_mark, end=event.end_mark)
        self.hang(parent, key, node)
        return node

    def hang(self, parent: Mapping | Sequence | None, key: Scalar | None, node: Node) -> None:
        self.count += 1
        if self.count > NODES_MAX:
            self.stop(
                "too-many-values",
                node,
                f"the file has more than {NODES_MAX:,} values",
                "divide it into several files, and load the directory",
            )
        if parent is None:
            self.root = node
        elif parent.__class__ is Sequence:
            parent.items.append(node)
        elif isinstance(parent, Mapping) and key is not None:
            self.enter(parent, key, node)

    def enter(self, parent: Mapping, key: Scalar, node: Node) -> None:
        if key.text == "<<" and key.is_plain:
            self.add("merge-key", key, "`<<` takes the keys of another mapping, which is not possible here", "write the keys out")
            return
        first = parent.entries.setdefault(key.text, (key, node))[0]
        if first is not key:
            message = f"the key `{key.text:.80}` is given twice; the first is in line {first.start.line + 1}"
            self.add("duplicate-key", key, message, "remove one of them")

    def refuse_properties(self, event: Any) -> None:  # noqa: ANN401
        if event.anchor is not None:
            self.add(
                "anchor",
                event,
                f"`&{event.anchor:.40}` names a part of the file to repeat it, which is not possible here",
                "remove the name",
            )
        if event.tag is not None:
            self.add("tag", event, f"the tag `{event.tag:.80}` asks for a conversion, and nothing is converted here", "remove the tag")

    def add(self, code: str, at: Any, message: str, hint: str) -> None:  # noqa: ANN401
        mark = at.start if isinstance(at, Scalar | Sequence | Mapping) else at.start_mark
        self.document.add_at(code, mark.line + 1, mark.column + 1, message, hint)

    def stop(self, code: str, at: Any, message: str, hint: str) -> None:  # noqa: ANN401
        self.add(code, at, message, hint)
        raise _Stop
