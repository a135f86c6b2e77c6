"""
What the forms of the dashboard do, without a browser: the same as the API, and told in pages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tidegate.control import rules
from tidegate.control.control import Control
from tidegate.control.models import AuditEntry, Block, QuotaOverride, RuleRevision, StoredRule, Tenant, Tier
from tidegate.control.roles import Role
from tidegate.service import load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

    from tests.dashboard.visiting import Site
else:
    from visiting import Site

GOOD = "per: client\nquotas: 10/minute\n"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """
    A control plane on its own, empty.
    """
    (tmp_path / "rules.yaml").write_text("version: 1\nrules: [{name: everybody, per: global, quotas: 3/minute}]\n", encoding="utf-8")
    flags: dict[str, str | bool] = {
        "rules": str(tmp_path / "rules.yaml"),
        "watch": False,
        "admin.listen": "127.0.0.1:0",
        "admin.database": f"sqlite:///{tmp_path}/tidegate.db",
        "admin.cache": str(tmp_path / "tidegate.cache"),
    }
    with Control(load(environment={}, flags=flags)) as control:
        yield Site(control)


@pytest.fixture
def editor(site: Site) -> Iterator[httpx.Client]:
    """
    Somebody who may change rules.
    """
    with site.client(Role.EDITOR) as client:
        yield client


def send(client: httpx.Client, to: str, /, **fields: str) -> httpx.Response:
    """
    Sends a form as a page of ours does.
    """
    csrf = re.search(r'name="csrf" value="([^"]+)"', client.get("/").text)
    assert csrf is not None
    return client.post(to, data={"csrf": csrf[1], **fields})


def stored(site: Site, rule_id: str) -> StoredRule | None:
    """
    A rule as it is in the database.
    """
    with site.control.database.reading() as session:
        return session.get(StoredRule, rule_id)


def save(client: httpx.Client, rule_id: str = "orders", text: str = GOOD, revision: str = "0", **more: str) -> httpx.Response:
    """
    Sends the editor.
    """
    return send(client, "/editor/save", id=rule_id, text=text, revision=revision, reason="because", **more)


def test_a_rule_is_saved_and_shown(site: Site, editor: httpx.Client) -> None:
    """
    At once, on the page to which it leads.
    """
    answer = save(editor)

    assert answer.url.path == "/rule"
    assert "Saved. Every instance has it within two seconds." in answer.text
    assert "10/minute" in answer.text
    found = stored(site, "orders")
    assert found is not None
    assert found.body == {"per": "client", "quotas": "10/minute"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("per: client\nquotas: 10/minuet\n", "line 2"),
        ("per: client\nquotes: 10/minute\n", "line 2"),
        ("per: client\r\nquotas: 10/minuet\r\n", "line 2"),
        ("per: [", "line"),
        ("", "line 1"),
        ("name: other\nper: client\nquotas: 1/minute\n", "line 1"),
        ("<script>alert(1)</script>", "line 1"),
    ],
    ids=["unit", "field", "ends of lines of HTTP", "no YAML", "nothing", "another name", "HTML"],
)
def test_a_wrong_rule_comes_back_with_its_errors_and_its_text(site: Site, editor: httpx.Client, text: str, told: str) -> None:
    """
    Nothing that was typed is lost.
    """
    answer = save(editor, text=text)

    assert answer.status_code == 422
    assert told in answer.text
    assert "<script>alert" not in answer.text
    assert 'value="because"' in answer.text
    assert stored(site, "orders") is None


def test_a_name_of_a_file_is_taken(editor: httpx.Client) -> None:
    """
    Rules of files are changed in files.
    """
    answer = save(editor, "everybody")

    assert answer.status_code == 422
    assert 'class="problem error"' in answer.text


def test_two_editors_do_not_overwrite_each_other(site: Site, editor: httpx.Client) -> None:
    """
    The second one is told, and what to do.
    """
    save(editor)
    save(editor, text="per: client\nquotas: 20/minute\n", revision="1")
    answer = save(editor, text="per: client\nquotas: 30/minute\n", revision="1")

    assert answer.status_code == 409
    assert "Somebody else was faster" in answer.text
    found = stored(site, "orders")
    assert found is not None
    assert found.body["quotas"] == "20/minute"


def test_a_rule_goes_back_to_what_it_was(site: Site, editor: httpx.Client) -> None:
    """
    As a new revision.
    """
    save(editor)
    save(editor, text="per: client\nquotas: 20/minute\n", revision="1")
    compared = editor.get("/revisions?id=orders")
    answer = send(editor, "/revisions/rollback", id="orders", to="1", revision="2", reason="")

    assert 'class="removed"' in compared.text
    assert answer.status_code == 200
    found = stored(site, "orders")
    assert found is not None
    assert (found.revision, found.body["quotas"]) == (3, "10/minute")


def test_a_rule_is_deleted_with_a_reason(site: Site, editor: httpx.Client) -> None:
    """
    And is still found among the revisions.
    """
    save(editor)
    answer = send(editor, "/rule/delete", id="orders", revision="1", reason="no longer needed")

    assert answer.url.path == "/rules"
    assert stored(site, "orders") is None
    assert "no longer needed" in editor.get("/revisions?id=orders").text


def test_a_change_rolls_out_step_by_step(site: Site, editor: httpx.Client) -> None:
    """
    In shadow first, then for a share of keys, and is finished by hand.
    """
    save(editor)
    answer = save(editor, text="per: client\nquotas: 5/minute\n", revision="1", rollout="careful")
    assert "in shadow" in answer.text

    for expected in ("Go on to 25 %", "Go on to 100 %"):
        answer = send(editor, "/change/decide", id="1", action="advance")
        assert expected in answer.text
    answer = send(editor, "/change/decide", id="1", action="finish")

    assert "The change is in force for everybody." in answer.text
    found = stored(site, "orders")
    assert found is not None
    assert found.body["quotas"] == "5/minute"


def test_a_rule_that_stops_cannot_come_in_steps(site: Site, editor: httpx.Client) -> None:
    """
    As in the API: of two versions of it only the first would be looked at.
    """
    answer = save(editor, text=f"{GOOD}stop: true\n", rollout="careful")

    assert answer.status_code == 422
    assert "comes into force at once" in answer.text
    assert stored(site, "orders") is None


def test_going_back_to_a_rule_that_is_no_longer_good_is_refused(site: Site, editor: httpx.Client) -> None:
    """
    What was good once may not be any more; here it never was, as if the language had changed.
    """
    save(editor)
    with site.control.database.session() as session:
        session.get_one(RuleRevision, ("orders", 1)).body = {"per": "client", "quotas": "10/fortnight"}
    save(editor, text="per: client\nquotas: 5/minute\n", revision="1")
    answer = send(editor, "/revisions/rollback", id="orders", to="1", revision="2")

    assert answer.status_code == 422
    assert "cannot be taken any more" in answer.text


def test_steps_that_were_approved_are_skipped_only_by_an_approver(
    site: Site, editor: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The page that offers the button and the form behind it ask for the same role as the API.
    """
    monkeypatch.setitem(site.control.settings.values, "admin.approval", value=True)
    save(editor, rollout="careful")
    with site.client(Role.APPROVER) as approver:
        begun = send(approver, "/change/decide", id="1", action="approve")
        page = editor.get("/change?id=1")
        refused = send(editor, "/change/decide", id="1", action="finish")
        finished = send(approver, "/change/decide", id="1", action="finish")

    assert "Finish for everybody" in begun.text
    assert "Go on to 5 %" in page.text
    assert "Finish for everybody" not in page.text
    assert refused.status_code == 403
    assert "The change is in force for everybody." in finished.text


def test_a_request_is_explained(editor: httpx.Client) -> None:
    """
    By the rules in force, with the draft among them.
    """
    answer = send(editor, "/editor/explain", id="orders", text=GOOD, revision="0", method="GET", path="/x", attributes="client=abc")

    assert "binds with" in answer.text
    assert "everybody" in answer.text
    assert "orders" in answer.text


def test_without_recordings_the_last_hour_says_so(editor: httpx.Client) -> None:
    """
    And what to do about it.
    """
    answer = send(editor, "/editor/replay", id="orders", text=GOOD, revision="0")

    assert "Nothing was recorded in this time" in answer.text


def test_a_key_is_found_without_being_told(site: Site, editor: httpx.Client) -> None:
    """
    It is in no address and on no page.
    """
    answer = send(editor, "/keys/find", key="sk_live_4711")

    assert answer.url.path == "/key"
    assert "4711" not in str(answer.url)
    assert "sk_live_4711" not in answer.text


def test_a_key_is_blocked_and_unblocked(site: Site, editor: httpx.Client) -> None:
    """
    With reasons.
    """
    digest = send(editor, "/keys/find", key="sk_live_4711").url.params["digest"]
    unreasoned = send(editor, "/key/block", digest=digest, seconds="3600", reason=" ")
    blocked = send(editor, "/key/block", digest=digest, seconds="3600", reason="bots")
    with site.control.database.reading() as session:
        row = session.get(Block, digest)
    unblocked = send(editor, "/key/unblock", digest=digest, reason="a mistake")
    again = send(editor, "/key/unblock", digest=digest, reason="twice")

    assert unreasoned.status_code == 422
    assert "The key is blocked." in blocked.text
    assert row is not None
    assert row.reason == "bots"
    assert "The key may pass again." in unblocked.text
    assert again.status_code == 409


def test_a_key_gets_quotas_of_its_own_and_loses_them(site: Site, editor: httpx.Client) -> None:
    """
    Wrong ones are told by rule.
    """
    digest = send(editor, "/keys/find", key="sk_live_4711").url.params["digest"]
    wrong = send(editor, "/key/override", digest=digest, quotas="everybody: 5/minuet")
    late = send(editor, "/key/override", digest=digest, tier="pro", expires_at="2020-01-01T00:00")
    given = send(editor, "/key/override", digest=digest, tier="pro", quotas="everybody: 5/minute, 50/hour", reason="asked nicely")
    with site.control.database.reading() as session:
        row = session.query(QuotaOverride).one()
    taken = send(editor, "/key/override/delete", digest=digest, override=str(row.id))

    assert wrong.status_code == 422
    assert "everybody" in wrong.text
    assert late.status_code == 422
    assert "The override is saved." in given.text
    assert row.quotas == {"everybody": ["5/minute", "50/hour"]}
    assert "It has no quotas of its own." in taken.text


def test_a_key_is_granted_more_for_a_time(site: Site, editor: httpx.Client) -> None:
    """
    Everything else that it has stays.
    """
    digest = send(editor, "/keys/find", key="sk_live_4711").url.params["digest"]
    answer = send(editor, "/key/grant", digest=digest, rule="everybody", quota="500/minute", seconds="3600", reason="launch")

    assert "Granted." in answer.text
    assert "everybody 500/minute" in answer.text
    with site.control.database.reading() as session:
        assert session.query(QuotaOverride).one().expires_at is not None


def test_saving_what_the_form_of_a_key_shows_changes_nothing(site: Site, editor: httpx.Client) -> None:
    """
    Neither does what was given for a time get no end, nor is a grant kept for good.
    """
    digest = send(editor, "/keys/find", key="sk_live_4711").url.params["digest"]
    send(editor, "/key/override", digest=digest, tier="pro", quotas="everybody: 5/minute", expires_at="2096-12-24T18:00")
    send(editor, "/key/grant", digest=digest, rule="everybody", quota="500/minute", seconds="3600", reason="a launch")
    before = overrides(site)
    page = editor.get(f"/key?digest={digest}").text
    form = page[page.index('action="/key/override"') :]
    shown = {name: value for name, value in re.findall(r'<input id="[\w-]+" name="(\w+)"[^>]*?value="([^"]*)"', form) if name != "seconds"}
    text = re.search(r'name="quotas"[^>]*>([^<]*)<', form)
    assert text is not None
    send(editor, "/key/override", digest=digest, quotas=text[1], **shown)

    assert {"tier": "pro", "tenant": "", "expires_at": "2096-12-24T18:00:00"} == shown
    assert before == overrides(site)


def overrides(site: Site) -> list[tuple[object, ...]]:
    """
    Whatever keys have of their own.
    """
    with site.control.database.reading() as session:
        return [(row.tier, row.tenant, row.quotas, row.effective_at, row.expires_at) for row in session.query(QuotaOverride)]


def test_tiers_and_tenants_are_made_and_removed(site: Site, editor: httpx.Client) -> None:
    """
    On one page.
    """
    send(editor, "/tiers/save", name="pro", about="paying", quotas="everybody: 50/minute")
    send(editor, "/tenants/save", name="acme", about="", tier="pro", quotas="")
    bad = send(editor, "/tiers/save", name="", quotas="")
    shown = editor.get("/tiers").text
    with site.control.database.reading() as session:
        assert session.get(Tier, "pro") is not None
        assert session.get(Tenant, "acme") is not None
    send(editor, "/tiers/delete", name="pro")

    assert bad.status_code == 422
    assert "everybody 50/minute" in shown
    assert "tier pro" in shown
    with site.control.database.reading() as session:
        assert session.get(Tier, "pro") is None


def test_a_token_is_shown_once_and_revoked(site: Site) -> None:
    """
    Whoever used it is out.
    """
    with site.client(Role.ADMIN) as admin:
        made = send(admin, "/tokens/create", name="nina", role="viewer", days="30")
        secret = re.search(r'class="secret">(tg_[\w-]+)<', made.text)
        assert secret is not None
        assert secret[1] not in admin.get("/tokens").text
        site.secrets["nina"] = secret[1]
        with site.client(None) as nina:
            nina.post("/sign-in", data={"token": secret[1]})
            assert nina.get("/").url.path == "/"
            number = re.search(r'name="id" value="(\d+)"><button[^>]*aria-label="Revoke nina"', admin.get("/tokens").text)
            assert number is not None
            send(admin, "/tokens/revoke", id=number[1])
            assert nina.get("/").url.path == "/sign-in"


def test_the_audit_log_names_who_did_it(site: Site, editor: httpx.Client) -> None:
    """
    Also through pages.
    """
    save(editor)
    with site.control.database.reading() as session:
        entry = session.query(AuditEntry).filter_by(action="rule.create").one()

    assert (entry.actor, entry.subject, entry.reason) == ("the editor", "rule:orders", "because")
    assert "rule:orders" in editor.get("/audit?action=rule.").text


def test_a_database_that_is_away_is_told_in_a_page(site: Site, editor: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With the consolation that decisions go on.
    """
    from tidegate.control.errors import DatabaseUnavailable  # noqa: PLC0415

    def away(*_: object, **__: object) -> None:
        raise DatabaseUnavailable("the database cannot be used: it is away")

    monkeypatch.setattr(rules, "listed", away)
    answer = editor.get("/rules")

    assert answer.status_code == 503
    assert "Decisions go on by the last good rules." in answer.text
