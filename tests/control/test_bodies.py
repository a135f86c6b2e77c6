"""
Rules as they are sent to the control plane: three ways to write one, and the words in which mistakes are told.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import rules
from tidegate.control import bodies, simple
from tidegate.control.compose import NO_FILES, check
from tidegate.errors import RuleError
from tidegate.rules.model import Source

FULL = """
description: what a checkout costs
match:
  method: [POST, PUT]
  path: /api/v1/orders/**
per: [client, ip]
quotas: [10/second, {limit: 200, period: 1m, name: per_minute}]
tiers: {pro: 100/second}
cost: {attribute: size, default: 1, max: 100}
mode: shadow
priority: 10
headers: false
"""


def problems_of(text: str, rule_id: str | None = "orders") -> list[tuple[str, str, str]]:
    """
    What is wrong with a rule: code, path and message.
    """
    reading = bodies.read(rule_id, text, ())
    check(reading, NO_FILES)
    return [(problem.code, problem.path, problem.message) for problem in reading.problems]


def linted(text: str) -> set[tuple[str, str | None]]:
    """
    What the linter says of a file with this rule.
    """
    indented = "\n".join(f"    {line}" for line in text.splitlines())
    with pytest.raises(RuleError) as caught:
        rules.load("x.yaml", text=f"version: 1\nrules:\n  - name: orders\n{indented}\n")
    return {(problem.message, problem.hint) for problem in caught.value.problems}


def test_a_rule_in_yaml_is_the_same_as_its_body_in_json() -> None:
    """What is kept of a text says the same as the text."""
    reading = bodies.read("orders", FULL, ())
    again = bodies.read("orders", bodies.to_text(reading.body()), ())

    assert reading.is_good, reading.problems
    assert _same(reading.rule) == _same(again.rule)
    assert "name" not in reading.body()
    assert reading.body()["headers"] is False


def test_an_item_of_a_file_is_taken_with_its_name() -> None:
    """What was copied out of a file needs no editing."""
    reading = bodies.read(None, "- name: login\n  per: ip\n  quotas: 5/minute\n", ())

    assert reading.rule is not None
    assert "login" == reading.rule.name
    assert {"per": "ip", "quotas": "5/minute"} == reading.body()


@pytest.mark.parametrize(
    "text",
    [
        "per: client\nquotas: 100/minuet",
        "per: client\nquotes: 100/minute",
        "per: [global, ip]\nquotas: 1/second",
        "per: client\nquotas: 1/second\nmatch: {path: no-slash}",
        "per: client\nquotas: 1/second\nrollout: 120%",
        "per: client\nquotas: 1/second\nmode: shdow\npriority: high",
        "quotas: yes",
    ],
)
def test_mistakes_are_told_as_the_linter_tells_them(text: str) -> None:
    """The same words and the same hints, whichever way a rule comes."""
    reading = bodies.read("orders", text, ())
    check(reading, NO_FILES)

    assert linted(text) == {(problem.message, problem.hint) for problem in reading.problems}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "missing-key"),
        ("just a text", "wrong-type"),
        ("[1, 2]", "wrong-type"),
        ("{", "syntax"),
        ("name: other\nper: ip\nquotas: 1/second", "bad-name"),
        ("a: &x 1", "anchor"),
        ("description: '" + "x" * bodies.TEXT_MAX + "'", "file-too-large"),
        ("[" * 40 + "]" * 40, "too-deep"),
        ("per: ip\nquotas: 1/second\n<script>: 1", "unknown-key"),
        ("\x00", "control-character"),
    ],
)
def test_what_is_no_rule_is_refused_with_a_code(text: str, code: str) -> None:
    """Nothing that is sent breaks the reader."""
    assert code in [found[0] for found in problems_of(text)]


@pytest.mark.parametrize("name", ["<b>x</b>", "a b", "", "x" * 65, "orders~1", "'; DROP TABLE rules; --"])
def test_names_that_metrics_cannot_carry_are_refused(name: str) -> None:
    """A name of HTML, SQL or of a version never gets into the database."""
    codes = {found[0] for found in problems_of("per: ip\nquotas: 1/second", name)}

    assert codes & {"bad-name", "empty-text"}


def test_keys_of_customers_are_not_stored_with_rules() -> None:
    """An override by API key belongs to the quotas API, which keeps a digest of it."""
    identity = (Source("header", "x-api-key", "api_key"),)
    reading = bodies.read("orders", "per: client\nquotas: 1/second\noverrides: {sk_live_4242424242: 9/second}", identity)
    check(reading, NO_FILES)

    assert ["bad-override"] == [problem.code for problem in reading.problems]
    assert not any("4242" in str(problem) for problem in reading.problems)


def test_a_plan_of_an_address_may_be_stored() -> None:
    """Addresses are not what customers prove themselves by."""
    reading = bodies.read("orders", "per: ip\nquotas: 1/second\noverrides: {203.0.113.7: 9/second}", ())
    check(reading, NO_FILES)

    assert reading.is_good, reading.problems


SIMPLE = {
    "endpoint_pattern": "/api/v1/orders/**",
    "method": "POST",
    "limit": 100,
    "window_seconds": 60,
    "algorithm": "sliding_window",
    "scope": "client",
    "priority": 5,
}


def test_simple_fields_are_another_spelling_of_a_rule() -> None:
    """What they say comes back as it was sent, and they say everything."""
    reading = bodies.read("orders", bodies.to_text(simple.to_body(SIMPLE)), ())

    assert reading.rule is not None
    assert SIMPLE | {"is_simple": True} == simple.of_rule(reading.rule)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ({"method": "*"}, {"method": None}),
        ({"method": ["GET", "HEAD"]}, {"method": ["GET", "HEAD"]}),
        ({"window_seconds": 0.25}, {"window_seconds": 0.25}),
        ({"window_seconds": 60.0}, {"window_seconds": 60}),
        ({"scope": ["client", "ip"]}, {"scope": ["client", "ip"]}),
        ({"scope": "global"}, {"scope": "global"}),
        ({"algorithm": None}, {"algorithm": "sliding_window"}),
        ({"algorithm": "token_bucket"}, {"algorithm": "gcra"}),
        ({"endpoint_pattern": None, "priority": None}, {"endpoint_pattern": None, "priority": 0}),
    ],
)
def test_simple_fields_come_back(sent: dict[str, Any], told: dict[str, Any]) -> None:
    """Every spelling of a field has one form in answers."""
    reading = bodies.read("orders", bodies.to_text(simple.to_body(SIMPLE | sent)), ())

    assert reading.rule is not None, reading.problems
    assert SIMPLE | told | {"is_simple": True} == simple.of_rule(reading.rule)


@pytest.mark.parametrize(
    ("sent", "field", "code"),
    [
        ({"limit": -1}, "limit", "out-of-range"),
        ({"limit": "many"}, "limit", "not-a-whole-number"),
        ({"limit": 1.5}, "limit", "not-a-whole-number"),
        ({"window_seconds": 0}, "limit", "bad-quota"),
        ({"window_seconds": {"a": 1}}, "window_seconds", "wrong-type"),
        ({"algorithm": "gcrb"}, "limit", "bad-quota"),
        ({"endpoint_pattern": "orders"}, "endpoint_pattern", "bad-path-pattern"),
        ({"scope": 7}, "scope", "number-for-text"),
        ({"priority": 5000}, "priority", "out-of-range"),
        ({"method": []}, "method", "empty-list"),
    ],
)
def test_mistakes_in_simple_fields_name_the_field(sent: dict[str, Any], field: str, code: str) -> None:
    """Who sent `limit` is told about `limit`, and not about the body that it became."""
    found = [(simple.field_of(path), kind) for kind, path, _ in problems_of(bodies.to_text(simple.to_body(SIMPLE | sent)))]

    assert (field, code) in found


TEXTS = st.text("a0/{}*~<>'\"\\ :#-\n\x00é\U0001f600", max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.sampled_from(["client", "1/second", "25%", "shadow", 1.5]) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["per", "quotas", "match", "mode", "rollout", "tiers", "overrides", "cost", "x"]), JSON, max_size=6))
def test_whatever_is_sent_is_read_or_refused(body: dict[str, Any]) -> None:
    """No JSON breaks the reader, and what is good stays good as it is kept."""
    reading = bodies.read("orders", bodies.to_text(body), ())
    check(reading, NO_FILES)

    if reading.is_good:
        again = bodies.read("orders", bodies.to_text(json.loads(json.dumps(reading.body()))), ())
        assert _same(reading.rule) == _same(again.rule)
    else:
        assert reading.problems


def _same(rule: rules.Rule | None) -> str:
    assert rule is not None
    return repr({name: getattr(rule, name) for name in rule.__slots__ if name != "line"})
