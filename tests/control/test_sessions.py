"""
People in browsers: signing in, what their cookie opens, and when it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
from sqlalchemy import text

from tidegate.control.roles import Role
from tidegate.control.sessions import COOKIE, IDLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.control.controlling import Clients, Clock, token_of
    from tidegate.control.control import Control
else:
    from controlling import token_of


@pytest.fixture
def secret(control: Control) -> str:
    """
    The token of somebody who signs in.
    """
    return token_of(control, Role.ADMIN, "alice")


@pytest.fixture
def browser(control: Control) -> Iterator[httpx.Client]:
    """
    What keeps cookies.
    """
    with httpx.Client(base_url=f"http://{control.address}", timeout=30) as browser:
        yield browser


def sign_in(browser: httpx.Client, secret: str) -> dict[str, str]:
    """
    Signs in, and answers who it is.
    """
    answer = browser.post("/api/v1/session", json={"token": secret})
    assert 200 == answer.status_code, answer.text
    me: dict[str, str] = answer.json()
    return me


def test_a_cookie_is_kept_from_scripts_and_other_sites(browser: httpx.Client, secret: str, control: Control) -> None:
    """
    And the database has neither it nor the token.
    """
    answer = browser.post("/api/v1/session", json={"token": secret})
    cookie = answer.headers["set-cookie"]
    value = browser.cookies[COOKIE]

    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip().lower() for part in cookie.split(";")}
    assert secret not in cookie
    with control.database.reading() as session:
        kept = str(session.execute(text("SELECT * FROM sessions")).all())
    assert value not in kept
    assert secret not in kept


def test_a_browser_with_another_clock_can_sign_in(browser: httpx.Client, secret: str, clock: Clock) -> None:
    """
    Its cookie lasts for so long, not until a date: ours may lie in the browser's past.
    """
    clock.advance(days=-30)
    answer = browser.post("/api/v1/session", json={"token": secret})

    assert "expires" not in answer.headers["set-cookie"].lower()
    assert 200 == browser.get("/api/v1/session").status_code


def test_a_session_reads_without_more(browser: httpx.Client, secret: str) -> None:
    """
    A page is loaded by its address alone.
    """
    me = sign_in(browser, secret)
    seen = browser.get("/api/v1/session").json()

    assert ("alice", "admin", me["csrf"]) == (seen["name"], seen["role"], seen["csrf"])


def test_a_session_changes_nothing_without_what_its_pages_know(browser: httpx.Client, secret: str) -> None:
    """
    Another site can make a browser send the cookie, but cannot read the page.
    """
    sign_in(browser, secret)
    for sent in (None, "", "wrong", "ümlaut"):
        headers = {} if sent is None else {b"x-csrf-token": sent.encode()}
        answer = browser.post("/admin/v1/tokens", json={"name": "mallory", "role": "admin"}, headers=headers)

        assert 403 == answer.status_code
    assert "mallory" not in browser.get("/admin/v1/tokens").text


def test_a_session_changes_things_with_what_its_pages_know(browser: httpx.Client, secret: str) -> None:
    """
    As a header; and of another session it is not enough.
    """
    mine = sign_in(browser, secret)["csrf"]
    made = browser.post("/admin/v1/tokens", json={"name": "bob", "role": "viewer"}, headers={"x-csrf-token": mine})
    sign_in(browser, secret)
    with_the_old = browser.post("/admin/v1/tokens", json={"name": "carol", "role": "viewer"}, headers={"x-csrf-token": mine})

    assert (201, 403) == (made.status_code, with_the_old.status_code)


def test_signing_out_ends_the_session(browser: httpx.Client, secret: str) -> None:
    """
    Also for who has kept the cookie.
    """
    csrf = sign_in(browser, secret)["csrf"]
    cookie = browser.cookies[COOKIE]
    ended = browser.delete("/api/v1/session", headers={"x-csrf-token": csrf})
    browser.cookies.clear()

    assert 204 == ended.status_code
    assert 401 == browser.get("/api/v1/session", headers={"cookie": f"{COOKIE}={cookie}"}).status_code


def test_revoking_a_token_ends_its_sessions_at_once(browser: httpx.Client, secret: str, client: Clients) -> None:
    """
    Who is signed in is not signed in any more.
    """
    sign_in(browser, secret)
    number = next(token["id"] for token in client.admin.get("/admin/v1/tokens").json() if token["name"] == "alice")
    before = browser.get("/api/v1/session").status_code
    client.admin.delete(f"/admin/v1/tokens/{number}")

    assert (200, 401) == (before, browser.get("/api/v1/session").status_code)


def test_a_session_ends_when_it_is_not_used(browser: httpx.Client, secret: str, clock: Clock) -> None:
    """
    Each use makes it last.
    """
    sign_in(browser, secret)
    for _ in range(3):
        clock.at += IDLE * 0.9
        assert 200 == browser.get("/api/v1/session").status_code
    clock.at += IDLE

    assert 401 == browser.get("/api/v1/session").status_code


def test_a_session_ends_when_it_is_old(browser: httpx.Client, secret: str, clock: Clock, control: Control) -> None:
    """
    However busy it is.
    """
    sign_in(browser, secret)
    begun = clock.at
    while (clock.at - begun).total_seconds() < control.settings["admin.session"] - 3600:
        clock.advance(hours=1)
        assert 200 == browser.get("/api/v1/session").status_code
    clock.advance(hours=1)

    assert 401 == browser.get("/api/v1/session").status_code


def test_guessing_is_limited(browser: httpx.Client, secret: str) -> None:
    """
    By ourselves: then even the right token is not looked at, and the answer says how long to wait.
    """
    statuses = [browser.post("/api/v1/session", json={"token": f"tg_{guess}"}).status_code for guess in range(11)]
    refused = browser.post("/api/v1/session", json={"token": secret})

    assert [401] * 10 + [429] == statuses
    assert 429 == refused.status_code
    assert 1 <= int(refused.headers["retry-after"]) <= 60


def test_who_succeeds_uses_nothing_up(browser: httpx.Client, secret: str) -> None:
    """
    A program may sign in all day.
    """
    assert {200} == {browser.post("/api/v1/session", json={"token": secret}).status_code for _ in range(30)}


def test_signing_in_is_in_the_audit_log(browser: httpx.Client, secret: str, client: Clients) -> None:
    """
    With where from.
    """
    sign_in(browser, secret)
    entry = client.viewer.get("/admin/v1/audit", params={"action": "session.open"}).json()["entries"][0]

    assert ("alice", "127.0.0.1") == (entry["actor"], entry["address"])


def test_people_without_a_session_are_sent_to_sign_in(browser: httpx.Client) -> None:
    """
    Programs are told 401; a browser that opens a page is taken to another one, and back afterwards.
    """
    page = browser.get("/admin/v1/audit?limit=3", headers={"accept": "text/html,*/*"})

    assert 303 == page.status_code
    assert "/sign-in?next=%2Fadmin%2Fv1%2Faudit%3Flimit%3D3" == page.headers["location"]
    assert 401 == browser.get("/admin/v1/audit").status_code
