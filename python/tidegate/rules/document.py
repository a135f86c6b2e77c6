"""
One file of rules: its text, its nodes, and where each of them stands.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidegate.rules.node import Mapping, Node, Scalar, Sequence
from tidegate.rules.problem import Problem, Report

if TYPE_CHECKING:
    from pathlib import Path

_LINE_END = re.compile(r"\r\n|\r|\n")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_:-]+")


class Document:
    """
    A file that was read and composed.

    Args:
        name: The file, as messages call it.
        path: Where it is, so that others can be found from it.
        text: What it says.
        report: Where its problems are collected.
    """

    def __init__(self, name: str, path: Path, text: str, report: Report) -> None:
        self.name = name
        self.path = path
        self.text = text
        self.report = report
        self.root: Node | None = None
        self._lines: list[str] | None = None
        self._paths: dict[int, str] | None = None

    @property
    def lines(self) -> list[str]:
        """
        Its lines, without their ends.
        """
        if self._lines is None:
            self._lines = _LINE_END.split(self.text)
        return self._lines

    def add(self, code: str, node: Node, message: str, hint: str | None = None, span: tuple[int, int] | None = None) -> None:
        """
        Notes a problem with a node.

        Args:
            code: The kind of mistake, from the catalogue.
            node: What is wrong.
            message: Why.
            hint: What to write instead.
            span: Which characters of a scalar's text are meant: the first, and the one after the last.
        """
        self.report.add(self.problem(code, node, message, hint, span))

    def problem(self, code: str, node: Node, message: str, hint: str | None = None, span: tuple[int, int] | None = None) -> Problem:
        """
        Makes a problem of a node, without noting it; see `add`.
        """
        start, end = node.start, node.end
        line, column = start.line + 1, start.column + 1
        length = end.column - start.column if isinstance(node, Scalar) and start.line == end.line else 1
        if span is not None and isinstance(node, Scalar) and (offset := self._offset(node)) is not None:
            column += offset + span[0]
            length = span[1] - span[0]
        return self._problem(code, line, column, self.path_of(node), message, hint, length)

    def add_at(self, code: str, line: int, column: int, message: str, hint: str | None = None) -> None:
        """
        Notes a problem with a character of the text.

        Args:
            code: The kind of mistake, from the catalogue.
            line: The line, from 1.
            column: The character in it, from 1.
            message: What is wrong.
            hint: What to write instead.
        """
        self.report.add(self._problem(code, line, column, "", message, hint, 1))

    def path_of(self, node: Node) -> str:
        """
        Where a node is in the document.

        Args:
            node: A key, a value or an item of a list.

        Returns:
            Such as `rules[2].match.path`.
        """
        # Made when the first problem needs it: a good file never pays for it.
        if self._paths is None:
            self._paths = {}
            if self.root is not None:
                self._name(self.root, "")
        return self._paths.get(id(node), "")

    def _name(self, node: Node, path: str) -> None:
        paths: dict[int, str] = self._paths if self._paths is not None else {}
        paths[id(node)] = path
        if isinstance(node, Sequence):
            for index, item in enumerate(node.items):
                self._name(item, f"{path}[{index}]")
        elif isinstance(node, Mapping):
            for name, (key, value) in node.entries.items():
                shown = name if _PLAIN_NAME.fullmatch(name) else f'"{name:.40}"'
                inner = f"{path}.{shown}" if path else shown
                paths[id(key)] = inner
                self._name(value, inner)

    def _offset(self, scalar: Scalar) -> int | None:
        # With escapes or folded lines, characters of the text are not where they seem to be.
        if scalar.start.line != scalar.end.line:
            return None
        written = self.lines[scalar.start.line][scalar.start.column : scalar.end.column]
        offset = 0 if scalar.is_plain else 1
        return offset if written[offset : offset + len(scalar.text)] == scalar.text else None

    def _problem(self, code: str, line: int, column: int, path: str, message: str, hint: str | None, length: int) -> Problem:  # noqa: PLR0913, PLR0917  # the fields of a problem
        # The parser's last position is behind the last line; people look for it at its end.
        line = max(1, min(line, len(self.lines)))
        width = len(self.lines[line - 1])
        column = max(1, min(column, width + 1))
        return Problem(code, self.name, line, column, path, message, hint, max(1, min(length, width + 1 - column)))
