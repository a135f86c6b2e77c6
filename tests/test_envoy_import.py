"""
`tidegate rules import`: rules that say the same as a file of the reference service, and a list of what they do not say.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, note, settings

from tidegate import Limiter, rules
from tidegate.cli import run
from tidegate.rules import envoy
from tidegate.rules.document import Document
from tidegate.rules.importer import fits, import_domains
from tidegate.rules.problem import Report
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from tests.envoy_model import Model
    from tests.envoy_tables import Case, cases
    from tests.test_envoy_properties import levels
    from tidegate.rules.importer import Imported
else:  # Tests are scripts in a folder, not a package.
    from envoy_model import Model
    from envoy_tables import Case, cases
    from test_envoy_properties import levels

PROFILE = settings(
    max_examples=150, deadline=None, derandomize=True, database=None, print_blob=True, suppress_health_check=list(HealthCheck)
)


def imported(text: str) -> Imported:
    """
    Imports one file.
    """
    domains, problems = envoy.load([Document("d.yaml", Path("d.yaml"), text, Report())])
    assert not [problem for problem in problems if problem.is_error]
    return import_domains(domains)


def tree(*lines: str) -> str:
    """
    A file with these descriptors, each limited to five a minute.
    """
    limit = "rate_limit: {unit: minute, requests_per_unit: 5}"
    return "domain: d\ndescriptors:\n" + "".join(f"  - {{{line}, {limit}}}\n" for line in lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (tree("key: k"), [{"name": "k", "per": "k", "quotas": "5/minute fixed_window"}]),
        (tree("key: k, value: a"), [{"name": "k_a", "match": {"k": "a"}, "per": "global", "quotas": "5/minute fixed_window"}]),
        (
            tree("key: k, value: a", "key: k"),
            [
                {"name": "k_a", "match": {"k": "a"}, "per": "global", "quotas": "5/minute fixed_window"},
                {"name": "k", "match": {"k": {"not": ["a"]}}, "per": "k", "quotas": "5/minute fixed_window"},
            ],
        ),
        (
            tree("key: path, value: /a*, shadow_mode: true", "key: path, value: /a/b"),
            [
                {
                    "name": "path__a_",
                    "match": {"path": {"glob": "/a*"}},
                    "per": "path",
                    "quotas": "5/minute fixed_window",
                    "overrides": {"/a/b": "unlimited"},
                    "mode": "shadow",
                },
                {"name": "path__a_b", "match": {"path": {"exact": "/a/b"}}, "per": "global", "quotas": "5/minute fixed_window"},
            ],
        ),
        (
            tree("key: k, value: a?*, share_threshold: true"),
            [{"name": "k_a__", "match": {"k": {"regex": "(?s)a\\?.*"}}, "per": "global", "quotas": "5/minute fixed_window"}],
        ),
        (
            "domain: d\ndescriptors:\n  - key: a\n    descriptors:\n      - key: b\n        rate_limit: {unit: month, name: my limit}\n",
            [{"name": "my_limit", "per": ["a", "b"], "quotas": "0/30d fixed_window"}],
        ),
        (
            tree("key: a, tidegate: {algorithm: gcra, quotas: 5/hour}"),
            [{"name": "a", "per": "a", "quotas": ["5/minute gcra", "5/hour gcra"]}],
        ),
    ],
)
def test_a_limit_becomes_a_rule(text: str, expected: list[dict[str, Any]]) -> None:
    """
    Entries with a value are conditions, those without one are `per`.
    """
    found = imported(text)

    assert expected == [rule for rule, _ in found.rules]
    assert expected == yaml.safe_load(found.to_yaml())["rules"]
    assert [] == found.lost


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        (tree("key: a*"), "d.a*: the key `a*` is a pattern, and an attribute has one name"),
        (tree("key: a b"), "d.a b: `a b` cannot be the name of an attribute"),
        (
            "domain: d\ndescriptors: [{key: a, descriptors: [{key: a, rate_limit: {unit: day}}]}]",
            "d.a.a: `a` is there twice, and an attribute has one value",
        ),
        ("domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true}}]", "d.a: it is unlimited and needs no rule"),
        (
            "domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true, replaces: [{name: b}]}}]",
            "d.a: it is unlimited and needs no rule, and it no longer replaces b",
        ),
        (
            "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, replaces: [{name: b}]}}]",
            "a: that it replaces b: all rules that match apply",
        ),
        (tree("key: a, metadata: {x: 1}"), "a: metadata"),
        (tree("key: a, value_to_metric: true"), "a: that metrics show values"),
        (tree("key: a, detailed_metric: true"), "a: that metrics show values"),
        (tree("key: a, value: x*, share_threshold: true", "key: a, value: xy"), "a_x_: that a=xy have limits of their own: both count"),
        (tree("key: a, value: x*", "key: a, value: '*y'"), "a__y: that a=x* come before it: both count"),
        (
            tree("key: a, quota_mode: true"),
            "a: quota_mode, which denies only together with others; it is in shadow, so that nothing more is denied than before",
        ),
    ],
)
def test_what_rules_cannot_say_is_listed(text: str, lost: str) -> None:
    """
    In the list, and as a comment in the file.
    """
    found = imported(text)

    assert [lost] == found.lost
    assert lost.partition(": ")[2] in found.to_yaml()


@pytest.mark.parametrize("case", [parameter for parameter in cases() if not parameter.values[0].problems])
def test_every_valid_file_of_the_tables_becomes_rules_that_load(case: Case) -> None:
    """
    Whatever they hold.
    """
    domains = case.load()[0].ir["domains"]

    rules.load("rules.yaml", text=import_domains(domains).to_yaml())


@PROFILE
@given(level=levels(3))
def test_every_tree_becomes_rules_that_load(level: list[dict[str, Any]]) -> None:
    """
    Of any shape.
    """
    rules.load("rules.yaml", text=imported(yaml.safe_dump({"domain": "d", "descriptors": level})).to_yaml())


@PROFILE
@given(level=levels(1))
def test_the_rule_of_a_request_is_the_limit_of_its_descriptor(level: list[dict[str, Any]]) -> None:
    """
    Where nothing is lost, a request with one attribute meets the limit that the reference service finds, and no other.
    """
    for node in level:
        node.pop("quota_mode", None)
        node.get("rate_limit", {}).pop("replaces", None)
    text = yaml.safe_dump({"domain": "d", "descriptors": level})
    found = imported(text)
    assume(all("unlimited" in lost for lost in found.lost))
    note(found.to_yaml())
    limiter = Limiter.from_rules(rules.load("rules.yaml", text=found.to_yaml()), clock=ManualClock())
    model = Model({"descriptors": level})
    for key in ("a", "b", "c"):
        for value in ("x", "xy", "y", "x_y", "z"):
            limit = model.limit({"entries": [(key, value)]})
            expected = None if limit is None or limit.get("unlimited") else limit["requests_per_unit"]

            decision = limiter.peek({key: value})

            found_limits = [status.limit for status in decision.quotas if status.limit is not None]
            assert found_limits == ([] if expected is None else [expected]), (key, value)


def test_the_command_writes_rules_and_tells_what_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Rules go to stdout or to a file, notes to stderr.
    """
    source, target = tmp_path / "shop.yaml", tmp_path / "rules.yaml"
    source.write_text(tree("key: tenant, metadata: {a: b}"), encoding="utf-8")

    assert 0 == run(["rules", "import", str(source)])
    printed = capsys.readouterr()
    assert 0 == run(["rules", "import", str(source), "-o", str(target)])

    assert printed.out == target.read_text(encoding="utf-8")
    assert "not expressed: tenant: metadata\n" == printed.err
    assert ["tenant"] == [rule.name for rule in rules.load(target).rules]


def test_the_command_refuses_a_wrong_file_with_its_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    As every command does.
    """
    source = tmp_path / "shop.yaml"
    source.write_text("domain: d\ndescriptors: [{kee: a}]\n", encoding="utf-8")

    assert 2 == run(["rules", "import", str(source)])

    assert f"{source}:2:16: error[unknown-key]" in capsys.readouterr().err


def test_patterns_fit_as_the_engine_says() -> None:
    """
    The importer judges which values a pattern hides.
    """
    assert fits("bar*b", "barb")
    assert fits("a*b*c", "axbxc")
    assert not fits("a*a", "a")
    assert not fits("a*bc*c", "abc")
