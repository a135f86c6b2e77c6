"""
The canonical form of a file of rules: one order of keys, one indentation, no needless quotes. Comments stay.

YAML libraries that keep comments tie them to places that move when keys do; here each belongs to an entry, and no further library is
needed. What is written is read again and compared: a file that would say something else is left as it is.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidegate.errors import ConfigError, RuleError
from tidegate.rules.comments import Comments, find_comments
from tidegate.rules.compose import compose
from tidegate.rules.document import Document
from tidegate.rules.emit import WIDTH, Emitter, entries_of
from tidegate.rules.node import Mapping, Node, Scalar, Sequence
from tidegate.rules.problem import Report, TooManyProblems
from tidegate.rules.scalars import is_ambiguous


def format_text(text: str, name: str = "rules.yaml") -> str:
    """
    Writes a file of rules in its canonical form.

    Args:
        text: What the file says.
        name: Its name; one that ends in `.json` stays JSON.

    Returns:
        The same in canonical form.

    Raises:
        RuleError: It is no document.
        ConfigError: It cannot be formatted without losing something.
    """
    document = _read(text, name)
    root = document.root
    if root is None or isinstance(root, Scalar):
        document.add_at("wrong-type", 1, 1, "a file of rules is a mapping, and this is a single value", "begin with `version: 1`")
        raise RuleError.from_problems(tuple(document.report.problems))
    formatted = _json(root, "file", 0) if name.endswith(".json") else "\n".join(Emitter(Comments(document)).document(root))
    formatted += "\n"
    if _meaning(_read(formatted, name)) != _meaning(document):
        raise ConfigError(
            f"{name} cannot be formatted without changing what it says\nhint: simplify its comments and texts of several lines"
        )
    return formatted


def _read(text: str, name: str) -> Document:
    document = Document(name, Path(name), text.removeprefix("\ufeff"), Report())
    with suppress(TooManyProblems):
        compose(document)
    if document.report.has_errors:
        raise RuleError.from_problems(tuple(document.report.problems))
    return document


def _meaning(document: Document) -> tuple[Any, list[str]]:
    comments = sorted(comment.text for comment in find_comments(document) if comment.text)
    return None if document.root is None else _data(document.root), comments


def _data(node: Node) -> Any:  # noqa: ANN401  # a tree of anything
    if isinstance(node, Scalar):
        return node.text, node.is_plain and is_ambiguous(node.text)
    if isinstance(node, Sequence):
        return [_data(item) for item in node.items]
    return {name: (_data(key), _data(value)) for name, (key, value) in node.entries.items()}


def _json(node: Node, shape: str, indent: int) -> str:
    if isinstance(node, Scalar):
        return node.text if node.is_plain and is_ambiguous(node.text) else json.dumps(node.text, ensure_ascii=False)
    if isinstance(node, Mapping):
        inner = [
            f"{json.dumps(key.text, ensure_ascii=False)}: {_json(value, kind, indent + 2)}" for key, value, kind in entries_of(node, shape)
        ]
        left, right = "{", "}"
    else:
        inner = [_json(item, shape, indent + 2) for item in node.items]
        left, right = "[", "]"
    line = left + ", ".join(inner) + right
    if len(line) + indent <= WIDTH and "\n" not in line:
        return line
    space = " " * (indent + 2)
    return f"{left}\n" + ",\n".join(space + part for part in inner) + f"\n{' ' * indent}{right}"
