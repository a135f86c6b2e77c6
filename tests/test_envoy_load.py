"""
Files of the reference service: how they are found, told apart, merged and bounded.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate import Limiter, rules
from tidegate.errors import RuleError, UsageError
from tidegate.rules import envoy
from tidegate.rules.catalogue import CATALOGUE
from tidegate.rules.document import Document
from tidegate.rules.envoy.compose import NODES_MAX
from tidegate.rules.problem import Report
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from tests.envoy_tables import cases
else:  # Tests are scripts in a folder, not a package.
    from envoy_tables import cases

ONE = "domain: {}\ndescriptors:\n  - key: {}\n    rate_limit: {{unit: minute, requests_per_unit: 1}}\n"


def codes(text: str) -> list[str]:
    """
    What is told of one file.
    """
    return [problem.code for problem in envoy.load([Document("d.yaml", Path("d.yaml"), text, Report())])[1]]


@pytest.mark.parametrize(
    ("text", "is_envoy"),
    [
        ("domain: d\ndescriptors: []\n", True),
        ("descriptors: []\n", True),
        ("# only a name\ndomain: d\n", True),
        ('{"domain": "d", "descriptors": []}', True),
        ("tidegate: {atomic: true}\ndomain: d\ndescriptors: []\n", True),
        ("domain: {a: 1}\ndescriptors: []\n", True),
        ("version: 1\ndomain: d\nrules: []\n", False),
        ("domain: d\nrules: []\n", False),
        ("rules: []\ndescriptors: []\n", False),
        ("- descriptors\n", False),
        ("descriptors\n", False),
        ("a: {descriptors: []}\n", False),
        ("", False),
        ("domain: [", False),
        ("\x00", False),
    ],
)
def test_the_keys_of_the_first_level_tell_the_format(text: str, *, is_envoy: bool) -> None:
    """
    What can be read as rules is left to the loader of rules.
    """
    assert is_envoy == envoy.is_envoy(text)


def test_a_limiter_is_made_of_such_a_file(tmp_path: Path) -> None:
    """
    The file loads as it is, and its name is watched like others.
    """
    path = tmp_path / "shop.yaml"
    path.write_text(ONE.format("shop", "tenant"), encoding="utf-8")

    limiter = Limiter.from_rules(path, clock=ManualClock())

    ask = [{"entries": [("tenant", "acme")]}]
    assert ["OK", "OVER_LIMIT"] == [limiter.check_descriptors("shop", ask)["overall_code"] for _ in range(2)]
    assert path in rules.load(path).files


def test_a_directory_mixes_both_formats(tmp_path: Path) -> None:
    """
    Rules decide on attributes, trees on descriptors.
    """
    (tmp_path / "a.yaml").write_text(ONE.format("shop", "tenant"), encoding="utf-8")
    (tmp_path / "b.yaml").write_text("version: 1\nrules: [{name: all, per: global, quotas: 1/minute}]\n", encoding="utf-8")

    limiter = Limiter.from_rules(tmp_path, clock=ManualClock())

    assert limiter.check({}).allowed
    assert not limiter.check({}).allowed
    assert limiter.check_descriptors("shop", [{"entries": [("tenant", "a")]}])["overall_code"] == "OK"


def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path) -> None:
    """
    Through the same door and with the same words as rules.
    """
    path = tmp_path / "shop.yaml"
    path.write_text("domain: shop\ndescriptors:\n  - key: a\n    ratelimit: {}\n", encoding="utf-8")

    with pytest.raises(RuleError) as raised:
        rules.load(path)

    assert [("unknown-key", 4, 5)] == [(problem.code, problem.line, problem.column) for problem in raised.value.problems]


def test_what_only_this_format_allows_loads_through_the_same_door(tmp_path: Path) -> None:
    """
    Anchors, several documents and `yes` are mistakes in rules, and none here.
    """
    path = tmp_path / "shop.yaml"
    text = (
        "domain: d\ndescriptors:\n  - {key: a, shadow_mode: yes, rate_limit: &x {unit: day}}\n  - {key: b, rate_limit: *x}\n---\nmore: [\n"
    )
    path.write_text(text, encoding="utf-8")

    assert [] == [problem.code for problem in rules.load(path).warnings]


def test_every_file_of_a_directory_counts_and_dot_files_if_they_are_wanted(tmp_path: Path) -> None:
    """
    Whatever its name is, as in the reference service; directories such as `..data` are not looked into.
    """
    (tmp_path / "..data").mkdir()
    (tmp_path / "plain").write_text(ONE.format("a", "k"), encoding="utf-8")
    (tmp_path / ".hidden").write_text(ONE.format("b", "k"), encoding="utf-8")

    assert ["b", "a"] == [domain["domain"] for domain in envoy.load_path(tmp_path)[0]]
    assert ["a"] == [domain["domain"] for domain in envoy.load_path(tmp_path, ignore_dot_files=True)[0]]


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    """
    A missing file, a directory loop and bytes that are no text.
    """
    (tmp_path / "latin").write_bytes(b"domain: d\n# \xe9\n")
    (tmp_path / "loop").symlink_to("loop")

    found = envoy.load_path(tmp_path)[1]

    assert {("not-utf-8", 2), ("file-unreadable", 1)} == {(problem.code, problem.line) for problem in found}
    assert ["file-missing"] == [problem.code for problem in envoy.load_path(tmp_path / "nowhere")[1]]


def test_a_bomb_of_aliases_is_refused() -> None:
    """
    Copies count: ten lines cannot become a billion nodes.
    """
    lines = [
        "a: &a [{key: k}, {key: k}]",
        *(f"{name}: &{name} [*{old}, *{old}, *{old}, *{old}, *{old}, *{old}]" for old, name in zip("abcdefg", "bcdefgh", strict=True)),
    ]

    assert "too-many-values" in codes("domain: d\n" + "\n".join(lines))


def test_depth_and_size_are_bounded() -> None:
    """
    Forty levels are fine, one more is not; and nothing is too deep for the reader.
    """
    inner = "{key: k, rate_limit: {unit: day}}"
    for _ in range(39):
        inner = f"{{key: k, descriptors: [{inner}]}}"

    assert [] == codes(f"domain: d\ndescriptors: [{inner}]\n")
    assert ["too-deep"] == codes(f"domain: d\ndescriptors: [{{key: k, descriptors: [{inner}]}}]\n")
    assert ["too-deep"] == codes("domain: d\ndescriptors: " + "[" * 5000)
    assert ["too-many-values"] == codes("domain: d\ndescriptors: [" + "{}," * (NODES_MAX + 1) + "]")


def test_every_code_of_this_format_is_in_the_catalogue_and_in_a_table() -> None:
    """
    What can be told is listed, and shown by an example.
    """
    told = {problem.partition(" ")[2].partition(" ")[0] for case in cases() for problem in case.values[0].problems}

    assert told <= CATALOGUE.keys()
    assert {
        "empty-domain", "duplicate-domain", "empty-key", "duplicate-descriptor", "list-item", "decimal-value", "bad-unit",
        "unlimited-with-unit", "bad-replaces", "nothing-to-share", "bad-metadata", "atomic-differs", "unknown-anchor",
        "misplaced-key", "repeated-key",
    } <= told  # fmt: skip


@pytest.mark.parametrize(
    "descriptors",
    [
        5,
        [5],
        [{"entries": 5}],
        [{"entries": [5]}],
        [{"entries": [("a", 5)]}],
        [{"entries": [("a", "b", "c")]}],
        [{"entries": [("a", "b")], "limit": 5}],
        [{"entries": [("a", "b")], "limit": {"requests_per_unit": -1, "unit": "DAY"}}],
        [{"entries": [("a", "b")], "limit": {"requests_per_unit": 1, "unit": "EON"}}],
        [{"entries": [("a", "b")], "limit": {"requests_per_unit": 1}}],
        [{"entries": [("a", "b")], "hits_addend": -1}],
        [{"entries": [("k", "b")], "hits_addend": 2**53 + 1}],
        [{"entries": [("a", "b")], "is_negative_hits": "no"}],
        [{"entries": [("a", "b")], "extra": 1}],
        [{"entries": [("a", "b")]}] * 1001,
    ],
    ids=str,
)
def test_wrong_descriptors_are_refused(tmp_path: Path, descriptors: object) -> None:
    """
    With words, and nothing is counted.
    """
    path = tmp_path / "d.yaml"
    path.write_text(ONE.format("d", "k"), encoding="utf-8")
    limiter = Limiter.from_rules(path)

    with pytest.raises(UsageError):
        limiter.check_descriptors("d", descriptors)  # type: ignore[arg-type]

    assert limiter.stats().keys == 0


def test_entries_are_pairs_or_mappings_and_strange_texts_are_texts(tmp_path: Path) -> None:
    """
    A lone surrogate in a value must not be an error that a client can cause.
    """
    path = tmp_path / "d.yaml"
    path.write_text(ONE.format("d", "k"), encoding="utf-8")
    limiter = Limiter.from_rules(path)

    answer = limiter.check_descriptors("d", [{"entries": [{"key": "k", "value": "\ud800"}]}, {"entries": [("k", "x" * 1_000_000)]}])

    assert ["OK", "OK"] == [status["code"] for status in answer["statuses"]]


def test_headers_tell_the_tightest_status(tmp_path: Path) -> None:
    """
    The position is that of the last denial, otherwise of the least that is left.
    """
    path = tmp_path / "d.yaml"
    path.write_text(ONE.format("d", "k") + "  - {key: l, rate_limit: {unit: day, requests_per_unit: 9}}\n", encoding="utf-8")
    limiter = Limiter.from_rules(path, clock=ManualClock())
    ask = [{"entries": [("l", "a")]}, {"entries": [("k", "a")]}, {"entries": [("none", "a")]}]

    assert [1, 1] == [limiter.check_descriptors("d", ask)["tightest"] for _ in range(2)]
    assert limiter.check_descriptors("d", ask[2:])["tightest"] is None


def test_counters_survive_a_new_limit_and_start_afresh_with_a_new_unit(tmp_path: Path) -> None:
    """
    As in the reference service: the limit is not part of the counter's name, the window is.
    """
    path = tmp_path / "d.yaml"
    text = ONE.format("d", "k")
    path.write_text(text, encoding="utf-8")
    limiter = Limiter.from_rules(path, clock=ManualClock())
    ask = [{"entries": [("k", "a")]}]
    limiter.check_descriptors("d", ask, 2)

    path.write_text(text.replace("unit: 1", "unit: 5"), encoding="utf-8")
    limiter.load(path)
    kept = limiter.check_descriptors("d", ask)
    path.write_text(text.replace("minute", "hour"), encoding="utf-8")
    limiter.load(path)
    fresh = limiter.check_descriptors("d", ask)

    assert (2, "OK") == (kept["statuses"][0]["limit_remaining"], kept["overall_code"])
    assert (0, "OK") == (fresh["statuses"][0]["limit_remaining"], fresh["overall_code"])
