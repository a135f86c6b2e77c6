"""
What a document is made of: scalars, sequences and mappings that know where they stand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from yaml import Mark


class Scalar:
    """
    A text as it was written: nothing is converted, `0x10` and `yes` are texts like others.

    Args:
        text: Its characters, without quotes.
        style: Which quotes it had; `None` or empty for none.
        start: Its first character.
        end: The one after its last.
    """

    __slots__ = ("end", "start", "style", "text")

    def __init__(self, text: str, style: str | None, start: Mark, end: Mark) -> None:
        self.text = text
        self.style = style
        self.start = start
        self.end = end

    @property
    def is_plain(self) -> bool:
        """
        Whether it stands without quotes.
        """
        return not self.style


class Sequence:
    """
    A list.

    Args:
        is_flow: Whether it is written in brackets.
        start: Its first character.
        end: The one after its last.
    """

    __slots__ = ("end", "is_flow", "items", "start")

    def __init__(self, *, is_flow: bool, start: Mark, end: Mark) -> None:
        self.items: list[Node] = []
        self.is_flow = is_flow
        self.start = start
        self.end = end


class Mapping:
    """
    Keys and values. Keys are texts and differ from each other.

    Args:
        is_flow: Whether it is written in braces.
        start: Its first character.
        end: The one after its last.
    """

    __slots__ = ("end", "entries", "is_flow", "start")

    def __init__(self, *, is_flow: bool, start: Mark, end: Mark) -> None:
        self.entries: dict[str, tuple[Scalar, Node]] = {}
        self.is_flow = is_flow
        self.start = start
        self.end = end

    def get(self, name: str) -> Node | None:
        """
        The value of a key.

        Args:
            name: The key.

        Returns:
            The value, if there is one.
        """
        entry = self.entries.get(name)
        return None if entry is None else entry[1]


Node: TypeAlias = Scalar | Sequence | Mapping


def kind_of(node: Node) -> str:
    """
    What a node is, for messages.

    Args:
        node: The node.

    Returns:
        A noun with its article.
    """
    if isinstance(node, Mapping):
        return "a mapping"
    return "a list" if isinstance(node, Sequence) else "a single value"
