"""
Traffic of before, decided again: by the library, by the command, and over HTTP with what has to be said about a sample.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tidegate import rules
from tidegate.control.models import Recording, Usage
from tidegate.rules.replay import Outcome, Request, enforced, facts, replay

if TYPE_CHECKING:
    from datetime import datetime

    from tests.control.conftest import Clients, Clock

RULES = "/api/v1/rate-limit/rules"
SECOND = 1_000_000_000


def load(text: str) -> rules.RuleSet:
    """
    A rule set of one rule.
    """
    return rules.load("rules.yaml", text=f"version: 1\nrules: [{{name: a, per: client, {text}}}]")


def test_time_passes_as_it_passed_then() -> None:
    """Ten requests in a second are too many, ten in ten seconds are not."""
    at_once, spread = ([Request(number * step, {"client": "x"}) for number in range(10)] for step in (SECOND // 100, SECOND))

    assert Outcome(2, 8) == replay(load("quotas: 2/second"), at_once).total
    assert Outcome(10, 0) == replay(load("quotas: 2/second"), spread).total


def test_requests_count_for_what_they_stand_for_and_are_charged_once() -> None:
    """A sample of keys is scaled up, and its keys have what they had."""
    requests = [Request(0, {"client": client}, weight=10) for client in "xxxy"]
    replayed = replay(load("quotas: 2/minute"), requests)

    assert (4, 40, Outcome(30, 10)) == (replayed.requests, replayed.stands_for, replayed.total)
    assert {"a": Outcome(30, 10)} == replayed.rules


def test_rules_in_shadow_tell_what_they_would_deny_and_can_be_enforced() -> None:
    """What would change if it were enforced is the difference of the two."""
    requests = [Request(0, {"client": "x"}) for _ in range(5)]
    rule_set = load("quotas: 2/minute, mode: shadow")

    assert {"a": Outcome(2, 0, 3)} == replay(rule_set, requests).rules
    assert {"a": Outcome(2, 3)} == replay(enforced(rule_set, ["a"]), requests).rules


def test_slots_are_not_held_for_ever() -> None:
    """Nobody knows how long a request took, so that a quota of slots denies nothing."""
    assert Outcome(50, 0) == replay(load("quotas: 1 concurrent"), [Request(0, {"client": "x"})] * 50).total


def test_a_time_that_goes_back_stands_still() -> None:
    """Recordings of several machines are not quite in order."""
    requests = [Request(at * SECOND, {"client": "x"}) for at in (10, 9, 10, 71)]

    assert Outcome(2, 2) == replay(load("quotas: 1/minute"), requests).total


def test_flat_names_become_groups() -> None:
    """As recordings have them, and as limiters take them."""
    assert {"path": "/", "headers": {"x-a": "1", "x-b": "2"}, "query": {"q": "3"}} == facts(
        {"path": "/", "header:x-a": "1", "header:x-b": "2", "query:q": "3"}
    )


def record(clients: Clients, requests: list[tuple[datetime, dict[str, Any]]], weight: int = 1) -> None:
    """
    Records requests.
    """
    with clients.control.database.session() as session:
        session.add_all(Recording(at=at, attributes=attributes, cost=1, allowed=True, weight=weight) for at, attributes in requests)


def test_the_last_hour_by_a_draft(client: Clients, clock: Clock) -> None:
    """Only what was recorded in that time is decided, by the rules in force and by those with the draft."""
    at = clock() - timedelta(minutes=30)
    record(client, [(at + timedelta(seconds=30 * number), {"client": "#0123456789abcdef"}) for number in range(20)])
    record(client, [(clock() - timedelta(hours=2), {"client": "x"})])
    draft = {"rule_id": "slow", "rule": {"per": "client", "quotas": "1/minute"}}
    found = client.viewer.post(f"{RULES}/replay", json={"draft": draft}).json()

    assert (20, 20, True) == (found["requests"], found["stands_for"], found["is_exact"])
    assert {"allowed": 20, "denied": 0, "shadow_denied": 0} == found["now"]
    assert {"allowed": 10, "denied": 10, "shadow_denied": 0} == found["then"]
    told = {one["rule_id"]: (one["now"]["denied"], one["then"]["denied"]) for one in found["rules"]}
    assert {"everybody": (0, 0), "slow": (0, 10)} == told
    assert 404 == client.viewer.get(f"{RULES}/slow").status_code


def test_a_sample_says_that_it_is_one(client: Clients, clock: Clock) -> None:
    """Scaled counts, and the rules that cannot be judged by it, are named."""
    at = clock() - timedelta(minutes=1)
    record(client, [(at, {"ip": "#00000000000000ff"}), (at, {"ip": "#00000000000000ff"})], weight=50)
    draft = {"rule_id": "login", "rule": {"per": "ip", "quotas": "1/minute", "match": {"headers": {"x-plan": {"present": False}}}}}
    found = client.viewer.post(f"{RULES}/replay", json={"minutes": 5, "draft": draft}).json()

    assert (2, 100, False) == (found["requests"], found["stands_for"], found["is_exact"])
    assert {"allowed": 50, "denied": 50, "shadow_denied": 0} == found["then"]
    notes = "\n".join(found["notes"])
    assert "sample of keys" in notes
    assert "deny too little: everybody" in notes
    assert "which the rules read: header:x-plan" in notes


def test_nothing_recorded_is_said_so(client: Clients) -> None:
    """An empty answer says what to do."""
    found = client.viewer.post(f"{RULES}/replay", json={}).json()

    assert (0, False) == (found["requests"], found["is_exact"])
    assert found["notes"][0].startswith("nothing was recorded")


def test_rules_are_left_out_or_enforced_for_a_question(client: Clients, clock: Clock) -> None:
    """The set of a question differs from the one in force by what the question says."""
    record(client, [(clock() - timedelta(minutes=1), {"client": "x"})] * 5)
    body = {"per": "client", "quotas": "2/minute", "mode": "shadow"}
    client.editor.post(RULES, json={"rule_id": "watch", "rule": body})
    client.control.follower.look()
    found = client.viewer.post(f"{RULES}/replay", json={"remove": ["everybody"], "enforce": ["watch"]}).json()

    assert {"everybody": (3, 2, 0), "watch": (2, 0, 3)} == {
        one["rule_id"]: (one["now"]["allowed"], one["now"]["denied"], one["now"]["shadow_denied"]) for one in found["rules"]
    }
    assert {"everybody": (0, 0, 0), "watch": (2, 3, 0)} == {
        one["rule_id"]: (one["then"]["allowed"], one["then"]["denied"], one["then"]["shadow_denied"]) for one in found["rules"]
    }


def test_what_a_shadow_rule_would_deny_is_counted_by_all_instances(client: Clients, clock: Clock) -> None:
    """Sums of the exact rows of the time that is asked for, and of no key."""
    minute = clock().replace(second=0, microsecond=0)
    rows = [
        (minute - timedelta(minutes=5), "", "one", 10, 3),
        (minute - timedelta(minutes=5), "", "two", 20, 4),
        (minute - timedelta(minutes=5), "ab" * 16, "one", 10, 3),
        (minute - timedelta(minutes=90), "", "one", 100, 100),
    ]
    with client.control.database.session() as session:
        for at, digest, instance, allowed, shadow in rows:
            session.add(Usage(minute=at, rule_id="watch", digest=digest, instance=instance, allowed=allowed, shadow_denied=shadow))
    found = client.viewer.get(f"{RULES}/watch/if-enforced").json()

    assert (37, 7) == (found["decided"], found["would_deny"])


@pytest.mark.parametrize(
    "body",
    [{"minutes": 0}, {"minutes": 10**6}, {"draft": {"rule_id": "x"}}, {"draft": {"rule_id": "x", "text": "per: ip\nquotas: no"}}, {"x": 1}],
)
def test_questions_that_make_no_sense_are_refused(client: Clients, body: dict[str, Any]) -> None:
    """A bad draft is told as it is elsewhere."""
    assert 422 == client.viewer.post(f"{RULES}/replay", content=json.dumps(body)).status_code
