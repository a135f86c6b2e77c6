"""
Whatever happens to a rule file, it loads or says what is wrong and where.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate import rules
from tidegate.errors import ConfigError, RuleError
from tidegate.rules.catalogue import CATALOGUE
from tidegate.rules.fmt import format_text

if TYPE_CHECKING:
    import pytest

VALID = Path(__file__).parent.parent / "testdata" / "rules" / "valid"
TEXTS = {path: path.read_text(encoding="utf-8") for path in sorted([*VALID.glob("*.yaml"), *VALID.glob("*.json")])}
SNIPPETS = st.sampled_from(
    [
        *(
            "",
            " ",
            "  ",
            "\t",
            "\n",
            "\r",
            "\r\n",
            ":",
            ": ",
            "-",
            "- ",
            "#",
            " #",
            ",",
            "[",
            "]",
            "{",
            "}",
            "'",
            '"',
            "|",
            ">",
            "&a ",
            "*a",
        ),
        *(
            "!",
            "!!str ",
            "%",
            "@",
            "`",
            "?",
            "? ",
            "---",
            "...",
            "<<: ",
            "~",
            "null",
            "yes",
            "0x1",
            "010",
            "1.5",
            "-1",
            "1e400",
            "..",
            "/**",
        ),
        *("\x00", "\x07", "\x85", "\u2028", "\ufeff", "\U0001f600", "\\", "\\u", "\\ud800", "\\x00", "per", "name", "not: ", "tier: pro"),
        *("rules:", "include: .", "include: ../x", "global", "descriptors: ", "domain: a", "limit: 99999999999999999999", "cidr: ::/129"),
    ]
)
INSERTED = st.one_of(SNIPPETS, st.text(max_size=12))


@st.composite
def mutated(draw: st.DrawFn) -> tuple[Path, str]:
    """
    A valid file after one to three accidents.
    """
    path = draw(st.sampled_from(list(TEXTS)))
    text = TEXTS[path]
    for _ in range(draw(st.integers(1, 3))):
        text = draw(accident(text))
    return path, text


@st.composite
def accident(draw: st.DrawFn, text: str) -> str:
    """
    A line is lost, moved, repeated or cut, a character is changed, or something is inserted.
    """
    lines = text.split("\n")
    first, second = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    kind = draw(st.sampled_from(["delete", "swap", "repeat", "indent", "cut", "change", "insert"]))
    if kind == "delete":
        del lines[first]
    elif kind == "swap":
        lines[first], lines[second] = lines[second], lines[first]
    elif kind == "repeat":
        lines.insert(second, lines[first])
    elif kind == "indent":
        lines[first] = " " * draw(st.integers(0, 8)) + lines[first].lstrip()
    elif kind == "cut":
        return text[: draw(st.integers(0, len(text)))]
    else:
        place = draw(st.integers(0, len(text)))
        return text[:place] + draw(INSERTED) + text[place + (kind == "change") :]
    return "\n".join(lines)


def places(text: str) -> list[int]:
    """
    How long each line is.
    """
    return [len(line) for line in text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")]


@settings(max_examples=600, deadline=None)
@given(mutated())
@example((VALID / "x.yaml", "version: 1\nrules: [{match: {path: {not: {not: {not: a}}}}}]"))
@example((VALID / "x.yaml", "version: 1\nrules: [&a {per: *a}]"))
@example((VALID / "x.yaml", "version: 1\nrules: [{name: a, per: ip, quotas: [" + "[" * 40))
@example((VALID / "x.yaml", "? {a: b}\n: c"))
@example((VALID / "x.yaml", "\ufeffversion: 1\n\ufeffrules: []"))
@example((VALID / "x.json", '{"version": 1, "rules": [{"name": "\\ud800"}]}'))
def test_a_mutated_file_loads_or_says_where_it_is_wrong(case: tuple[Path, str]) -> None:
    """Never another exception, never a place outside of the file, never a code that nobody explains."""
    path, text = case
    try:
        problems = rules.load(path, text=text).warnings
    except RuleError as error:
        problems = error.problems
        assert any(problem.is_error for problem in problems)
    lines = places(text)
    for problem in problems:
        assert problem.code in CATALOGUE
        if problem.file == str(path):
            assert 1 <= problem.line <= len(lines)
            # JSON's escapes of two halves become one of another length.
            assert 1 <= problem.column <= lines[problem.line - 1] + 1


@settings(max_examples=200, deadline=None)
@given(mutated())
def test_formatting_a_mutated_file_keeps_its_meaning(case: tuple[Path, str]) -> None:
    """What loads still loads, to the same document; and formatting twice is formatting once."""
    path, text = case
    try:
        formatted = format_text(text, path.name)
    except ConfigError:
        return
    assert formatted == format_text(formatted, path.name)
    try:
        expected = rules.load(path, text=text).ir
    except RuleError:
        return
    assert expected == rules.load(path, text=formatted).ir


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200) | st.lists(SNIPPETS, max_size=30).map("".join))
def test_any_text_loads_or_says_why_not(text: str) -> None:
    """Also one that was never a rule file."""
    with suppress(RuleError):
        rules.load(VALID / "x.yaml", text=text)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=100))
def test_any_bytes_load_or_say_why_not(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Files are bytes before they are text."""
    path = tmp_path_factory.getbasetemp() / "bytes.yaml"
    path.write_bytes(data)
    with suppress(RuleError):
        rules.load(path)
