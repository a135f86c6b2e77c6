"""
Quotas of customers: given, scheduled, granted, searched, taken away; kept and shown by digest.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from tidegate.control import members
from tidegate.control.control import Control
from tidegate.control.keys import Keys
from tidegate.control.models import AuditEntry, QuotaOverride

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.control.controlling import Clients, Clock, settings_for
else:
    from controlling import settings_for

SECRET_KEY = "sk-live-0123456789"  # a customer's, of a test


def ok(response: httpx.Response) -> Any:  # noqa: ANN401  # JSON
    """
    What was answered, if it was a success.
    """
    assert response.is_success, response.text
    return response.json() if response.content else None


def digest(control: Control, key: str) -> str:
    """
    What a key is known by.
    """
    return Keys.of(control.settings).digest(key)


def document(control: Control) -> dict[str, Any]:
    """
    The members of now.
    """
    with control.database.reading() as session:
        found: dict[str, Any] = json.loads(members.document(session, control.now())[0])
        return found


def at(time: datetime) -> str:
    """
    A time in a body.
    """
    return time.isoformat()


def test_what_a_key_is_given_is_in_the_document_under_its_digest(client: Clients) -> None:
    """
    With tenant, tier and quotas.
    """
    body = {"tenant": "acme", "tier": "pro", "quotas": {"everybody": "5/minute", "other": ["2/second", "9/hour"]}, "reason": "a contract"}

    shown = ok(client.editor.put(f"/admin/v1/quotas/{SECRET_KEY}", json=body))

    key = digest(client.control, SECRET_KEY)
    assert (key, "sk-l…") == (shown["digest"], shown["shown"])
    assert {"tenant": "acme", "tier": "pro", "quotas": {"everybody": ["5/minute"], "other": ["2/second", "9/hour"]}} == shown["in_force"]
    quotas = {"everybody": [{"text": "5/minute"}], "other": [{"text": "2/second"}, {"text": "9/hour"}]}
    assert {key: {"tenant": "acme", "tier": "pro", "quotas": quotas}} == document(client.control)["keys"]
    assert shown == ok(client.viewer.get(f"/admin/v1/quotas/{SECRET_KEY}"))
    assert shown["in_force"] == ok(client.viewer.get(f"/admin/v1/quotas/digest:{key}"))["in_force"]


def test_the_key_itself_is_nowhere(client: Clients) -> None:
    """
    Neither in the tables nor in the audit log nor in what is shown.
    """
    url = f"/admin/v1/quotas/{SECRET_KEY}"
    texts = [client.editor.put(url, json={"tier": "pro", "reason": "x"}).text, client.viewer.get(url).text]
    ok(client.editor.put(f"/admin/v1/blocks/{SECRET_KEY}", json={"reason": "abuse"}))
    ok(client.editor.delete(url, params={"reason": "over"}))
    ok(client.viewer.get(f"/admin/v1/usage/{SECRET_KEY}"))

    with client.control.database.reading() as session:
        entries = session.scalars(select(AuditEntry)).all()
    texts += [f"{entry.subject} {entry.before} {entry.after} {entry.reason}" for entry in entries]
    texts += [client.viewer.get("/admin/v1/blocks").text, client.viewer.get("/admin/v1/audit").text]

    assert not [text for text in texts if SECRET_KEY in text or SECRET_KEY[:8] in text]
    assert ["quota.put", "key.block", "quota.delete"] == [
        entry.action for entry in entries if "." in entry.action and "token" not in entry.action
    ]
    assert {f"key:{digest(client.control, SECRET_KEY)}"} == {entry.subject for entry in entries if entry.subject.startswith("key:")}


@pytest.mark.parametrize(("kind", "shown"), [("digest", "#"), ("plain", SECRET_KEY), ("masked", "sk-l…")])
def test_how_much_is_shown_of_keys_is_the_operators_choice(tmp_path: Path, kind: str, shown: str) -> None:
    """
    As the setting says.
    """
    control = Control(settings_for(f"sqlite:///{tmp_path}/x.db", tmp_path, {"admin.keys": kind}))

    assert Keys.of(control.settings).read(SECRET_KEY).shown.startswith(shown)


def test_overrides_follow_each_other_in_time(client: Clients, clock: Clock) -> None:
    """
    What begins later wins from then on, field by field, and ends when it says.
    """
    url, start = "/admin/v1/quotas/k", clock.at
    ok(client.editor.put(url, json={"tier": "pro", "quotas": {"a": "1/minute"}}))
    later = {"quotas": {"a": "2/minute"}, "effective_at": at(start + timedelta(hours=1)), "expires_at": at(start + timedelta(hours=2))}
    ok(client.editor.put(url, json=later))

    def in_force() -> Any:  # noqa: ANN401  # JSON
        return ok(client.viewer.get(url))["in_force"]

    def due() -> datetime | None:
        with client.control.database.reading() as session:
            return members.document(session, clock.at)[1]

    pro = {"tenant": None, "tier": "pro"}
    assert {**pro, "quotas": {"a": ["1/minute"]}} == in_force()
    assert start + timedelta(hours=1) == due()
    clock.advance(hours=1)
    assert {**pro, "quotas": {"a": ["2/minute"]}} == in_force()
    assert {"quotas": {"a": [{"text": "2/minute"}]}, "tier": "pro"} == document(client.control)["keys"][digest(client.control, "k")]
    assert start + timedelta(hours=2) == due()
    clock.advance(minutes=-1)
    assert {**pro, "quotas": {"a": ["1/minute"]}} == in_force(), "also when the clock goes back"
    clock.advance(minutes=61)
    assert {**pro, "quotas": {"a": ["1/minute"]}} == in_force()
    assert due() is None


def test_to_put_replaces_what_begins_at_the_same_time(client: Clients) -> None:
    """
    And nothing is left of it.
    """
    ok(client.editor.put("/admin/v1/quotas/k", json={"tier": "pro", "quotas": {"a": "1/minute"}}))
    shown = ok(client.editor.put("/admin/v1/quotas/k", json={"tenant": "acme"}))

    assert ({"tenant": "acme", "tier": None, "quotas": {}}, 1) == (shown["in_force"], len(shown["overrides"]))


def test_a_grant_is_over_when_it_says(client: Clients, clock: Clock) -> None:
    """
    And everything else stays as it was.
    """
    ok(client.editor.put("/admin/v1/quotas/k", json={"tier": "pro", "quotas": {"a": "1/minute", "b": "1/hour"}}))
    body = {"quotas": {"a": "9/minute"}, "expires_at": at(clock.at + timedelta(hours=1)), "reason": "launch day"}

    granted = ok(client.editor.post("/admin/v1/quotas/k/grant", json=body))

    assert {"tenant": None, "tier": "pro", "quotas": {"a": ["9/minute"], "b": ["1/hour"]}} == granted["in_force"]
    clock.advance(hours=1)
    assert {"a": ["1/minute"], "b": ["1/hour"]} == ok(client.viewer.get("/admin/v1/quotas/k"))["in_force"]["quotas"]
    assert ok(client.viewer.get("/admin/v1/audit", params={"action": "quota.grant"}))["entries"][0]["reason"] == "launch day"


def test_one_override_or_all_are_taken_away(client: Clients, clock: Clock) -> None:
    """
    What is left holds.
    """
    ok(client.editor.put("/admin/v1/quotas/k", json={"tier": "pro"}))
    shown = ok(client.editor.put("/admin/v1/quotas/k", json={"tier": "gold", "effective_at": at(clock.at)}))
    newest = shown["overrides"][-1]["id"]

    ok(client.editor.delete("/admin/v1/quotas/k", params={"id": newest}))

    assert ok(client.viewer.get("/admin/v1/quotas/k"))["in_force"]["tier"] == "pro"
    ok(client.editor.delete("/admin/v1/quotas/k"))
    assert (404, 404) == (client.viewer.get("/admin/v1/quotas/k").status_code, client.editor.delete("/admin/v1/quotas/k").status_code)


def test_overrides_are_searched_and_paged(client: Clients) -> None:
    """
    By tenant, tier, key, what is shown and digest; wildcards of SQL are characters.
    """
    for number in range(5):
        body = {"tenant": "a%" if number % 2 else "acme", "tier": "pro" if number else "free"}
        ok(client.editor.put(f"/admin/v1/quotas/key-{number}-abcdef", json=body))

    def found(**wanted: Any) -> list[str]:  # noqa: ANN401  # parameters
        numbers, after = [], 0
        while True:
            page = ok(client.viewer.get("/admin/v1/quotas", params={**wanted, "after": after, "limit": 2}))
            numbers += [override["digest"] for override in page["overrides"]]
            if (after := page["next"]) is None:
                return numbers

    keys = [digest(client.control, f"key-{number}-abcdef") for number in range(5)]
    assert keys == found()
    assert keys[1::2] == found(tenant="a%")
    assert keys[:1] == found(tier="free")
    assert keys[3:4] == found(search="key-3-abcdef") == found(search=keys[3]) == found(search=f"#{keys[3][:16]}")
    assert keys == found(search="key-")
    assert [] == found(search="k%") == found(tenant="' OR 1=1 --")


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "name a tenant"),
        ({"quotas": {"a": "many"}}, "body.quotas.a"),
        ({"quotas": {"a": "1/day calendar Nowhere/City"}}, "body.quotas.a"),
        ({"quotas": {"a": []}}, "quotas"),
        ({"quotas": {"a b": "1/day"}}, "quotas"),
        ({"tier": ""}, "tier"),
        ({"tier": "a\u0000b"}, "tier"),
        ({"tier": "x" * 129}, "tier"),
        ({"plan": "pro"}, "plan"),
        ({"tier": "pro", "effective_at": "2026-01-01T00:00:00"}, "effective_at"),
        ({"tier": "pro", "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"tier": "pro", "effective_at": "2031-01-01T00:00:00Z", "expires_at": "2030-01-01T00:00:00Z"}, "ends before it begins"),
    ],
)
def test_what_makes_no_sense_is_refused(client: Clients, body: dict[str, Any], where: str) -> None:
    """
    With its place, and without any effect.
    """
    response = client.editor.put("/admin/v1/quotas/k", json=body)

    assert (422, True) == (response.status_code, where in response.text)
    with client.control.database.reading() as session:
        assert session.scalars(select(QuotaOverride)).all() == []


def test_html_and_other_strange_texts_are_texts(client: Clients) -> None:
    """
    In keys, tiers and reasons.
    """
    strange = "<script>alert(1)</script>"
    shown = ok(client.editor.put("/admin/v1/quotas/%3Cb%3E%F0%9F%8C%8A%20%27%2Fa%2Bb%3D%3D", json={"tier": strange, "reason": strange}))

    assert (strange, digest(client.control, "<b>🌊 '/a+b==")) == (shown["in_force"]["tier"], shown["digest"])
    grant = {"quotas": {"a": "9/minute"}, "expires_at": at(client.control.now() + timedelta(hours=1)), "reason": strange}
    assert shown["digest"] == ok(client.editor.post("/admin/v1/quotas/%3Cb%3E%F0%9F%8C%8A%20%27%2Fa%2Bb%3D%3D/grant", json=grant))["digest"]


def test_tiers_and_tenants_are_part_of_the_document(client: Clients) -> None:
    """
    And can be listed, changed and removed.
    """
    ok(client.editor.put("/admin/v1/tiers/pro", json={"about": "for many", "quotas": {"everybody": "9/minute"}}))
    ok(client.editor.put("/admin/v1/tenants/acme", json={"tier": "pro", "quotas": {"everybody": "7/minute"}, "reason": "a contract"}))
    ok(client.editor.put("/admin/v1/quotas/k", json={"tenant": "acme", "tier": "pro"}))

    found = document(client.control)
    assert {"pro": {"quotas": {"everybody": [{"text": "9/minute"}]}}} == found["tiers"]
    assert {"acme": {"tier": "pro", "quotas": {"everybody": [{"text": "7/minute"}]}}} == found["tenants"]
    assert [("pro", 1)] == [(tier["name"], tier["keys"]) for tier in ok(client.viewer.get("/admin/v1/tiers"))["tiers"]]
    acme = ok(client.viewer.get("/admin/v1/tenants/acme"))
    assert ("pro", 1) == (acme["tier"], acme["keys"])
    ok(client.editor.delete("/admin/v1/tiers/pro"))
    ok(client.editor.delete("/admin/v1/tenants/acme"))
    assert (404, 404) == (client.viewer.get("/admin/v1/tiers/pro").status_code, client.editor.delete("/admin/v1/tenants/acme").status_code)
    assert 422 == client.editor.put("/admin/v1/tiers/pro", json={"quotas": {"everybody": "no"}}).status_code


def test_a_key_is_blocked_for_a_time_and_unblocked(client: Clients, clock: Clock) -> None:
    """
    With a reason, which the audit log keeps.
    """
    blocked = ok(client.editor.put("/admin/v1/blocks/k", json={"seconds": 60, "reason": "abuse"}))
    until = clock.at + timedelta(seconds=60)
    key = digest(client.control, "k")

    assert until == datetime.fromisoformat(blocked["until"])
    expected = int(until.timestamp()) * 10**9 + until.microsecond * 1000
    assert {"blocked": {"until_ns": expected}} == document(client.control)["keys"][key]
    assert [key] == [block["digest"] for block in ok(client.viewer.get("/admin/v1/blocks"))["blocks"]]
    assert ok(client.viewer.get("/admin/v1/quotas/k"))["is_blocked"]
    assert 422 == client.editor.delete("/admin/v1/blocks/k").status_code, "why?"
    ok(client.editor.delete("/admin/v1/blocks/k", params={"reason": "a mistake"}))
    assert {} == document(client.control)["keys"]
    ok(client.editor.put("/admin/v1/blocks/k", json={"reason": "for good"}))
    assert {"blocked": {}} == document(client.control)["keys"][key]
    ok(client.editor.put("/admin/v1/blocks/k", json={"seconds": 5, "reason": "shorter"}))
    clock.advance(seconds=5)
    assert {} == document(client.control)["keys"]
    assert 404 == client.editor.delete("/admin/v1/blocks/k", params={"reason": "over anyway"}).status_code


def test_every_change_is_counted_for_the_fleet(client: Clients) -> None:
    """
    So that all instances take it up.
    """
    before = client.control.database.number()
    ok(client.editor.put("/admin/v1/quotas/k", json={"tier": "pro"}))
    ok(client.editor.put("/admin/v1/blocks/k", json={"reason": "abuse"}))
    ok(client.editor.put("/admin/v1/tiers/pro", json={}))
    ok(client.editor.put("/admin/v1/tenants/acme", json={}))
    ok(client.editor.delete("/admin/v1/quotas/k"))

    assert before + 5 == client.control.database.number()


def test_times_of_the_document_are_exact(client: Clients, clock: Clock) -> None:
    """
    From the instant on at which it begins, and not at the one at which it ends.
    """
    clock.at = datetime(2026, 11, 16, 12, tzinfo=UTC)
    body = {"tier": "pro", "effective_at": at(clock.at + timedelta(seconds=1)), "expires_at": at(clock.at + timedelta(seconds=2))}
    ok(client.editor.put("/admin/v1/quotas/k", json=body))

    seen = []
    for _ in range(5):
        seen.append(len(document(client.control)["keys"]))
        clock.advance(milliseconds=500)

    assert [0, 0, 1, 1, 0] == seen
