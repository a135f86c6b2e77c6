"""
Rules of files may ask for secrets, and everybody with a token sees those rules: never the secrets.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tidegate.control import bodies
from tidegate.control.compose import NO_FILES, check
from tidegate.control.control import Control
from tidegate.rules.model import Source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.control.controlling import Clients, settings_for
else:
    from controlling import Clients, settings_for

RULES = """\
version: 1
identity: [{header: x-api-key}]
rules:
  - {name: internal, match: {headers: {X-Internal-Secret: hidden-0123456789}}, per: global, stop: true}
  - {name: partner, match: {"header:authorization": {prefix: "Bearer hidden-1"}, path: /partner/**}, per: client, quotas: 5/minute}
  - {name: one_key, match: {client: {not: hidden-2-sk-live}}, per: client, quotas: 6/minute}
  - {name: signed, match: {query: {access_token: {regex: "hidden-3-.*", ignore_case: true}}}, per: client, quotas: 7/minute}
  - {name: plans, per: client, quotas: 8/minute, overrides: {hidden-4-sk-live: 9/minute}}
  - {name: open, match: {headers: {content-type: application/json}}, per: client, quotas: 9/minute}
"""
NAMES = ["internal", "partner", "one_key", "signed", "plans", "open"]
API = "/api/v1/rate-limit/rules"


@pytest.fixture(scope="module")
def clients(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """
    Everybody, at a control plane beside a file with secrets.
    """
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "rules.yaml").write_text(RULES, encoding="utf-8")
    (folder / "tidegate.db").write_bytes(sqlite_template.read_bytes())
    with Control(settings_for(f"sqlite:///{folder}/tidegate.db", folder)) as control, Clients.of_control(control) as clients:
        clients.viewer.post("/sign-in", data={"token": clients.viewer.headers["authorization"].removeprefix("Bearer ")})
        yield clients


@pytest.mark.parametrize("path", ["/rules", *(f"/rule?id={name}" for name in NAMES)])
def test_a_page_of_a_rule_of_a_file_shows_no_secret(clients: Clients, path: str) -> None:
    """A viewer sees which attribute is asked for, and a hint of its value."""
    page = clients.viewer.get(path, headers={"accept": "text/html"})

    assert 200 == page.status_code
    assert "hidden-" not in page.text
    assert path.removeprefix("/rule?id=") in page.text


@pytest.mark.parametrize("path", [API, f"{API}?q=hidden-", *(f"{API}/{name}" for name in NAMES)])
def test_the_api_shows_no_secret_of_a_file(clients: Clients, path: str) -> None:
    """Not in the list, not in the rule, not by searching for it."""
    answer = clients.viewer.get(path)

    assert 200 == answer.status_code
    assert "hidden-" not in answer.text


def test_what_is_shown_still_says_what_is_asked_for(clients: Clients) -> None:
    """A rule must not look like one for every request, and what is no secret stays as it is written."""
    partner = clients.viewer.get(f"{API}/partner").json()
    plain = clients.viewer.get(f"{API}/open").json()

    assert {"header:authorization": "begins with Bea***", "path": "/partner/**"} == partner["rule"]["match"]
    assert "/partner/**" in partner["text"]
    assert {"headers": {"content-type": "application/json"}} == plain["rule"]["match"]


def test_explaining_a_request_tells_no_secret(clients: Clients) -> None:
    """Why a rule does not apply is what it asks for, which is how a secret would get out."""
    headers = {"x-internal-secret": "a guess", "authorization": "another", "x-api-key": "hidden-2-sk-live"[:-1]}
    asked = {"method": "GET", "path": "/partner/1", "headers": headers, "query": {"access_token": "guess"}}
    told = clients.viewer.post(f"{API}/explain", json={"attributes": asked})
    lines = "header:x-internal-secret=a guess\nheader:authorization=another\nquery:access_token=guess"
    form = {"id": "draft", "text": "per: client\nquotas: 1/second\n", "path": "/partner/1", "attributes": lines}
    page = clients.viewer.post("/editor/explain", data=form, headers={"accept": "text/html", "origin": str(clients.viewer.base_url)})

    assert 200 == told.status_code, told.text
    assert "the rule asks for" in told.text
    assert "hidden-0" not in told.text
    assert "hidden-1" not in told.text
    assert "hidden-3" not in told.text
    assert 200 == page.status_code, page.text
    assert "the rule asks for" in page.text
    assert "hidden-" not in page.text


@pytest.mark.parametrize(
    "match", ["{headers: {x-internal-secret: hidden-0123}}", "{'query:access_token': hidden-0123}", "{client: hidden-0123}"]
)
def test_a_stored_rule_cannot_hold_a_secret(match: str) -> None:
    """It would be in the database, in its revisions and in the audit log, all of which viewers read."""
    identity = (Source("header", "x-api-key", "api_key"),)
    reading = bodies.read("orders", f"match: {match}\nper: client\nquotas: 1/second", identity)
    check(reading, replace(NO_FILES, identity=identity))

    assert ["bad-condition"] == [problem.code for problem in reading.problems]
    assert not any("hidden-" in str(problem) for problem in reading.problems)
