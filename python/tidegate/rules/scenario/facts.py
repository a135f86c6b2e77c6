"""
What can be expected of a decision: one table, from which files are read, decisions are compared and differences are shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidegate._text import seconds
from tidegate.errors import QuotaError
from tidegate.quota import duration_ns
from tidegate.rules.node import Node, Scalar, Sequence, kind_of
from tidegate.rules.scalars import is_null, read_flag, read_text, read_texts, read_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate import Decision
    from tidegate.rules.document import Document

_SECONDS = re.compile(r"(0|[1-9][0-9]{0,9})(?:\.([0-9]{1,9}))?")


class Wrong:
    """
    Stands for a value that could not be read; the problem is noted.
    """


WRONG: Final = Wrong()


@dataclass(frozen=True, slots=True)
class Fact:
    """
    One thing that a decision says.

    Args:
        about: What it is, for people.
        read: From what stands in the file to what is expected, or `WRONG`.
        actual: The same from a decision.
        show: Either of them, for people.
    """

    about: str
    read: Callable[[Document, Node], object]
    actual: Callable[[Decision], object]
    show: Callable[[object], str]


def read_ns(document: Document, node: Node) -> int | Wrong:
    """
    A duration: seconds as a number, or a text with its unit.

    Args:
        document: Where problems are noted.
        node: What stands there.

    Returns:
        Nanoseconds.
    """
    text = node.text if isinstance(node, Scalar) else ""
    if match := _SECONDS.fullmatch(text):
        return int(match[1]) * 1_000_000_000 + int((match[2] or "").ljust(9, "0"))
    try:
        return duration_ns("the duration", text)
    except QuotaError:
        shown = f"`{text:.80}`" if isinstance(node, Scalar) else kind_of(node)
        document.add("bad-duration", node, f"{shown} is no duration", "write seconds such as 60 or 0.5, or a text such as 30s, 2m or 1h")
        return WRONG


def _read_wait(document: Document, node: Node) -> int | Wrong | None:
    return None if isinstance(node, Scalar) and node.text == "never" else read_ns(document, node)


def _read_flag(document: Document, node: Node) -> bool | Wrong:
    flag = read_flag(document, node)
    return WRONG if flag is None else flag


def _read_denied(document: Document, node: Node) -> bool | Wrong:
    flag = read_flag(document, node)
    return WRONG if flag is None else not flag


def _read_name(document: Document, node: Node) -> str | Wrong | None:
    if is_null(node):
        return None
    text = read_text(document, node)
    return WRONG if text is None else text


def _read_names(document: Document, node: Node) -> tuple[str, ...] | Wrong:
    if isinstance(node, Sequence) and not node.items:
        return ()
    texts = read_texts(document, node)
    wanted = len(node.items) if isinstance(node, Sequence) else 1
    return tuple(text for _, text in texts) if len(texts) == wanted else WRONG


def _read_units(document: Document, node: Node) -> int | Wrong | None:
    if isinstance(node, Scalar) and node.text == "unlimited":
        return None
    units = read_whole(document, node)
    return WRONG if units is None else units


def _show_answer(value: object) -> str:
    return "allowed" if value else "denied"


def _show_name(value: object) -> str:
    return "none" if value is None else str(value)


def _show_names(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


def _show_units(value: object) -> str:
    return "unlimited" if value is None else str(value)


def _show_wait(value: object) -> str:
    return seconds(value) if isinstance(value, int) else "never"


_ANSWER = Fact("whether it may pass", _read_flag, lambda decision: decision.allowed, _show_answer)

FACTS: Final[dict[str, Fact]] = {
    "allowed": _ANSWER,
    "denied": Fact("the opposite of `allowed`", _read_denied, _ANSWER.actual, _show_answer),
    "rule": Fact("the rule that decides; null for none", _read_name, lambda decision: decision.rule, _show_name),
    "rules": Fact("all rules that apply, in their order", _read_names, lambda decision: decision.rules, _show_names),
    "shadowed": Fact("rules in shadow that would have denied", _read_names, lambda decision: decision.shadowed, _show_names),
    "limit": Fact("the limit of the binding quota, or unlimited", _read_units, lambda decision: decision.limit, _show_units),
    "remaining": Fact("what is left, or unlimited", _read_units, lambda decision: decision.remaining, _show_units),
    "retry_after": Fact("exact seconds, or never", _read_wait, lambda decision: decision.retry_after_ns, _show_wait),
}
ANSWERS: Final = ("allowed", "denied")
"""Those that hold for each of several requests; the others are about the last."""


def describe(decision: Decision) -> str:
    """
    A decision in one line.

    Args:
        decision: The decision.

    Returns:
        Everything that can be expected of it.
    """
    return "; ".join(f"{name} {fact.show(fact.actual(decision))}" for name, fact in FACTS.items() if name not in ANSWERS)
