"""
What is wrong with a rule file: one problem, and all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tidegate.rules.catalogue import CATALOGUE

Severity: TypeAlias = Literal["error", "warning"]

PROBLEMS_MAX = 1000
"""Nobody reads more of them, and a broken file could have one for each of its characters."""


@dataclass(frozen=True, slots=True)
class Problem:
    """
    One mistake: what, where, and what to write instead.

    Args:
        code: A stable name for this kind of mistake: a line of `tidegate rules errors`.
        file: The file, as it was named.
        line: The line, from 1.
        column: The character in the line, from 1.
        path: The place in the document, such as `rules[2].match.path`; empty for the document itself.
        message: What is wrong.
        hint: What to do about it.
        length: How many characters from `column` on are meant.
    """

    code: str
    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str | None = None
    length: int = field(default=1, compare=False)

    @property
    def severity(self) -> Severity:
        """
        Whether the file is refused because of it.
        """
        entry = CATALOGUE.get(self.code)
        return "warning" if entry is not None and entry.is_warning else "error"

    @property
    def is_error(self) -> bool:
        """
        Whether it is more than a warning.
        """
        return self.severity == "error"

    def __str__(self) -> str:
        line = f"{self.file}:{self.line}:{self.column}: {self.severity}[{self.code}]: {self.message}"
        return f"{line}\n  hint: {self.hint}" if self.hint else line


class TooManyProblems(Exception):
    """
    Nobody will read any more of them.
    """


class Report:
    """
    All problems of one load, in the order in which they were found.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._errors = 0

    def add(self, problem: Problem) -> None:
        """
        Notes a problem.

        Args:
            problem: The problem.

        Raises:
            TooManyProblems: So many errors that looking for more is of no use. Warnings never end a load: those beyond are dropped.
        """
        if not problem.is_error:
            if len(self.problems) - self._errors < PROBLEMS_MAX:
                self.problems.append(problem)
            return
        self.problems.append(problem)
        self._errors += 1
        if self._errors >= PROBLEMS_MAX:
            more = f"there are {PROBLEMS_MAX} problems or more, and the rest was not looked for"
            at = (problem.file, problem.line, problem.column, problem.path)
            self.problems.append(Problem("too-many-problems", *at, more, "mend these first"))
            raise TooManyProblems

    @property
    def has_errors(self) -> bool:
        """
        Whether the load fails.
        """
        return self._errors > 0

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """
        Those that do not make it fail.
        """
        return tuple(problem for problem in self.problems if not problem.is_error)
