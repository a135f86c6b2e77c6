"""
From the text of a scalar to a value, without guessing.

YAML parsers disagree on what `yes`, `010`, `12:30` and `2026-01-01` are. Here each of them is a problem until it is written so that
there is only one reading.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidegate.errors import QuotaError
from tidegate.quota import duration_ns
from tidegate.rules.names import meant
from tidegate.rules.node import Node, Scalar, Sequence, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate.rules.document import Document

_SWITCHES = frozenset({"yes", "no", "on", "off", "true", "false"})
_FLAGS = {"true": {"yes", "on", "true", "1", "y"}, "false": {"no", "off", "false", "0", "n"}}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.inf|\.nan", re.IGNORECASE)
_ODD = re.compile(
    r"""[-+]?0[0-9_]+            # octal for some, decimal for others
      | [-+]?0[xob][0-9a-fA-F_]+ # other bases
      | [-+]?[0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?
      | [-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?  # base 60
      | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt\ ].*)?""",
    re.VERBOSE,
)
_UNITS_MAX = 2**53
_DAY_NS = 86_400_000_000_000


def quoted(text: str) -> str:
    """
    A text as it is written in double quotes.

    Args:
        text: The text; only its beginning is shown if it is long.

    Returns:
        The text in quotes.
    """
    shown = text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004  # a line of a terminal
    return '"' + shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def is_null(node: Node) -> bool:
    """
    Whether nothing is given: `key:`, `key: ~`, `key: null`.

    Args:
        node: The node.

    Returns:
        Whether it is one of them.
    """
    return isinstance(node, Scalar) and node.is_plain and node.text in {"", "~", "null", "Null", "NULL"}


def read_text(document: Document, node: Node) -> str | None:
    """
    A text where one is asked for.

    Args:
        document: Where problems are noted.
        node: What stands there.

    Returns:
        The text, or `None` if there is none that is beyond doubt.
    """
    if not isinstance(node, Scalar):
        document.add("wrong-type", node, f"a text is expected, and this is {kind_of(node)}", "write one value")
        return None
    text = node.text
    if node.style or not is_ambiguous(text):
        if not text:
            document.add("empty-text", node, "the text is empty", "write something between the quotes, or remove the key")
            return None
        return text
    if is_null(node):
        document.add("missing-value", node, "there is no value", "write one, or remove the key")
    elif _WHOLE.fullmatch(text) or _DECIMAL.fullmatch(text):
        document.add("number-for-text", node, f"a text is expected, and {text} is a number", f"write {quoted(text)}")
    else:
        message = f"YAML readers disagree on what {text:.80} is without quotes"
        document.add("ambiguous-scalar", node, message, f"write {quoted(text)} if it is a text")
    return None


def is_ambiguous(text: str) -> bool:
    """
    Whether a text without quotes is something else than a text, to some parsers at least.

    Args:
        text: What stands there without quotes.

    Returns:
        Whether it needs quotes to be a text.
    """
    first = text[:1]
    if first.isalpha():
        return len(text) <= 5 and (text.lower() in _SWITCHES or text in {"null", "Null", "NULL"})  # noqa: PLR2004  # "false"
    if first == "/":
        return False
    return not text or text in {"~", "="} or bool(_WHOLE.fullmatch(text) or _DECIMAL.fullmatch(text) or _ODD.fullmatch(text))


def read_texts(document: Document, node: Node) -> list[tuple[Scalar, str]]:
    """
    One text or a list of texts.

    Args:
        document: Where problems are noted.
        node: What stands there.

    Returns:
        Those that are texts, each with its place.
    """
    if not isinstance(node, Sequence):
        text = read_text(document, node)
        return [(node, text)] if text is not None and isinstance(node, Scalar) else []
    if not node.items:
        document.add("empty-list", node, "the list is empty", "write what it holds, or remove the key")
    found = []
    for item in node.items:
        text = read_text(document, item)
        if text is not None and isinstance(item, Scalar):
            found.append((item, text))
    return found


def read_whole(document: Document, node: Node, low: int = 0, high: int = _UNITS_MAX) -> int | None:
    """
    A whole number where one is asked for.

    Args:
        document: Where problems are noted.
        node: What stands there.
        low: The smallest that is possible.
        high: The largest.

    Returns:
        The number, or `None`.
    """
    text = node.text if isinstance(node, Scalar) else ""
    if is_null(node):
        document.add("missing-value", node, "there is no value", "write one, or remove the key")
    elif not isinstance(node, Scalar) or not node.is_plain or not _WHOLE.fullmatch(text) or len(text) > 20:  # noqa: PLR2004  # 64 bits
        shown = f"{text:.40}" if isinstance(node, Scalar) else f"this is {kind_of(node)}"
        hint = (
            "remove the quotes"
            if isinstance(node, Scalar) and not node.is_plain and _WHOLE.fullmatch(text)
            else "write digits only, without zeros before them"
        )
        document.add("not-a-whole-number", node, f"a whole number is expected: {shown}", hint)
    elif not low <= int(text) <= high:
        document.add("out-of-range", node, f"{text} is not between {low} and {high}", f"write a number from {low} to {high}")
    else:
        return int(text)
    return None


def read_flag(document: Document, node: Node) -> bool | None:
    """
    `true` or `false`.

    Args:
        document: Where problems are noted.
        node: What stands there.

    Returns:
        Which of them, or `None`.
    """
    text = node.text if isinstance(node, Scalar) and node.is_plain else None
    if text == "true":
        return True
    if text == "false":
        return False
    if is_null(node):
        document.add("missing-value", node, "there is no value", "write `true` or `false`")
        return None
    written = node.text if isinstance(node, Scalar) else ""
    shown = f"this is {kind_of(node)}" if not isinstance(node, Scalar) else quoted(written) if node.style else f"{written:.40}"
    wanted = next((word for word, others in _FLAGS.items() if written.lower() in others), "`true` or `false`")
    document.add("not-a-boolean", node, f"`true` or `false` is expected: {shown}", f"write {wanted}")
    return None


def read_choice(document: Document, node: Node, choices: Iterable[str]) -> str | None:
    """
    One of several words.

    Args:
        document: Where problems are noted.
        node: What stands there.
        choices: The words.

    Returns:
        The word, or `None`.
    """
    choices = tuple(choices)
    # `mode: off` is no mistake: the word is asked for, and no other reading fits.
    if isinstance(node, Scalar) and node.text in choices:
        return node.text
    text = read_text(document, node)
    if text is not None:
        document.add("unknown-choice", node, f"`{text:.80}` is none of {', '.join(choices)}", meant(text, choices))
    return None


def read_seconds(document: Document, node: Node) -> int | None:
    """
    A duration of whole seconds, such as `30s`.

    Args:
        document: Where problems are noted.
        node: What stands there.

    Returns:
        Seconds, or `None`.
    """
    hint = "write a number with its unit, such as 30s or 2m"
    text = node.text if isinstance(node, Scalar) and not is_null(node) else None
    if text is None:
        document.add("bad-duration", node, "a duration is expected", hint)
        return None
    try:
        nanoseconds = duration_ns("the duration", text)
    except QuotaError:
        document.add("bad-duration", node, f"`{text:.80}` is no duration", hint)
        return None
    if nanoseconds % 1_000_000_000 or nanoseconds > _DAY_NS:
        document.add("bad-duration", node, f"`{text:.80}` is not a number of whole seconds up to one day", hint)
        return None
    return nanoseconds // 1_000_000_000
