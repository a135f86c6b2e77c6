"""
Writes what each file of `testdata/rules/invalid` is told, beside it; `--check` compares instead.

The file name is the mistake: it begins with the code. Read the changes: they are what people will read.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tidegate import rules
from tidegate.errors import RuleError

INVALID = Path(__file__).parent.parent / "testdata" / "rules" / "invalid"


def cases() -> list[Path]:
    """
    The files and directories with a mistake.
    """
    return sorted(path for path in INVALID.iterdir() if path.suffix != ".expected")


def problems(case: Path) -> tuple[rules.Problem, ...]:
    """
    What is said about one of them, with names relative to the folder.
    """
    before = Path.cwd()
    os.chdir(INVALID)
    try:
        name = Path(case.name)
        source = name / "rules.yaml" if (name / "rules.yaml").exists() else name
        return rules.load(source).warnings
    except RuleError as error:
        return error.problems
    finally:
        os.chdir(before)


def text(case: Path) -> str:
    """
    The same as the text that stands beside it.
    """
    return "".join(f"{problem}\n" + (f"  path: {problem.path}\n" if problem.path else "") for problem in problems(case))


def expected(case: Path) -> Path:
    """
    Where that text stands.
    """
    return case.with_name(f"{case.name.partition('.')[0]}.expected")


def main() -> int:
    """
    Writes or compares all of them.
    """
    is_right = True
    for case in cases():
        place, now = expected(case), text(case)
        if "--check" not in sys.argv:
            place.write_text(now, encoding="utf-8")
        elif not place.exists() or place.read_text(encoding="utf-8") != now:
            print(f"{place} differs", file=sys.stderr)  # noqa: T201  # a script
            is_right = False
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
