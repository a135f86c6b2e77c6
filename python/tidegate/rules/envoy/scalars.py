"""
Scalars as the reference service reads them: YAML 1.1 for numbers and switches, the text as it is written for texts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, TypeAlias

from tidegate.rules.node import Node, Scalar, kind_of

if TYPE_CHECKING:
    from tidegate.rules.document import Document

Kind: TypeAlias = Literal["text", "whole", "decimal", "switch", "null"]

UINT32_MAX = 2**32 - 1
_INT64_MAX = 2**63 - 1

_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
# Underscores are removed before these are tried.
_WHOLE = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def kind(scalar: Scalar) -> Kind:
    """
    What a scalar is where its field does not say so.

    Args:
        scalar: The scalar.

    Returns:
        The kind; what stands in quotes is a text.
    """
    text = scalar.text
    if not scalar.is_plain:
        return "text"
    if text in _NULL:
        return "null"
    if text in _TRUE or text in _FALSE:
        return "switch"
    if text[0] not in "+-.0123456789":
        return "text"
    number = whole(text)
    if number is not None:
        # A larger one is of another type there, which is refused like a decimal.
        return "whole" if -_INT64_MAX <= number <= _INT64_MAX else "decimal"
    return "decimal" if _DECIMAL.fullmatch(text.replace("_", "")) else "text"


def whole(text: str) -> int | None:
    """
    A whole number, also `0x10`, `0b1`, `010` (which is 8) and `1_000`.

    Args:
        text: What stands there without quotes.

    Returns:
        The number, or `None` if it is none.
    """
    found = _WHOLE.fullmatch(text.replace("_", ""))
    if found is None or len(text) > 80:  # noqa: PLR2004  # no number of 64 bits is longer in any base
        return None
    sign, digits = found.groups()
    base = {"x": 16, "b": 2, "o": 8}.get(digits[1:2].lower())
    number = int(digits[2:], base) if base is not None else int(digits, 8 if digits[0] == "0" else 10)
    return -number if sign == "-" else number


def is_nothing(node: Node | None) -> bool:
    """
    Whether nothing is given, so that the default counts.

    Args:
        node: What stands there, if anything does.

    Returns:
        Whether it is absent or null.
    """
    return node is None or (isinstance(node, Scalar) and kind(node) == "null")


def read_text(document: Document, node: Node | None) -> str:
    """
    A text where one is asked for: exactly what is written, `404`, `0123` and `yes` too.

    Args:
        document: Where problems are noted.
        node: What stands there, if anything does.

    Returns:
        The text; empty if there is none.
    """
    if node is None or is_nothing(node):
        return ""
    if not isinstance(node, Scalar):
        document.add("wrong-type", node, f"a text is expected, and this is {kind_of(node)}", "write one value")
        return ""
    return node.text


def read_flag(document: Document, node: Node | None) -> bool:
    """
    A switch where one is asked for, in any of the spellings of YAML 1.1.

    Args:
        document: Where problems are noted.
        node: What stands there, if anything does.

    Returns:
        What it says; `False` if there is none.
    """
    if node is None or is_nothing(node):
        return False
    if isinstance(node, Scalar) and node.is_plain and kind(node) == "switch":
        return node.text in _TRUE
    shown = f"`{node.text:.40}`" if isinstance(node, Scalar) else kind_of(node)
    document.add("not-a-boolean", node, f"`true` or `false` is expected, and this is {shown}", "write true or false, without quotes")
    return False


def read_uint32(document: Document, node: Node | None) -> int:
    """
    A whole number where one is asked for.

    Args:
        document: Where problems are noted.
        node: What stands there, if anything does.

    Returns:
        The number; 0 if there is none.
    """
    if node is None or is_nothing(node):
        return 0
    number = whole(node.text) if isinstance(node, Scalar) and node.is_plain else None
    if number is None:
        # A decimal was told already, when the keys were looked at.
        if not (isinstance(node, Scalar) and kind(node) == "decimal"):
            shown = f"`{node.text:.40}`" if isinstance(node, Scalar) else kind_of(node)
            document.add("not-a-whole-number", node, f"a whole number is expected, and this is {shown}", "write digits, without quotes")
        return 0
    if not 0 <= number <= UINT32_MAX:
        document.add("out-of-range", node, f"{number} is not between 0 and {UINT32_MAX}", f"write a number from 0 to {UINT32_MAX}")
        return 0
    return number


def switch(text: str) -> bool:
    """
    Which of the two a switch is.

    Args:
        text: What stands there, of the kind `switch`.

    Returns:
        Whether it is on.
    """
    return text in _TRUE
