"""
What is wrong with settings: one problem, and all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.rules import Problem


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """
    One mistake: where, what, and what to write instead.

    Args:
        where: `file:line:column`, the name of a flag, or the name of a variable.
        code: A stable name for this kind of mistake.
        message: What is wrong.
        hint: What to do about it.
    """

    where: str
    code: str
    message: str
    hint: str | None = None

    @classmethod
    def in_file(cls, problem: Problem) -> SettingProblem:
        """
        What the reader of YAML found.

        Args:
            problem: The problem.

        Returns:
            The same.
        """
        at = f"{problem.path}: " if problem.path else ""
        return cls(f"{problem.file}:{problem.line}:{problem.column}", problem.code, f"{at}{problem.message}", problem.hint)

    def __str__(self) -> str:
        line = f"{self.where}: error[{self.code}]: {self.message}"
        return f"{line}\n  hint: {self.hint}" if self.hint else line


class SettingsError(ConfigError):
    """
    Settings with which the service cannot start.

    Args:
        problems: All of them.
    """

    def __init__(self, problems: Sequence[SettingProblem]) -> None:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__("\n".join((f"the settings cannot be used: {count}", *map(str, problems))))
        self.problems = tuple(problems)
