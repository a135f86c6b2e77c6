"""
What the rules make of a request, in words.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tidegate import rules
from tidegate.rules.explain import Explanation, explain

if TYPE_CHECKING:
    from tidegate.rule_limiter import Attributes

RULES = """
version: 1
identity: [{header: x-api-key}, {ip: {}}]
rules:
  - {name: health, match: {path: /health}, stop: true, priority: 10}
  - {name: counted_stop, match: {path: /stop}, per: global, quotas: 10/minute, stop: true, priority: 9}
  - name: clients
    per: client
    quotas: 100/minute
    tiers: {pro: 1000/minute}
    overrides: {"api_key:vip": 5000/minute}
  - {name: writes, match: {method: [POST, PUT], path: "/orders/**"}, per: client, quotas: [2/second, 20/minute]}
  - {name: plans, match: {headers: {x-plan: {prefix: [a, b]}}}, per: ip, quotas: 7/minute}
  - {name: outside, match: {ip: {not: {cidr: 10.0.0.0/8}}, path: {not: {present: true}}}, per: global, quotas: 7/minute}
  - {name: by_user, match: {path: "/users/{id}"}, per: [id, user], quotas: 7/minute}
  - {name: sized, match: {path: /sized}, per: global, quotas: 10/minute, cost: size}
  - {name: trial, match: {path: /trial}, per: global, quotas: 0/minute, mode: shadow}
  - {name: partly, match: {path: "/partly/{id}"}, per: id, quotas: 5/minute, rollout: 50%}
  - {name: gone, per: global, quotas: 1/minute, mode: off}
"""


def explained(request: Attributes, cost: int | None = None) -> Explanation:
    """
    The explanation of a request.
    """
    return explain(rules.load("rules.yaml", text=RULES), request, cost)


def why(request: Attributes, rule: str) -> str:
    """
    Why a rule does or does not apply.
    """
    return next(verdict.why for verdict in explained(request).verdicts if verdict.rule == rule)


def test_the_request_is_shown_as_the_rules_see_it() -> None:
    """One spelling, and who the client is."""
    seen = explained({"method": "put", "path": "//orders/./7/?a=b", "ip": "::ffff:203.0.113.7", "nobody": "asks"}).attributes

    assert {"method": "PUT", "path": "/orders/7", "ip": "203.0.113.7", "client": "ip:203.0.113.7"} == dict(seen)


def test_rules_come_in_the_order_in_which_they_are_looked_at() -> None:
    """Priority first, then the order of the file."""
    names = [verdict.rule for verdict in explained({}).verdicts]

    assert ["health", "counted_stop", "clients", "writes"] == names[:4]


def test_a_rule_that_applies_says_for_whom_and_how_much() -> None:
    """Key, plan, quotas, cost and mode."""
    by_name = {verdict.rule: verdict for verdict in explained({"headers": {"X-Api-Key": "vip"}, "tier": "pro"}).verdicts}
    clients = by_name["clients"]

    assert clients.applies
    assert (("client=api_key:vip",), "override api_key:vip", ("5000/minute",), 1, "enforce", "") == (
        clients.key,
        clients.plan,
        clients.quotas,
        clients.cost,
        clients.mode,
        clients.why,
    )


@pytest.mark.parametrize(
    ("request_", "plan"),
    [
        ({"headers": {"x-api-key": "a"}}, "default"),
        ({"headers": {"x-api-key": "a"}, "tier": "pro"}, "tier pro"),
        ({"headers": {"x-api-key": "a"}, "tier": "unknown"}, "default"),
    ],
    ids=["default", "tier", "unknown-tier"],
)
def test_the_plan_is_named(request_: Attributes, plan: str) -> None:
    """By tier, or the default."""
    assert plan == next(verdict.plan for verdict in explained(request_).verdicts if verdict.rule == "clients")


@pytest.mark.parametrize(
    ("request_", "rule", "expected"),
    [
        ({"method": "GET", "path": "/orders"}, "writes", 'method is "GET", and the rule asks for: POST or PUT'),
        ({"method": "PUT", "path": "/x"}, "writes", 'path is "/x", and the rule asks for: /orders/**'),
        ({"method": "PUT"}, "writes", "the request has no path, and the rule asks for: /orders/**"),
        ({}, "plans", "the request has no header:x-plan, and the rule asks for: begins with a or b"),
        ({"headers": {"X-PLAN": "c"}}, "plans", 'header:x-plan is "c", and the rule asks for: begins with a or b'),
        ({"headers": {"x-plan": "a"}}, "plans", "the request has no ip to count by"),
        ({"ip": "10.1.2.3"}, "outside", 'ip is "10.1.2.3", and the rule asks for: not is in 10.0.0.0/8'),
        ({"ip": "11.1.2.3", "path": "/"}, "outside", 'path is "/", and the rule asks for: absent'),
        ({"path": "/users/7"}, "by_user", "the request has no user to count by"),
        ({"path": "/health"}, "clients", "the rule health before it stops"),
        ({}, "gone", "its mode is off"),
    ],
)
def test_a_rule_that_does_not_apply_says_why(request_: Attributes, rule: str, expected: str) -> None:
    """What the request says, and what the rule asks for."""
    assert expected == why(request_, rule)


def test_a_rule_that_is_off_is_off() -> None:
    """Not in shadow, although it decides as little."""
    assert ["off"] == [verdict.mode for verdict in explained({}).verdicts if verdict.rule == "gone"]


def test_a_partial_rollout_says_on_which_side_the_key_is() -> None:
    """And agrees with the decision."""
    seen = set()
    for number in range(20):
        explanation = explained({"path": f"/partly/{number}"})
        verdict = next(verdict for verdict in explanation.verdicts if verdict.rule == "partly")
        among = "among" if verdict.mode == "enforce" else "not among"

        assert f"the key is {among} the 50% for which it is enforced" == verdict.why
        assert (verdict.mode == "enforce") == (explanation.binding is not None)
        seen.add(verdict.mode)
    assert {"enforce", "shadow"} == seen


def test_the_binding_quota_is_the_one_that_ends_first() -> None:
    """Not the first that is named."""
    explanation = explained({"method": "POST", "path": "/orders", "headers": {"x-api-key": "a"}})

    assert explanation.binding is not None
    assert ("writes", "2/second", 2, 1) == (
        explanation.binding.rule,
        explanation.binding.quota,
        explanation.binding.limit,
        explanation.binding.remaining,
    )
    assert "writes binds with 2/second: allowed, 1 left after it" == explanation.summary


@pytest.mark.parametrize(
    ("request_", "summary"),
    [
        ({"path": "/nothing"}, "no rule applies: allowed"),
        ({"path": "/health"}, "health lets it pass: allowed"),
        ({"path": "/stop"}, "counted_stop binds with 10/minute: allowed, 9 left after it"),
        ({"path": "/trial"}, "no enforced rule applies: allowed"),
        ({"path": "/sized", "size": 11}, "sized binds with 10/minute: denied, and never allowed at this cost, 10 left after it"),
    ],
    ids=["nothing", "stop", "counted-stop", "shadow", "never"],
)
def test_the_summary_says_who_decides(request_: Attributes, summary: str) -> None:
    """In one sentence."""
    assert summary == explained(request_).summary


def test_shadow_denials_are_told() -> None:
    """They deny nobody."""
    explanation = explained({"path": "/trial"})

    assert ("trial",) == explanation.shadowed
    assert explanation.binding is None


def test_the_cost_is_that_of_the_rule_unless_another_is_asked_for() -> None:
    """An attribute may say it."""
    request: Attributes = {"path": "/sized", "size": 4}

    assert [4] == [verdict.cost for verdict in explained(request).verdicts if verdict.rule == "sized"]
    assert [7] == [verdict.cost for verdict in explained(request, 7).verdicts if verdict.rule == "sized"]
    assert {None} == {verdict.cost for verdict in explained(request, 7).verdicts if not verdict.applies}


def test_an_explanation_is_json() -> None:
    """With everything in it."""
    told = json.loads(json.dumps(explained({"path": "/health"}).to_dict()))

    assert {"attributes", "verdicts", "binding", "shadowed", "summary"} == told.keys()
    assert "health" == told["verdicts"][0]["rule"]
    assert told["verdicts"][0]["stops"]
