"""
Problems as text with the lines they are about, as JSON, and as annotations of a build.
"""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.rules.files import FILE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegate.rules import Problem

_WIDTH_MAX = 120


def as_text(problems: Sequence[Problem], texts: Mapping[str, str]) -> str:
    """
    Problems for people, each with its line.

    Args:
        problems: The problems.
        texts: What files say that are no files.

    Returns:
        The text.
    """
    files: dict[str, list[str]] = {}
    blocks = []
    for problem in problems:
        if problem.file not in files:
            files[problem.file] = _lines(problem.file, texts)
        head, _, hint = str(problem).partition("\n")
        blocks.append("\n".join(filter(None, (head, _excerpt(problem, files[problem.file]), hint))) + "\n")
    return "\n".join((*blocks, "")) if blocks else ""


def as_json(problems: Sequence[Problem], _texts: Mapping[str, str]) -> str:
    """
    Problems for programs.

    Args:
        problems: The problems.

    Returns:
        A JSON list with one object for each.
    """
    fields = ("code", "severity", "file", "line", "column", "length", "path", "message", "hint")
    return json.dumps([{name: getattr(problem, name) for name in fields} for problem in problems], indent=2, ensure_ascii=False) + "\n"


def as_github(problems: Sequence[Problem], _texts: Mapping[str, str]) -> str:
    """
    Problems as annotations that builds show beside the changed lines.

    Args:
        problems: The problems.

    Returns:
        One workflow command for each.
    """
    return "".join(f"::{problem.severity} {_properties(problem)}::{_escaped(_sentence(problem))}\n" for problem in problems)


def count(problems: Sequence[Problem]) -> str:
    """
    How many there are.

    Args:
        problems: The problems.

    Returns:
        Such as `2 errors, 1 warning`.
    """
    errors = sum(problem.is_error for problem in problems)
    warnings = len(problems) - errors
    parts = (f"{number} {word}{'' if number == 1 else 's'}" for number, word in ((errors, "error"), (warnings, "warning")) if number)
    return ", ".join(parts)


def _lines(file: str, texts: Mapping[str, str]) -> list[str]:
    text = texts.get(file)
    if text is None:
        try:
            path = Path(file)
            text = (
                path.read_text(encoding="utf-8-sig", errors="replace") if path.stat().st_size <= FILE_BYTES_MAX and path.is_file() else ""
            )
        except (OSError, ValueError):
            text = ""
    return re.split(r"\r\n|\r|\n", text) if text else []


def _excerpt(problem: Problem, lines: list[str]) -> str:
    if not 0 < problem.line <= len(lines):
        return ""
    line = "".join(
        " " if unicodedata.category(character) in {"Cc", "Cf", "Zl", "Zp"} else character for character in lines[problem.line - 1]
    )
    begin = max(0, problem.column - _WIDTH_MAX // 2) if problem.column > _WIDTH_MAX - 20 else 0
    shown = line[begin : begin + _WIDTH_MAX]
    number = str(problem.line)
    caret = " " * (problem.column - 1 - begin) + "^" * max(1, min(problem.length, _WIDTH_MAX - (problem.column - 1 - begin)))
    return f"  {number} | {shown.rstrip()}\n  {' ' * len(number)} | {caret}"


def _sentence(problem: Problem) -> str:
    return f"{problem.message}\nhint: {problem.hint}" if problem.hint else problem.message


def _properties(problem: Problem) -> str:
    end = problem.column + problem.length
    found = {"file": problem.file, "line": problem.line, "col": problem.column, "endColumn": end, "title": problem.code}
    return ",".join(f"{name}={_escaped(str(value)).replace(':', '%3A').replace(',', '%2C')}" for name, value in found.items())


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
