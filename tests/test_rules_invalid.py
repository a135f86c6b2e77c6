"""
Every mistake that people make in rule files: the file name is the mistake, and what is told stands beside it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate._native as native  # noqa: TID251  # what this build of it can do
from tidegate import rules
from tidegate.errors import RuleError
from tidegate.rules import checks
from tidegate.rules.catalogue import CATALOGUE
from tidegate.rules.compose import NODES_MAX
from tidegate.rules.files import FILE_BYTES_MAX, FILES_MAX
from tidegate.rules.problem import PROBLEMS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests import make_rule_problems as made
else:
    import make_rule_problems as made

ENVOY = Path(rules.__file__).parent / "envoy"


def _large(folder: Path) -> None:
    (folder / "rules.yaml").write_bytes(b"#" * (FILE_BYTES_MAX + 1))


def _many_files(folder: Path) -> None:
    for number in range(FILES_MAX + 1):
        (folder / f"{number}.yaml").write_text("version: 1\n")


def _many_values(folder: Path) -> None:
    (folder / "rules.yaml").write_text("rules: [" + "a," * NODES_MAX + "a]\n")


def _many_problems(folder: Path) -> None:
    (folder / "rules.yaml").write_text("version: 1\n" + "".join(f"x{number}: 1\n" for number in range(PROBLEMS_MAX + 1)))


def _many_rules(folder: Path) -> None:
    # The limit is lowered by the test: a hundred thousand rules take their time.
    (folder / "rules.yaml").write_text("version: 1\nrules:\n  - {name: a, per: ip, quotas: 1/s}\n  - {name: b, per: ip, quotas: 1/s}\n")


# Mistakes that no file of a repository can make.
MADE: dict[str, Callable[[Path], None]] = {
    "file-missing": lambda folder: folder.rmdir(),
    "file-unreadable": lambda folder: (folder / "rules.yaml").symlink_to("rules.yaml"),
    "file-too-large": _large,
    "empty-directory": lambda folder: None,
    "too-many-files": _many_files,
    "too-many-values": _many_values,
    "too-many-problems": _many_problems,
    "too-many-rules": _many_rules,
}


def code_of(case: Path) -> str:
    """
    The longest code with which the name of a case begins.
    """
    stem = case.name.partition(".")[0]
    return max((code for code in CATALOGUE if stem == code or stem.startswith(f"{code}-")), key=len, default="")


@pytest.mark.parametrize("case", made.cases(), ids=lambda case: case.name)
def test_a_mistake_is_told_as_it_stands_beside_it(case: Path) -> None:
    """Code, place, message and hint of every problem. `tests/make_rule_problems.py` writes them again."""
    if case.name.startswith("bad-regex") and not hasattr(native, "check_regex"):
        pytest.skip("this build of the compiled module does not check regular expressions")

    assert made.expected(case).read_text(encoding="utf-8") == made.text(case)


@pytest.mark.parametrize("case", made.cases(), ids=lambda case: case.name)
def test_the_file_name_is_the_mistake(case: Path) -> None:
    """It begins with a code, and that code is told."""
    assert code_of(case) in {problem.code for problem in made.problems(case)}


@pytest.mark.parametrize("code", MADE)
def test_mistakes_that_have_to_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Files that are too large, too many, or not there."""
    monkeypatch.setattr(checks, "RULES_MAX", 1)
    folder = tmp_path / "rules"
    folder.mkdir()
    MADE[code](folder)

    with pytest.raises(RuleError) as caught:
        rules.load(folder)

    assert code in {problem.code for problem in caught.value.problems}


def test_every_code_has_a_file() -> None:
    """The catalogue is one table, and nothing in it is only imagined."""
    shown = {problem.code for case in made.cases() for problem in made.problems(case)} | MADE.keys()
    # The reference service's files have tests of their own, with tables of answers.
    of_descriptors = {code for path in ENVOY.glob("*.py") for code in re.findall(r'"([a-z0-9-]+)"', path.read_text(encoding="utf-8"))}

    assert set() == CATALOGUE.keys() - shown - of_descriptors


def test_no_expectation_is_left_over() -> None:
    """Each belongs to a file that exists."""
    expected = {made.expected(case) for case in made.cases()}

    assert expected == set(made.INVALID.glob("*.expected"))


@pytest.mark.parametrize("code", CATALOGUE)
def test_the_catalogue_explains_itself(code: str) -> None:
    """A slug, a sentence, and an example with its mended form that differs from it."""
    entry = CATALOGUE[code]

    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code)
    assert re.fullmatch(r"[A-Z`].*\.", entry.about)
    assert entry.right
    assert entry.wrong != entry.right


@pytest.mark.parametrize("case", made.cases(), ids=lambda case: case.name)
def test_problems_are_told_in_one_style(case: Path) -> None:
    """Lower case, no full stop, no words of the parser, a hint, and nothing of the machine."""
    for problem in made.problems(case):
        assert problem.code in CATALOGUE
        assert problem.hint
        assert not problem.message.endswith(".")
        assert problem.message[0] == problem.message[0].lower() or problem.message.startswith(("YAML", "HS", "RS", "ES", "PS", "Ed"))
        assert not re.search(r"while (parsing|scanning)|any token|of stream|Traceback|object at 0x|\bNone\b", problem.message)
