"""
From files and stored rules to the one rule set in force, and what a change is while it rolls out.
"""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import rules
from tidegate.control.compose import NO_FILES, compose, versions
from tidegate.control.models import ChangeRequest, StoredRule
from tidegate.rule_limiter import RuleLimiter
from tidegate.rules.model import Mode
from tidegate.testing import ManualClock

FILES = rules.load(
    "rules.yaml",
    text="""
version: 1
domain: shop
identity: [{header: x-user}]
rules:
  - {name: everybody, per: global, quotas: 1000/second}
""",
)
CLIENTS = [f"client-{number}" for number in range(400)]


def stored(name: str, revision: int = 1, **body: object) -> StoredRule:
    """
    A stored rule.
    """
    return StoredRule(rule_id=name, revision=revision, body={"per": "client", "quotas": "10/minute"} | body)


def change(name: str, body: dict[str, Any] | None, *steps: int, step: int = 0, number: int = 12) -> ChangeRequest:
    """
    A change that rolls out.
    """
    state = "shadow" if steps[step] == 0 else "rolling"
    return ChangeRequest(id=number, rule_id=name, body=body, state=state, steps=list(steps), step=step)


def test_rules_of_files_come_first_and_stored_ones_by_their_names() -> None:
    """The order is the same on every instance, whatever the database answers first."""
    composed = compose(FILES, [stored("b"), stored("a")]).rule_set

    assert ["everybody", "a", "b"] == [rule.name for rule in composed.rules]
    assert ["everybody", "a", "b"] == [rule["name"] for rule in composed.ir["rules"]]
    assert "shop" == composed.domain
    assert FILES.identity == composed.identity


def test_nothing_but_stored_rules_is_enough() -> None:
    """A control plane needs no file of rules."""
    with RuleLimiter(compose(None, [stored("a", quotas="1/minute")]).rule_set) as limiter:
        assert [True, False] == [limiter.allow({"client": "x"}) for _ in range(2)]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (stored("everybody"), "rules.yaml:6 has a rule of this name"),
        (stored("broken", quotas="100/minuet"), 'unknown unit "minuet"'),
        (stored("old", flavour="sweet"), "a rule has no `flavour`"),
    ],
)
def test_a_stored_rule_that_cannot_be_taken_is_left_out_and_told(bad: StoredRule, why: str) -> None:
    """One rule never keeps the others from coming into force."""
    composition = compose(FILES, [stored("a"), bad])

    assert ["everybody", "a"] == [rule.name for rule in composition.rule_set.rules]
    assert {bad.rule_id: why} == dict(composition.left_out)
    assert composition.problem == f"the stored rule `{bad.rule_id}` is left out: {why}"


def test_a_change_begins_in_shadow() -> None:
    """The old rule decides, and the new one tells under a name of its own what it would have said."""
    new = {"per": "client", "quotas": "1/minute"}
    composed = compose(NO_FILES, [stored("orders", quotas="2/minute")], [change("orders", new, 0, 50)]).rule_set
    with RuleLimiter(composed) as limiter:
        decisions = [limiter.check({"client": "x"}) for _ in range(3)]

    assert ["enforce", "shadow"] == [rule.mode for rule in composed.rules]
    assert [True, True, False] == [decision.allowed for decision in decisions]
    assert [(), ("orders~12",), ("orders~12",)] == [decision.shadowed for decision in decisions]


@pytest.mark.parametrize("share", [1, 5, 25, 50, 99, 100])
def test_every_key_has_exactly_one_version(share: int) -> None:
    """While a change rolls out nobody has both versions, and nobody has none."""
    new = {"per": "client", "quotas": "20/minute"}
    composed = compose(NO_FILES, [stored("orders")], [change("orders", new, share)]).rule_set
    with RuleLimiter(composed) as limiter:
        told = [{rule["rule"]: rule["mode"] for rule in limiter.explain({"client": client})["rules"]} for client in CLIENTS]

    assert {("enforce", "shadow"), ("shadow", "enforce")} >= {(modes["orders"], modes["orders~12"]) for modes in told}
    reached = sum(modes["orders~12"] == "enforce" for modes in told) / len(CLIENTS) * 100
    assert abs(reached - share) < 10


def test_a_key_that_was_reached_stays_reached() -> None:
    """A later step takes in more keys and gives none back."""
    new = {"per": "client", "quotas": "20/minute"}
    before: set[str] = set()
    for share in (5, 25, 50, 100):
        composed = compose(NO_FILES, [stored("orders")], [change("orders", new, share)]).rule_set
        with RuleLimiter(composed) as limiter:
            reached = {client for client in CLIENTS if limiter.explain({"client": client})["rules"][1]["mode"] == "enforce"}

        assert before <= reached
        before = reached


def test_who_is_reached_by_a_looser_rule_has_more() -> None:
    """The old limit does not hold for keys that have the new one, and the new one not for the others."""
    new = {"per": "client", "quotas": "20/minute"}
    composed = compose(NO_FILES, [stored("orders")], [change("orders", new, 50)]).rule_set
    with RuleLimiter(composed, clock=ManualClock()) as limiter:
        admitted = {client: sum(limiter.allow({"client": client}) for _ in range(30)) for client in CLIENTS[:50]}

    assert {10, 20} == set(admitted.values())


def test_counters_survive_the_whole_way_of_a_change() -> None:
    """What a key has used is used, in shadow, at every step and at the end: a roll-out gives nobody a fresh start."""
    clock = ManualClock()
    old, new = stored("orders", quotas="10/minute"), {"per": "client", "quotas": "20/minute"}
    steps = [compose(NO_FILES, [old], [change("orders", new, 0, 50, 100, step=step)]).rule_set for step in range(3)]
    with RuleLimiter(compose(NO_FILES, [old]).rule_set, clock=clock) as limiter:
        for rule_set in (*steps, compose(NO_FILES, [stored("orders", 2, quotas="20/minute")]).rule_set):
            limiter.load(rule_set)
            assert all(limiter.allow({"client": "x"}) for _ in range(2))

        assert 20 - 8 == limiter.peek({"client": "x"}).remaining


def test_a_new_rule_rolls_out_under_its_own_name() -> None:
    """There is no old version to tell it from, and its counters are those that it keeps."""
    composed = compose(NO_FILES, [], [change("orders", {"per": "client", "quotas": "1/minute"}, 0, 10, step=1)]).rule_set

    assert [("orders", "enforce", 1000)] == [(rule.name, rule.mode, rule.rollout) for rule in composed.rules]


def test_a_rule_that_is_removed_by_steps_fades_out() -> None:
    """Where it is no longer enforced it goes on counting, so that the change can be stopped."""
    composed = compose(NO_FILES, [stored("orders")], [change("orders", None, 25)]).rule_set

    assert [("orders", 2500, 10_000)] == [(rule.name, rule.rollout_from, rule.rollout) for rule in composed.rules]


def test_a_change_of_the_key_keeps_the_old_rule_for_everybody_until_the_end() -> None:
    """Keys of other attributes have other places, so that a request could have neither version."""
    composed = compose(NO_FILES, [stored("orders")], [change("orders", {"per": "ip", "quotas": "5/minute"}, 50)]).rule_set

    assert [("orders", 0, 10_000), ("orders~12", 0, 5000)] == [(rule.name, rule.rollout_from, rule.rollout) for rule in composed.rules]


def test_a_change_that_has_ended_or_waits_is_not_in_force() -> None:
    """Only what rolls out is composed."""
    for state in ("proposed", "rejected", "withdrawn", "done", "stopped"):
        ended = change("orders", {"per": "client", "quotas": "1/minute"}, 50)
        ended.state = state

        assert ["orders"] == [rule.name for rule in compose(NO_FILES, [stored("orders")], [ended]).rule_set.rules]


SHARES = st.integers(0, 100)
MODES = st.sampled_from(get_args(Mode))
ROLLOUTS = st.integers(0, 10_000)


@given(SHARES, ROLLOUTS, ROLLOUTS, MODES, MODES)
def test_no_place_has_both_versions(share: int, old_rollout: int, new_rollout: int, old_mode: Mode, new_mode: Mode) -> None:
    """Whatever the two versions say themselves: the old one is enforced only behind the share, the new one only within it."""
    old = rules.Rule(name="a", per=("client",), rollout=old_rollout, mode=old_mode)
    new = rules.Rule(name="a", per=("client",), rollout=new_rollout, mode=new_mode)
    first, second = versions(old, new, 1, share)

    for place in {0, share * 100 - 1, share * 100, old_rollout, new_rollout, 9_999} & set(range(10_000)):
        has_old, has_new = _is_enforced(first, place), _is_enforced(second, place)
        assert not (has_old and has_new)
        assert has_old == (old_mode == "enforce" and share * 100 <= place < old_rollout)
        assert has_new == (new_mode == "enforce" and place < min(share * 100, new_rollout))


def test_a_thousand_stored_rules_are_one_set() -> None:
    """All of them are in force, and a change of one of them reads only that one."""
    many = [stored(f"rule-{number:04}", match={"path": f"/api/{number}/**"}) for number in range(1000)]
    composed = compose(FILES, many).rule_set
    with RuleLimiter(composed) as limiter:
        decision = limiter.check({"headers": {"x-user": "x"}, "path": "/api/717/orders"})

    assert 1001 == len(composed.rules)
    assert ("everybody", "rule-0717") == decision.rules


def _is_enforced(rule: rules.Rule, place: int) -> bool:
    return rule.mode == "enforce" and rule.rollout_from <= place < rule.rollout
