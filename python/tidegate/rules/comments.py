"""
Comments and blank lines of a file, and to what they belong.

The parser drops them; `fmt` keeps them. A comment in a line of its own belongs to what follows, one behind a value to that value.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.rules.node import Node, Scalar, Sequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.rules.document import Document


@dataclass(slots=True)
class Comment:
    """
    A comment, or a blank line.

    Args:
        line: Its line, from 0.
        column: Its column, from 0.
        text: What it says, with its `#`; empty for a blank line.
        is_alone: Whether nothing stands before it.
    """

    line: int
    column: int
    text: str
    is_alone: bool


@dataclass(slots=True)
class Attached:
    """
    What belongs to one entry of a mapping or to one item of a list.

    Args:
        before: Lines above it; empty ones are blank.
        behind: The comment in its line.
        after: Comments below it that are indented like it.
    """

    before: list[str] = field(default_factory=list)
    behind: Comment | None = None
    after: list[str] = field(default_factory=list)


def find_comments(document: Document) -> list[Comment]:
    """
    Every comment and every blank line of a document, in order.

    Args:
        document: A document that was composed.

    Returns:
        The comments.
    """
    texts = [] if document.root is None else sorted(_spans(document.root))
    starts = [start for start, _ in texts]
    found = []
    for number, line in enumerate(document.lines):
        column = _find(line, number, texts, starts)
        if column is not None:
            before = line[:column].strip()
            found.append(Comment(number, column, line[column:].rstrip(), is_alone=not before.strip("-").strip()))
        elif not line.strip() and not _is_inside((number, 0), texts, starts):
            found.append(Comment(number, 0, "", is_alone=True))
    return found


Place = tuple[int, int]


def _spans(node: Node) -> Iterator[tuple[Place, Place]]:
    if isinstance(node, Scalar):
        start = (node.start.line, node.start.column)
        # A comment may stand in the first line of a block text.
        yield ((node.start.line + 1, 0) if node.style in {"|", ">"} else start), (node.end.line, node.end.column)
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from _spans(item)
    else:
        for key, value in node.entries.values():
            yield from _spans(key)
            yield from _spans(value)


def _find(line: str, number: int, texts: list[tuple[Place, Place]], starts: list[Place]) -> int | None:
    column = line.find("#")
    while column >= 0:
        is_apart = column == 0 or line[column - 1] in " \t"
        if is_apart and not _is_inside((number, column), texts, starts):
            return column
        column = line.find("#", column + 1)
    return None


def _is_inside(place: Place, texts: list[tuple[Place, Place]], starts: list[Place]) -> bool:
    index = bisect.bisect_right(starts, place) - 1
    return index >= 0 and texts[index][0] <= place < texts[index][1]


class Comments:
    """
    The comments of a document, by the key or item to which they belong.

    Args:
        document: The document.
    """

    def __init__(self, document: Document) -> None:
        self.comments = find_comments(document)
        self._places = [(comment.line, comment.column) for comment in self.comments if comment.text]
        self._by_node: dict[int, Attached] = {}
        self.head: list[str] = []
        self.tail: list[str] = []

    def of(self, node: Node) -> Attached:
        """
        What belongs to a key or to an item.

        Args:
            node: The key or the item.

        Returns:
            Its comments.
        """
        return self._by_node.get(id(node)) or Attached()

    def has_inside(self, node: Node) -> bool:
        """
        Whether a comment stands between the brackets of a node.

        Args:
            node: A list or a mapping.

        Returns:
            Whether it cannot be written in one line.
        """
        start, end = (node.start.line, node.start.column), (node.end.line, node.end.column)
        return bisect.bisect_left(self._places, start) < bisect.bisect_left(self._places, end)

    def attach(self, anchors: list[tuple[Node, int]]) -> None:
        """
        Gives each comment to a key or to an item.

        Args:
            anchors: Keys and items that will have lines of their own, in the order of the file, and the columns of their blocks.
        """
        places = [(anchor.start.line, anchor.start.column) for anchor, _ in anchors]
        for comment in self.comments:
            index = bisect.bisect_left(places, (comment.line, comment.column))
            if index == 0:
                self.head.append(comment.text)
            elif not comment.is_alone:
                self._behind(anchors[index - 1][0], comment)
            else:
                self._alone(comment, anchors, index)

    def _alone(self, comment: Comment, anchors: list[tuple[Node, int]], index: int) -> None:
        following, column = anchors[index] if index < len(anchors) else (None, -1)
        before = (anchors[position] for position in range(index - 1, -1, -1))
        above, inner = next(((anchor, at) for anchor, at in before if at <= comment.column), anchors[0])
        if comment.text and comment.column > column and inner > max(column, 0):
            # It is indented like something in the block above: it ends that block.
            self._attached(above).after.append(comment.text)
        elif following is not None:
            self._attached(following).before.append(comment.text)
        else:
            self.tail.append(comment.text)

    def _behind(self, anchor: Node, comment: Comment) -> None:
        attached = self._attached(anchor)
        if attached.behind is None:
            attached.behind = comment
        else:
            attached.after.append(comment.text)

    def _attached(self, anchor: Node) -> Attached:
        return self._by_node.setdefault(id(anchor), Attached())
