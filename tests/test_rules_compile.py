"""
From rules to the document that the engine loads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate import Quota, RuleLimiter, rules
from tidegate.rules.model import QuotaText

VALID = Path(__file__).parent.parent / "testdata" / "rules" / "valid"
SETS = sorted([*VALID.glob("*.yaml"), *VALID.glob("*.json"), VALID / "directory", VALID / "with-includes" / "rules.yaml"])


def compiled(rule: str, head: str = "") -> dict[str, Any]:
    """
    One rule, compiled; `name`, `per` and `quotas` are given if it has none.
    """
    lines = [line for line in ("name: a", "per: client", "quotas: 1/s") if f"\n{line.split(':')[0]}:" not in f"\n{rule}"]
    body = "\n    ".join([*lines, *rule.strip().split("\n")])
    ir = rules.load("rules.yaml", text=f"version: 1\n{head}rules:\n  - {body}\n").ir
    found: dict[str, Any] = ir["rules"][0]
    return found


def test_the_example_of_the_design() -> None:
    """The whole document, as the engine reads it."""
    ir = rules.load(VALID / "platform.yaml").ir

    assert ir.keys() == {"version", "domain", "identity", "jwt", "rules", "domains"}
    assert (1, "api_platform", []) == (ir["version"], ir["domain"], ir["domains"])
    assert ir["identity"] == [
        {"header": "x-api-key", "attribute": "api_key", "valid": []},
        {"claim": "sub", "attribute": "user"},
        {"ip": {"trusted_proxies": ["10.0.0.0/8"], "ipv6_prefix": 64}},
    ]
    assert {"header": "authorization", "verified_by": "upstream"} == ir["jwt"]
    assert ir["rules"][0] == {
        "name": "per_client",
        "match": [],
        "per": ["client"],
        "quotas": [{"text": "100/minute", "name": None}],
        "tiers": {
            "pro": [{"text": "1000/minute", "name": None}],
            "enterprise": [{"text": "200/second", "name": None}, {"text": "5000/minute burst 500", "name": None}],
        },
        "overrides": [],
        "cost": {"units": 1},
        "mode": "enforce",
        "rollout": 10_000,
        "rollout_from": 0,
        "priority": 0,
        "stop": False,
        "on_store_error": None,
        "budget_ms": None,
        "headers": True,
        "description": None,
        "owner": None,
    }
    assert ir["rules"][1]["match"] == [
        {"attribute": "method", "test": {"exact": ["POST"]}, "not": False, "ignore_case": True},
        {"attribute": "path", "test": {"pattern": ["/api/v1/orders/**"]}, "not": False, "ignore_case": False},
    ]
    assert [[], "shadow"] == [ir["rules"][4]["per"], ir["rules"][4]["mode"]]


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        pytest.param("{method: post}", ("method", {"exact": ["post"]}, False, True), id="method"),
        pytest.param("{method: [GET, HEAD]}", ("method", {"exact": ["GET", "HEAD"]}, False, True), id="list"),
        pytest.param("{path: /a/*}", ("path", {"pattern": ["/a/*"]}, False, False), id="path"),
        pytest.param("{path: {prefix: /a}}", ("path", {"prefix": ["/a"]}, False, False), id="path-prefix"),
        pytest.param("{path: {pattern: /A, ignore_case: true}}", ("path", {"pattern": ["/A"]}, False, True), id="path-case"),
        pytest.param("{host: '*.example.org'}", ("host", {"glob": ["*.example.org"]}, False, True), id="host"),
        pytest.param("{host: {suffix: .org, ignore_case: false}}", ("host", {"suffix": [".org"]}, False, True), id="host-case"),
        pytest.param("{headers: {X-Plan: pro}}", ("header:x-plan", {"exact": ["pro"]}, False, False), id="header"),
        pytest.param("{header:X-Plan: pro}", ("header:x-plan", {"exact": ["pro"]}, False, False), id="header-name"),
        pytest.param("{query: {Page: '1'}}", ("query:Page", {"exact": ["1"]}, False, False), id="query"),
        pytest.param("{ip: {cidr: 2001:DB8::/32}}", ("ip", {"cidr": ["2001:db8::/32"]}, False, False), id="network"),
        pytest.param("{ip: {cidr: '::ffff:10.0.0.0/104'}}", ("ip", {"cidr": ["10.0.0.0/8"]}, False, False), id="mapped-network"),
        pytest.param("{ip: '::ffff:10.0.0.1'}", ("ip", {"exact": ["10.0.0.1"]}, False, False), id="mapped-address"),
        pytest.param("{tier: {present: true}}", ("tier", "present", False, False), id="present"),
        pytest.param("{tier: {present: false}}", ("tier", "present", True, False), id="absent"),
        pytest.param("{tier: {not: {present: false}}}", ("tier", "present", False, False), id="not-absent"),
        pytest.param("{tier: {not: pro}}", ("tier", {"exact": ["pro"]}, True, False), id="not"),
        pytest.param("{tier: {not: [a, b]}}", ("tier", {"exact": ["a", "b"]}, True, False), id="not-list"),
        pytest.param("{tier: {not: {glob: A*, ignore_case: true}}}", ("tier", {"glob": ["A*"]}, True, True), id="not-inner-case"),
        pytest.param("{tier: {not: A, ignore_case: true}}", ("tier", {"exact": ["A"]}, True, True), id="not-outer-case"),
    ],
)
def test_conditions(match: str, expected: tuple[str, object, bool, bool]) -> None:
    """Every way to write one becomes an attribute, a test, and two flags."""
    found = compiled(f"match: {match}")["match"]

    assert 1 == len(found)
    assert expected == tuple(found[0][name] for name in ("attribute", "test", "not", "ignore_case"))


@pytest.mark.parametrize(
    ("rule", "key", "expected"),
    [
        pytest.param("per: global", "per", [], id="global"),
        pytest.param("per: [ip, header:X-Team]", "per", ["ip", "header:x-team"], id="per"),
        pytest.param("cost: 5", "cost", {"units": 5}, id="cost"),
        pytest.param("cost: size", "cost", {"attribute": "size", "default": 1, "max": None}, id="cost-attribute"),
        pytest.param("cost: header:X-Cost", "cost", {"attribute": "header:x-cost", "default": 1, "max": None}, id="cost-header"),
        pytest.param(
            "cost: {attribute: size, default: 0, max: 9}", "cost", {"attribute": "size", "default": 0, "max": 9}, id="cost-object"
        ),
        pytest.param("rollout: 25%", "rollout", 2500, id="percent"),
        pytest.param("rollout: 0.5%", "rollout", 50, id="half-a-percent"),
        pytest.param("rollout: 0.05%", "rollout", 5, id="hundredths"),
        pytest.param("rollout: 7", "rollout", 700, id="whole-percent"),
        pytest.param('rollout: "100%"', "rollout", 10_000, id="quoted"),
        pytest.param("mode: off", "mode", "off", id="off-is-a-word-here"),
        pytest.param("priority: -1000", "priority", -1000, id="priority"),
        pytest.param("budget_ms: 10000", "budget_ms", 10_000, id="budget"),
        pytest.param("on_store_error: local", "on_store_error", "local", id="policy"),
        pytest.param("headers: false", "headers", False, id="headers"),
        pytest.param("description: {a}".format(a='"two words"'), "description", "two words", id="description"),
        pytest.param(
            "overrides: {abc: 2/s}", "overrides", [{"key": ["abc"], "quotas": [{"text": "2/second", "name": None}]}], id="override"
        ),
    ],
)
def test_keys_of_a_rule(rule: str, key: str, expected: object) -> None:
    """Every default is filled in, and every value has one form."""
    assert expected == compiled(rule)[key]


def test_a_rule_that_only_stops_needs_nothing_else() -> None:
    """An allow list has no key and no quotas."""
    ir = rules.load("rules.yaml", text="version: 1\nrules:\n  - {name: a, match: {path: /healthz}, stop: true}\n").ir

    assert ([], [], True) == tuple(ir["rules"][0][name] for name in ("per", "quotas", "stop"))


@pytest.mark.parametrize(
    ("quotas", "expected"),
    [
        pytest.param("10/s", ["10/second gcra"], id="text"),
        pytest.param("[10/s, 5/minute fixed_window]", ["10/second gcra", "5/minute fixed_window"], id="one-names-another"),
        pytest.param("[20 concurrent, unlimited]", ["20 concurrent", "unlimited"], id="none-to-choose"),
        pytest.param("{limit: 10, period: 1s}", ["10/second gcra"], id="object"),
        pytest.param("10/s burst 5", ["10/second burst 5"], id="implied"),
    ],
)
def test_the_rule_chooses_the_algorithm_of_quotas_that_name_none(quotas: str, expected: list[str]) -> None:
    """In quotas, tiers and overrides alike."""
    found = compiled(f"algorithm: gcra\nquotas: {quotas}\ntiers: {{pro: {quotas}}}\noverrides: {{abc: {quotas}}}")

    assert expected == [quota["text"] for quota in found["quotas"]]
    assert found["quotas"] == found["tiers"]["pro"] == found["overrides"][0]["quotas"]


def test_addresses_in_overrides_are_cut_as_the_engine_cuts_them() -> None:
    """With one source the client is the plain value, with several it says where it is from."""
    one = compiled('overrides: {"2001:db8:1:2:3::4": 2/s}', "identity: [{ip: {ipv6_prefix: 48}}]\n")
    several = compiled('overrides: {"ip:2001:db8:1:2:3::4": 2/s, user:x: 3/s}', "identity: [{attribute: user}, {ip: {}}]\n")

    assert ["2001:db8:1::"] == one["overrides"][0]["key"]
    assert [["ip:2001:db8:1:2::"], ["user:x"]] == [override["key"] for override in several["overrides"]]


@pytest.mark.parametrize(("attribute", "written", "kept"), [("host", "API.Example.com", "api.example.com"), ("method", "post", "POST")])
def test_override_keys_are_spelt_as_the_engine_spells_them(attribute: str, written: str, kept: str) -> None:
    """Hosts are kept in lower case, methods in capitals."""
    assert [kept] == compiled(f"per: {attribute}\noverrides: {{{written}: 2/s}}")["overrides"][0]["key"]


def test_an_override_key_has_the_order_of_per() -> None:
    """However it was written."""
    found = compiled("per: [client, ip]\noverrides: [{key: {ip: 10.0.0.1, client: abc}, quotas: 2/s}]")

    assert ["abc", "10.0.0.1"] == found["overrides"][0]["key"]


@pytest.mark.parametrize(
    ("text", "name"), [("100/minute burst 20", None), ("20 concurrent", "slots"), ("10/day calendar Europe/Berlin", "day")], ids=str
)
def test_a_quota_text_is_a_quota(text: str, name: str | None) -> None:
    """For those who want its numbers."""
    quota = QuotaText(text, name).quota

    assert isinstance(quota, Quota)
    assert (text, name) == (str(quota), quota.name)


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.name)
def test_valid_files_load_without_a_warning(path: Path) -> None:
    """They are examples: nothing in them is odd."""
    assert () == rules.load(path).warnings


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.name)
def test_the_engine_takes_what_was_compiled(path: Path) -> None:
    """Python checks, and Rust refuses nothing of what it let pass."""
    rule_set = rules.load(path)

    assert rule_set is RuleLimiter(rule_set).rule_set
