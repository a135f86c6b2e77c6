"""
Rules over HTTP: made, read, changed, compared, rolled back, and refused in the words of the linter.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import httpx

    from tests.control.conftest import Clients

RULES = "/api/v1/rate-limit/rules"
SIMPLE = {
    "rule_id": "orders",
    "endpoint_pattern": "/api/v1/orders/**",
    "method": "POST",
    "limit": 100,
    "window_seconds": 60,
    "algorithm": "sliding_window",
    "scope": "client",
    "priority": 5,
}


def make(client: httpx.Client, rule_id: str = "orders", **body: object) -> httpx.Response:
    """
    Makes a rule.
    """
    return client.post(RULES, json={"rule_id": rule_id, "rule": {"per": "client", "quotas": "10/minute"} | body})


def put(client: httpx.Client, etag: str, quotas: str, rule_id: str = "orders", **more: object) -> httpx.Response:
    """
    Changes its quotas.
    """
    return client.put(f"{RULES}/{rule_id}", json={"rule": {"per": "client", "quotas": quotas}, **more}, headers={"If-Match": etag})


def test_a_rule_in_simple_fields_lives_and_dies(client: Clients) -> None:
    """Created, read, replaced, removed: each step answers with what is there now."""
    made = client.editor.post(RULES, json=SIMPLE | {"reason": "orders are expensive"})
    read = client.viewer.get(f"{RULES}/orders")

    assert (201, '"1"') == (made.status_code, made.headers["etag"])
    assert made.json() == read.json()
    assert SIMPLE.items() <= read.json().items()
    assert {"per": "client", "priority": 5}.items() <= read.json()["rule"].items()

    changed = client.editor.put(f"{RULES}/orders", json=SIMPLE | {"limit": 50}, headers={"If-Match": '"1"'})
    assert (200, 50, 2, '"2"') == (changed.status_code, changed.json()["limit"], changed.json()["revision"], changed.headers["etag"])

    gone = client.editor.delete(f"{RULES}/orders", headers={"If-Match": '"2"'}, params={"reason": "no longer sold"})
    assert (204, b"") == (gone.status_code, gone.content)
    assert 404 == client.viewer.get(f"{RULES}/orders").status_code


def test_a_rule_in_yaml_comes_back_as_yaml(client: Clients) -> None:
    """What the editor of the dashboard sends is what it gets, in JSON and in YAML."""
    text = "match: {method: POST, path: /login}\nper: ip\nquotas: [5/minute, 20/hour]\nmode: shadow\n"
    made = client.editor.post(RULES, json={"rule_id": "login", "text": text}).json()

    assert text == made["text"]
    assert {"match": {"method": "POST", "path": "/login"}, "per": "ip", "quotas": ["5/minute", "20/hour"], "mode": "shadow"} == made["rule"]
    assert (False, "shadow") == (made["is_simple"], made["mode"])


def test_rules_of_files_are_shown_beside_stored_ones_and_cannot_be_changed(client: Clients) -> None:
    """People see everything that is in force, and what only a file can change."""
    make(client.editor)
    page = client.viewer.get(RULES).json()
    of_file = client.viewer.get(f"{RULES}/everybody").json()

    assert [("everybody", "file", True), ("orders", "database", False)] == [
        (rule["rule_id"], rule["source"], rule["is_read_only"]) for rule in page["rules"]
    ]
    assert {"per": "global", "quotas": "3/minute"} == of_file["rule"]
    assert (2, None) == (of_file["line"], of_file["revision"])
    assert 409 == put(client.editor, '"1"', "1/minute", "everybody").status_code
    assert 409 == client.editor.delete(f"{RULES}/everybody", headers={"If-Match": "*"}).status_code
    taken = make(client.editor, "everybody")
    assert (422, "duplicate-name") == (taken.status_code, taken.json()["problems"][0]["code"])


def test_two_editors_do_not_overwrite_each_other(client: Clients) -> None:
    """Who has not seen the last revision is told so, and nothing changes."""
    make(client.editor)

    assert 428 == client.editor.put(f"{RULES}/orders", json=SIMPLE).status_code
    assert 428 == client.editor.delete(f"{RULES}/orders").status_code
    assert 200 == put(client.editor, '"1"', "20/minute").status_code
    stale = put(client.editor, '"1"', "30/minute")
    assert (412, '"2"') == (stale.status_code, stale.headers["etag"])
    assert 412 == client.editor.delete(f"{RULES}/orders", headers={"If-Match": '"1", W/"2"'}).status_code
    assert {"per": "client", "quotas": "20/minute"} == client.viewer.get(f"{RULES}/orders").json()["rule"]
    assert 409 == make(client.editor).status_code


def test_of_many_editors_at_once_exactly_one_wins(client: Clients) -> None:
    """All have seen revision 1; one makes revision 2, and the others are told."""
    make(client.editor)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: put(client.editor, '"1"', f"{number}/minute").status_code, range(1, 13)))

    assert [200, *[412] * 11] == sorted(answers)
    revisions = client.viewer.get(f"{RULES}/orders/revisions").json()["revisions"]
    assert [2, 1] == [revision["revision"] for revision in revisions]


def test_revisions_are_kept_compared_and_come_back(client: Clients) -> None:
    """A rule can be made what it was at any time, also after it was removed."""
    make(client.editor)
    put(client.editor, '"1"', "20/minute", reason="they asked for more")
    client.editor.delete(f"{RULES}/orders", headers={"If-Match": '"2"'})
    revisions = client.viewer.get(f"{RULES}/orders/revisions").json()["revisions"]

    assert [(3, None), (2, "20/minute"), (1, "10/minute")] == [(one["revision"], (one["body"] or {}).get("quotas")) for one in revisions]
    assert ("the editor", "they asked for more") == (revisions[1]["by"], revisions[1]["reason"])

    told = client.viewer.get(f"{RULES}/orders/diff", params={"old": 1, "new": 2}).json()["differences"]
    assert [("10/minute becomes 20/minute", "looser")] == [(one["text"], one["effect"]) for one in told]

    back = client.editor.post(f"{RULES}/orders/rollback", json={"revision": 1})
    assert (200, 4, "10/minute") == (back.status_code, back.json()["revision"], back.json()["rule"]["quotas"])
    assert 428 == client.editor.post(f"{RULES}/orders/rollback", json={"revision": 2}).status_code
    again = client.editor.post(f"{RULES}/orders/rollback", json={"revision": 2}, headers={"If-Match": '"4"'})
    assert (200, 5) == (again.status_code, again.json()["revision"])
    assert 422 == client.editor.post(f"{RULES}/orders/rollback", json={"revision": 3}, headers={"If-Match": "*"}).status_code
    assert 404 == client.editor.post(f"{RULES}/orders/rollback", json={"revision": 9}).status_code


def test_every_change_is_in_the_audit_log(client: Clients) -> None:
    """Who, what, why, from where, with what it was before."""
    client.editor.post(RULES, json=SIMPLE | {"reason": "why not"})
    put(client.editor, '"1"', "20/minute", reason="more")
    client.editor.delete(f"{RULES}/orders", headers={"If-Match": "*"}, params={"reason": "less"})
    put(client.editor, '"1"', "30/minute", reason="refused")
    entries = client.viewer.get("/admin/v1/audit", params={"subject": "rule:orders"}).json()["entries"]

    assert [("rule.delete", "less"), ("rule.update", "more"), ("rule.create", "why not")] == [
        (entry["action"], entry["reason"]) for entry in entries
    ]
    assert {"the editor"} == {entry["actor"] for entry in entries}
    assert {"127.0.0.1"} == {entry["address"] for entry in entries}
    assert {"per": "client", "quotas": "20/minute"} == entries[0]["before"] == entries[1]["after"]


def test_mistakes_are_told_all_at_once_with_places_and_hints(client: Clients) -> None:
    """The answer to a bad rule is what `tidegate rules lint` would print."""
    answer = client.editor.post(RULES, json={"rule_id": "x", "text": "per: client\nquotas: 10/minuet\nmood: shadow\n"})

    assert (422, "application/problem+json") == (answer.status_code, answer.headers["content-type"])
    assert [("bad-quota", "quotas", 2), ("unknown-key", "mood", 3)] == [
        (found["code"], found["path"], found["line"]) for found in answer.json()["problems"]
    ]
    assert "did you mean `mode`?" == answer.json()["problems"][1]["hint"]
    assert [] == client.viewer.get(f"{RULES}?source=database").json()["rules"]


def test_a_draft_is_looked_at_and_not_kept(client: Clients) -> None:
    """The live errors of the editor: what is wrong, what would be kept, what would change."""
    make(client.editor)
    wrong = {"rule_id": "orders", "limit": "many", "window_seconds": 60, "scope": "client"}
    bad = client.viewer.post(f"{RULES}/validate", json=wrong).json()
    good = client.viewer.post(f"{RULES}/validate", json={"rule_id": "orders", "rule": {"per": "client", "quotas": "5/minute"}}).json()

    assert (False, [("not-a-whole-number", "limit", None)]) == (
        bad["is_good"],
        [(found["code"], found["path"], found["line"]) for found in bad["problems"]],
    )
    assert (True, "5/minute per client for every request") == (good["is_good"], good["summary"])
    assert [("10/minute becomes 5/minute", "tighter")] == [(one["text"], one["effect"]) for one in good["differences"]]
    assert 1 == client.viewer.get(f"{RULES}/orders").json()["revision"]


def test_a_request_is_explained_by_the_rules_in_force_and_by_a_draft(client: Clients) -> None:
    """Which rules apply, why others do not, and what a rule that is not in force would say."""
    make(client.editor, match={"path": "/orders/**"})
    client.control.follower.look()
    asked: dict[str, Any] = {"attributes": {"path": "/orders/7", "client": "me"}}
    now = client.viewer.post(f"{RULES}/explain", json=asked).json()
    draft = {"rule_id": "orders", "rule": {"per": "client", "quotas": "1/minute", "match": {"path": "/other"}}}
    then = client.viewer.post(f"{RULES}/explain", json=asked | {"draft": draft}).json()

    assert {"everybody": "applies", "orders": "applies"} == {one["rule"]: one["outcome"] for one in now["verdicts"]}
    assert {"everybody": "applies", "orders": "no_match"} == {one["rule"]: one["outcome"] for one in then["verdicts"]}
    assert "everybody binds with 3/minute: allowed, 2 left after it" == now["summary"]


def test_rules_are_listed_by_pages_and_found_by_words(client: Clients) -> None:
    """Whatever is asked for is only a text: neither a pattern nor SQL."""
    for number in range(7):
        make(client.editor, f"rule-{number}", description=f"number {number} 100% <b>")
    names, after = [], ""
    while True:
        page = client.viewer.get(RULES, params={"limit": 3, "after": after}).json()
        names += [rule["rule_id"] for rule in page["rules"]]
        if page["next"] is None:
            break
        after = page["next"]

    assert ["everybody", *(f"rule-{number}" for number in range(7))] == names
    for text, count in (("NUMBER 3", 1), ("100%", 7), ("'; DROP TABLE rules; --", 0), ("%", 7), ("_", 0), ("<b>", 7), ("\x00", 0)):
        found = client.viewer.get(RULES, params={"q": text})
        assert (200, count) == (found.status_code, len(found.json()["rules"])), text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"rule_id": "x"}, 422),
        ({"rule_id": "x", "rule": {"per": "ip", "quotas": "1/second"}, "limit": 3}, 422),
        ({"rule_id": "x", "rule": "per: ip"}, 422),
        ({"rule_id": "<script>alert(1)</script>", "rule": {"per": "ip", "quotas": "1/second"}}, 422),
        ({"rule_id": "x", "rule": {"per": "ip", "quotas": "1/second"}, "reason": "x" * 3000}, 422),
        ({"rule_id": "x", "rule": {"per": "ip", "quotas": "1/second"}, "unknown": 1}, 422),
        ({"rule_id": "x", "rule": {"per": "ip", "quotas": "1/second", "description": "\ud800"}}, 422),
        ({"rule_id": "x", "text": "x" * 2_000_000}, 413),
        ({"rule_id": "x", "rule": {"per": "ip", "quotas": ["1/second"] * 100}}, 422),
        ({"rule_id": "x" * 200, "rule": {"per": "ip", "quotas": "1/second"}}, 422),
        ({"rule_id": "x", "rule": {"per": "ip", "quotas": {"limit": 2**70, "period": 1}}}, 422),
    ],
    ids=lambda value: str(value)[:30],
)
def test_hostile_bodies_are_refused(client: Clients, body: dict[str, Any], status: int) -> None:
    """Nothing that is sent is a failure of ours, and nothing of it is kept."""
    sent = client.editor.post(RULES, content=json.dumps(body), headers={"content-type": "application/json"})

    assert status == sent.status_code
    assert [] == client.viewer.get(f"{RULES}?source=database").json()["rules"]


def test_html_is_kept_as_text(client: Clients) -> None:
    """A description may say anything; whoever shows it has to escape it."""
    hostile = "<script>alert('x')</script>"
    made = make(client.editor, description=hostile, owner="\"'><img src=x>")

    assert (201, hostile) == (made.status_code, made.json()["description"])
    assert "application/json" == made.headers["content-type"]
