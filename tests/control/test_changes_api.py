"""
Change requests: proposed by one, approved by another, rolled out by steps, stopped or finished.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tidegate.control import changes, edits
from tidegate.control.roles import Role

if TYPE_CHECKING:
    import httpx

    from tests.control.conftest import Clients, Clock
    from tidegate.control.control import Control

RULES = "/api/v1/rate-limit/rules"
CHANGES = "/api/v1/rate-limit/changes"
STEPS = {"steps": [0, 25, 100]}


def ask(client: httpx.Client, quotas: str = "10/minute", rule_id: str = "orders", **more: object) -> httpx.Response:
    """
    Asks for a new rule.
    """
    return client.post(RULES, json={"rule_id": rule_id, "rule": {"per": "client", "quotas": quotas}, **more})


def alter(client: httpx.Client, quotas: str, etag: str = "*", **more: object) -> httpx.Response:
    """
    Asks for other quotas.
    """
    return client.put(f"{RULES}/orders", json={"rule": {"per": "client", "quotas": quotas}, **more}, headers={"If-Match": etag})


def in_force(control: Control) -> dict[str, tuple[str, int, int]]:
    """
    The stored rules in force: mode, and the share of keys.
    """
    control.follower.look()
    found = control.follower.composition.rule_set.rules
    return {rule.name: (rule.mode, rule.rollout_from, rule.rollout) for rule in found if rule.file == "database"}


def test_a_change_waits_for_a_second_person(careful: Clients) -> None:
    """Nothing is in force before somebody else agrees; then it is, and both are in the log."""
    asked = ask(careful.editor, reason="orders are expensive")
    change = asked.json()

    assert (202, f"{CHANGES}/{change['id']}", "proposed") == (asked.status_code, asked.headers["location"], change["state"])
    assert 404 == careful.viewer.get(f"{RULES}/orders").status_code
    assert {} == in_force(careful.control)

    assert 403 == careful.editor.post(f"{CHANGES}/{change['id']}/approve").status_code
    approved = careful.approver.post(f"{CHANGES}/{change['id']}/approve", json={"reason": "looks right"})
    assert (200, "done", "the approver") == (approved.status_code, approved.json()["state"], approved.json()["decided_by"])
    assert {"orders": ("enforce", 0, 10_000)} == in_force(careful.control)

    entries = careful.viewer.get("/admin/v1/audit").json()["entries"]
    told = [(entry["action"], entry["actor"], entry["reason"]) for entry in entries if not entry["action"].startswith("token")]
    assert [
        ("change.finish", "the approver", "orders are expensive"),
        ("rule.create", "the approver", "orders are expensive"),
        ("change.approve", "the approver", "looks right"),
        ("change.propose", "the editor", "orders are expensive"),
    ] == told


def test_nobody_approves_their_own_change(careful: Clients) -> None:
    """Also an admin needs a second person."""
    change = ask(careful.admin).json()["id"]

    assert 403 == careful.admin.post(f"{CHANGES}/{change}/approve").status_code
    assert "proposed" == careful.viewer.get(f"{CHANGES}/{change}").json()["state"]
    assert 200 == careful.approver.post(f"{CHANGES}/{change}/approve").status_code


def test_of_two_approvals_at_once_exactly_one_counts(careful: Clients) -> None:
    """The rule has one new revision, whoever was first."""
    change = ask(careful.editor).json()["id"]
    approvers = [careful.another(Role.APPROVER) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda client: client.post(f"{CHANGES}/{change}/approve").status_code, approvers))

    assert [200, *[409] * 5] == sorted(answers)
    assert 1 == len(careful.viewer.get(f"{RULES}/orders/revisions").json()["revisions"])


def test_approval_and_rejection_at_once_leave_one_of_them(careful: Clients) -> None:
    """A change is never both in force and declined."""
    change = ask(careful.editor).json()["id"]
    other = careful.another(Role.APPROVER)
    with ThreadPoolExecutor(2) as pool:
        yes = pool.submit(careful.approver.post, f"{CHANGES}/{change}/approve")
        no = pool.submit(other.post, f"{CHANGES}/{change}/reject")
        answers = {"done": yes.result().status_code, "rejected": no.result().status_code}
    state = careful.viewer.get(f"{CHANGES}/{change}").json()["state"]

    assert [200, 409] == sorted(answers.values())
    assert 200 == answers[state]
    assert (200 if state == "done" else 404) == careful.viewer.get(f"{RULES}/orders").status_code


def test_of_two_changes_of_one_rule_the_second_is_stale(careful: Clients) -> None:
    """What was approved first is not overwritten by what was written before it."""
    careful.approver.post(f"{CHANGES}/{ask(careful.editor).json()['id']}/approve")
    first, second = (alter(careful.editor, quotas).json()["id"] for quotas in ("20/minute", "30/minute"))

    assert 200 == careful.approver.post(f"{CHANGES}/{second}/approve").status_code
    assert 409 == careful.approver.post(f"{CHANGES}/{first}/approve").status_code
    assert "30/minute" == careful.viewer.get(f"{RULES}/orders").json()["rule"]["quotas"]
    assert 200 == careful.editor.post(f"{CHANGES}/{first}/reject").status_code
    assert "withdrawn" == careful.viewer.get(f"{CHANGES}/{first}").json()["state"]


def test_who_may_decline(careful: Clients) -> None:
    """The author takes back, an approver declines, another editor does neither."""
    change = ask(careful.editor).json()["id"]
    other = careful.another(Role.EDITOR)

    assert 403 == other.post(f"{CHANGES}/{change}/reject").status_code
    rejected = careful.approver.post(f"{CHANGES}/{change}/reject", json={"reason": "no"})
    assert (200, "rejected") == (rejected.status_code, rejected.json()["state"])
    assert 409 == careful.approver.post(f"{CHANGES}/{change}/approve").status_code
    assert 404 == careful.approver.post(f"{CHANGES}/9999/approve").status_code


def test_a_change_rolls_out_step_by_step(client: Clients) -> None:
    """Shadow, a quarter, everybody, done: the old rule is there until the end."""
    ask(client.editor)
    change = alter(client.editor, "20/minute", rollout=STEPS).json()
    new = f"orders~{change['id']}"

    assert ("shadow", 0, new) == (change["state"], change["share"], change["version_name"])
    assert {"orders": ("enforce", 0, 10_000), new: ("shadow", 0, 10_000)} == in_force(client.control)

    assert 25 == client.editor.post(f"{CHANGES}/{change['id']}/advance").json()["share"]
    assert {"orders": ("enforce", 2500, 10_000), new: ("enforce", 0, 2500)} == in_force(client.control)
    assert "10/minute" == client.viewer.get(f"{RULES}/orders").json()["rule"]["quotas"]

    assert 100 == client.editor.post(f"{CHANGES}/{change['id']}/advance").json()["share"]
    assert {"orders": ("enforce", 10_000, 10_000), new: ("enforce", 0, 10_000)} == in_force(client.control)

    assert "done" == client.editor.post(f"{CHANGES}/{change['id']}/advance").json()["state"]
    assert {"orders": ("enforce", 0, 10_000)} == in_force(client.control)
    assert "20/minute" == client.viewer.get(f"{RULES}/orders").json()["rule"]["quotas"]
    assert 409 == client.editor.post(f"{CHANGES}/{change['id']}/advance").status_code


def test_a_change_that_is_stopped_leaves_the_old_rule(client: Clients) -> None:
    """Nothing of it stays in force, and the rule can be changed again."""
    ask(client.editor)
    change = alter(client.editor, "20/minute", rollout={"steps": [50]}).json()["id"]

    assert 409 == alter(client.editor, "30/minute").status_code
    assert 409 == alter(client.editor, "30/minute", rollout=STEPS).status_code
    assert "stopped" == client.editor.post(f"{CHANGES}/{change}/stop", json={"reason": "too many denials"}).json()["state"]
    assert {"orders": ("enforce", 0, 10_000)} == in_force(client.control)
    assert 409 == client.editor.post(f"{CHANGES}/{change}/finish").status_code
    assert 200 == alter(client.editor, "30/minute", '"1"').status_code


def test_a_change_can_be_finished_at_once(client: Clients) -> None:
    """Steps that are left are skipped, where no approver has agreed to them."""
    change = ask(client.editor, rollout=STEPS).json()["id"]

    assert {"orders": ("shadow", 0, 10_000)} == in_force(client.control)
    assert "done" == client.editor.post(f"{CHANGES}/{change}/finish").json()["state"]
    assert {"orders": ("enforce", 0, 10_000)} == in_force(client.control)


def test_steps_that_were_approved_are_skipped_only_by_an_approver(careful: Clients) -> None:
    """An editor goes through them one by one, and may stop."""
    change = ask(careful.editor, rollout=STEPS).json()["id"]
    careful.approver.post(f"{CHANGES}/{change}/approve")

    assert 403 == careful.editor.post(f"{CHANGES}/{change}/finish").status_code
    assert 200 == careful.editor.post(f"{CHANGES}/{change}/advance").status_code
    assert 200 == careful.approver.post(f"{CHANGES}/{change}/finish").status_code


def test_how_long_an_approved_step_lasts_is_cut_only_by_an_approver(careful: Clients, clock: Clock) -> None:
    """Else an editor would be at the last step as fast as it can be asked for."""
    change = ask(careful.editor, rollout={**STEPS, "step_seconds": 60}).json()["id"]
    careful.approver.post(f"{CHANGES}/{change}/approve")
    with careful.control.database.reading() as session:
        begun = changes.get(session, change)
    # Once its time has come the clock takes the step too: who was first is not asked here.
    roles = [edits.needed(careful.control, "advance", begun, clock() + timedelta(seconds=seconds)) for seconds in (0, 59, 60)]

    assert [Role.APPROVER, Role.APPROVER, Role.EDITOR] == roles
    assert 403 == careful.editor.post(f"{CHANGES}/{change}/advance").status_code
    assert 200 == careful.approver.post(f"{CHANGES}/{change}/advance").status_code


def test_a_rule_fades_out(client: Clients) -> None:
    """A removal has steps too."""
    ask(client.editor)
    change = client.editor.delete(f"{RULES}/orders", headers={"If-Match": "*"}, params={"steps": [50, 100]})

    assert (202, None) == (change.status_code, change.json()["rule"])
    assert {"orders": ("enforce", 5000, 10_000)} == in_force(client.control)
    client.editor.post(f"{CHANGES}/{change.json()['id']}/finish")
    assert {} == in_force(client.control)
    assert 404 == client.viewer.get(f"{RULES}/orders").status_code


def test_the_clock_takes_steps_one_at_a_time(client: Clients, clock: Clock) -> None:
    """Neither a clock that is set forward by a year skips a step, nor does one that is set back undo one."""
    change = ask(client.editor, rollout={**STEPS, "step_seconds": 60}).json()["id"]
    shares = []
    for seconds in (59, 1, 86_400 * 365, -7200, 7200 + 59, 1):
        clock.advance(seconds=seconds)
        client.control.follower.look()
        found = client.viewer.get(f"{CHANGES}/{change}").json()
        shares.append(found["share"] if found["share"] is not None else found["state"])

    assert [0, 25, 100, 100, 100, "done"] == shares
    entries = client.viewer.get("/admin/v1/audit", params={"action": "change.advance"}).json()["entries"]
    assert [("tidegate", {"share": 100}), ("tidegate", {"share": 25})] == [(entry["actor"], entry["after"]) for entry in entries]


@pytest.mark.parametrize("steps", [[50, 25], [0, 0], [101], [-1], list(range(40)), ["x"]], ids=str)
def test_steps_that_make_no_sense_are_refused(client: Clients, steps: list[object]) -> None:
    """They rise, from shadow to everybody."""
    assert 422 == ask(client.editor, rollout={"steps": steps}).status_code


def test_a_rule_that_stops_has_no_steps(client: Clients) -> None:
    """Of two versions only the first would be looked at."""
    body = {"rule_id": "pass", "rule": {"match": {"path": "/health"}, "stop": True}, "rollout": STEPS}

    assert 422 == client.editor.post(RULES, json=body).status_code
    assert 201 == client.editor.post(RULES, json=body | {"rollout": None}).status_code


def test_change_requests_are_listed_by_state(client: Clients) -> None:
    """What is open, and what has been."""
    for name in ("a", "b", "c"):
        ask(client.editor, rule_id=name, rollout=STEPS)
    first = client.viewer.get(CHANGES, params={"limit": 2}).json()
    client.editor.post(f"{CHANGES}/{first['changes'][0]['id']}/stop")

    assert ["c", "b"] == [change["rule_id"] for change in first["changes"]]
    assert ["a"] == [change["rule_id"] for change in client.viewer.get(CHANGES, params={"before": first["next"]}).json()["changes"]]
    assert ["b", "a"] == [change["rule_id"] for change in client.viewer.get(CHANGES, params={"state": "open"}).json()["changes"]]
    assert ["c"] == [change["rule_id"] for change in client.viewer.get(CHANGES, params={"state": "stopped"}).json()["changes"]]
    assert 422 == client.viewer.get(CHANGES, params={"state": "' OR 1=1"}).status_code
