"""
From text to nodes: what YAML and JSON say, where it stands, and what is refused before anybody looks at rules.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.rules.compose import DEPTH_MAX, NODES_MAX, compose
from tidegate.rules.document import Document
from tidegate.rules.node import Mapping, Node, Scalar, Sequence
from tidegate.rules.problem import Report
from tidegate.rules.scalars import is_ambiguous


def read(text: str) -> Document:
    """
    A composed document.
    """
    document = Document("rules.yaml", Path("rules.yaml"), text, Report())
    compose(document)
    return document


def plain(node: Node | None) -> object:
    """
    The texts of a node, nested as they are.
    """
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    assert isinstance(node, Mapping)
    return {name: plain(value) for name, (_, value) in node.entries.items()}


def codes(document: Document) -> list[tuple[str, int, int]]:
    """
    Codes and places of its problems.
    """
    return [(problem.code, problem.line, problem.column) for problem in document.report.problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a: yes", {"a": "yes"}, id="switch"),
        pytest.param("a: 010", {"a": "010"}, id="octal"),
        pytest.param("a: 0x1F", {"a": "0x1F"}, id="hexadecimal"),
        pytest.param("a: 12:30:45", {"a": "12:30:45"}, id="sexagesimal"),
        pytest.param("a: 2026-01-01", {"a": "2026-01-01"}, id="date"),
        pytest.param("a: 1.50", {"a": "1.50"}, id="decimal"),
        pytest.param("a: ~", {"a": "~"}, id="null"),
        pytest.param("a:", {"a": ""}, id="nothing"),
        pytest.param('{"a": [1, true, null, "x"]}', {"a": ["1", "true", "null", "x"]}, id="json"),
        pytest.param('{"a":"b","c":{"d":1}}', {"a": "b", "c": {"d": "1"}}, id="json-without-blanks"),
        pytest.param('{\n\t"a":\t"b"\n}', {"a": "b"}, id="json-with-tabs"),
        pytest.param('{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}, id="json-surrogates"),
        pytest.param('{"a": "\\\\ud83d\\\\ude00"}', {"a": "\\ud83d\\ude00"}, id="json-escaped-backslash"),
        pytest.param("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}, id="block-text"),
        pytest.param("a: b\r\nc: d\r\n", {"a": "b", "c": "d"}, id="crlf"),
    ],
)
def test_scalars_stay_as_they_are_written(text: str, expected: object) -> None:
    """Nothing is converted, whatever other readers would make of it."""
    document = read(text)

    assert [] == codes(document)
    assert expected == plain(document.root)


def test_nodes_know_where_they_stand() -> None:
    """Lines and columns count characters, not bytes."""
    document = read("ä: ö\nrules:\n  - name: x\n    per: [a, b]\n")
    root = document.root
    assert isinstance(root, Mapping)
    rules = root.get("rules")
    assert isinstance(rules, Sequence)
    rule = rules.items[0]
    assert isinstance(rule, Mapping)
    per = rule.get("per")
    assert isinstance(per, Sequence)

    problem = document.problem("bad-per", per.items[1], "no")

    assert (4, 14, "rules[0].per[1]") == (problem.line, problem.column, problem.path)
    assert (1, 1, "ä") == (document.problem("bad-per", root.entries["ä"][0], "no").line, 1, plain(root.entries["ä"][0]))


@pytest.mark.parametrize(
    ("text", "column"),
    [
        pytest.param("a: 100/minuet", 8, id="plain"),
        pytest.param('a: "100/minuet"', 9, id="double-quotes"),
        pytest.param("a: '100/minuet'", 9, id="single-quotes"),
        pytest.param('a: "\\x3100/minuet"', 4, id="escape"),
        pytest.param("a: |\n  100/minuet\n", 4, id="block"),
    ],
)
def test_a_span_points_into_the_text(text: str, column: int) -> None:
    """Characters of a scalar are found behind its quotes; where escapes move them, its beginning is shown."""
    document = read(text)
    assert isinstance(document.root, Mapping)
    value = document.root.get("a")
    assert value is not None

    assert column == document.problem("bad-quota", value, "no", span=(4, 10)).column


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [("empty-file", 1, 1)], id="empty"),
        pytest.param("# only a comment\n", [("empty-file", 1, 1)], id="comment"),
        pytest.param("---\n", [("empty-file", 1, 1)], id="marker"),
        pytest.param("~", [], id="null-is-a-value"),
        pytest.param("a: 1\nb: \x00", [("control-character", 2, 4)], id="nul"),
        pytest.param("a: 1\r\nb: \x1b", [("control-character", 2, 4)], id="escape-character"),
        pytest.param("a: \ud800", [("control-character", 1, 4)], id="lone-surrogate"),
        pytest.param("a: x\u2028y", [("control-character", 1, 5)], id="line-separator"),
        pytest.param("a: \ufeffb", [("control-character", 1, 4)], id="mark-inside"),
        pytest.param("a:\n\tb: 1", [("tab-indentation", 2, 1)], id="tab"),
        pytest.param("a:\n  - b: 1\n \t- c", [("tab-indentation", 3, 2)], id="tab-behind-a-space"),
        pytest.param("a: 1\n--- \nb: 2", [("several-documents", 2, 1)], id="documents"),
        pytest.param("a: &x 1\nb: *x", [("anchor", 1, 4), ("anchor", 2, 4)], id="anchor"),
        pytest.param("a: &x [1]\nb: {<<: *x}", [("anchor", 1, 4), ("anchor", 2, 9), ("merge-key", 2, 5)], id="merge"),
        pytest.param("a: !!int 1\nb: !x [1]", [("tag", 1, 4), ("tag", 2, 4)], id="tag"),
        pytest.param("a: 1\nb: 2\na: 3", [("duplicate-key", 3, 1)], id="duplicate"),
        pytest.param("{a: {b: 1, b: 2}}", [("duplicate-key", 1, 12)], id="duplicate-in-flow"),
        pytest.param("? [a]\n: b", [("key-not-text", 1, 3)], id="complex-key"),
        pytest.param("a: [1, 2", [("syntax", 1, 4)], id="unclosed"),
        pytest.param("a: b: c", [("syntax", 1, 5)], id="two-colons"),
        pytest.param("a: *", [("syntax", 1, 5)], id="star"),
        pytest.param("@a", [("syntax", 1, 1)], id="reserved"),
        pytest.param("%YAML 9.9\n---\na: 1", [("syntax", 1, 1)], id="version"),
    ],
)
def test_what_yaml_allows_and_rules_do_not(text: str, expected: list[tuple[str, int, int]]) -> None:
    """Each has a code and a place, and the parser's own words are translated."""
    assert expected == codes(read(text))


@pytest.mark.parametrize("left", ["[", "{a: "], ids=["lists", "mappings"])
def test_depth_is_limited(left: str) -> None:
    """A bracket that is repeated a million times is refused at the 33rd."""
    document = read(left * 1_000_000)

    assert ["too-deep"] == [code for code, _, _ in codes(document)]
    assert DEPTH_MAX * len(left) + 1 == document.report.problems[0].column


def test_the_deepest_document_is_read() -> None:
    """The limit itself is possible."""
    assert [] == codes(read("[" * DEPTH_MAX + "]" * DEPTH_MAX))


def test_values_are_counted() -> None:
    """A document of too many is left at the first that is too many."""
    document = read("[" + "0," * NODES_MAX + "0]")

    assert ["too-many-values"] == [code for code, _, _ in codes(document)]


def test_a_bomb_of_aliases_is_not_built() -> None:
    """Each alias is told, none is followed."""
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))]

    document = read("\n".join(lines))

    assert {"anchor"} == {code for code, _, _ in codes(document)}
    assert document.root is None


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "No",
        "ON",
        "off",
        "True",
        "false",
        "null",
        "~",
        "",
        "1",
        "-1",
        "+5",
        "1.5",
        ".5",
        "1e3",
        ".inf",
        ".NaN",
        "0x1f",
        "0o7",
        "010",
        "1_000",
        "1:30",
        "12:30:45",
        "2026-1-1",
        "2026-01-01T00:00:00Z",
        "=",
    ],
)
def test_texts_that_need_quotes(text: str) -> None:
    """What one YAML reader or another takes for something else than a text."""
    assert is_ambiguous(text)


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "none",
        "nil",
        "y",
        "n",
        "100/minute",
        "10.0.0.1",
        "10.0.0.0/8",
        "2001:db8::1",
        "1.2.3",
        "v1",
        "/a/*",
        "-",
        "25%",
        "a b",
        "trues",
        "1st",
        "e5",
        "2026-01",
    ],
)
def test_texts_that_need_none(text: str) -> None:
    """What all of them take for a text."""
    assert not is_ambiguous(text)
