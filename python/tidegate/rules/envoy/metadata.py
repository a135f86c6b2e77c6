"""
Metadata of a descriptor: anything that JSON can say.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tidegate.rules.envoy.scalars import is_nothing, kind, switch, whole
from tidegate.rules.node import Mapping, Node, Scalar, Sequence, kind_of

if TYPE_CHECKING:
    from tidegate.rules.document import Document

DEPTH_MAX = 32
_EXACT_MAX = 2**53


def read_metadata(document: Document, node: Node | None) -> dict[str, Any] | None:
    """
    The metadata that a node says.

    Args:
        document: Where problems are noted.
        node: What stands there, if anything does.

    Returns:
        The same for JSON; `None` if there is none.
    """
    if node is None or is_nothing(node):
        return None
    if not isinstance(node, Mapping):
        document.add("wrong-type", node, f"metadata is a mapping, and this is {kind_of(node)}", "write names and values")
        return None
    return _mapping(document, node, 1) or None


def _mapping(document: Document, node: Mapping, depth: int) -> dict[str, Any]:
    return {_name(key): _value(document, value, depth) for key, value in node.entries.values()}


def _value(document: Document, node: Node, depth: int) -> Any:  # noqa: ANN401  # whatever JSON can say
    if isinstance(node, Scalar):
        return _scalar(document, node)
    if depth >= DEPTH_MAX:
        document.add("bad-metadata", node, f"metadata is nested more than {DEPTH_MAX} deep", "flatten it")
        return None
    if isinstance(node, Sequence):
        return [_value(document, item, depth + 1) for item in node.items]
    return _mapping(document, node, depth + 1)


def _scalar(document: Document, scalar: Scalar) -> str | float | bool | None:
    found = kind(scalar)
    if found == "text":
        return scalar.text
    if found == "null":
        return None
    if found == "switch":
        return switch(scalar.text)
    number = whole(scalar.text)
    if number is not None and abs(number) <= _EXACT_MAX:
        return number
    # All numbers are doubles in the answer, so that a larger one loses digits there too.
    value = float(number) if number is not None else _decimal(scalar.text)
    if not math.isfinite(value):
        document.add(
            "bad-metadata",
            scalar,
            f"`{scalar.text:.40}` is no number that an answer can hold",
            "write a finite number, or a text in quotes",
        )
        return None
    return value


def _decimal(text: str) -> float:
    plain = text.replace("_", "").lower()
    return float("nan") if plain.lstrip("+-") in {".inf", ".nan"} else float(plain)


def _name(key: Scalar) -> str:
    # A name that is no text is turned into one.
    found = kind(key)
    if found == "switch":
        return "true" if switch(key.text) else "false"
    if found == "whole":
        return str(whole(key.text))
    return key.text or "null"
