"""
Pages without a browser: they answer, hide nothing and run nothing, and say what to do.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from fastapi.routing import APIRoute

from tidegate.control.roles import Role
from tidegate.dashboard.pages import PAGES as PAGES_ALL

if TYPE_CHECKING:
    from tests.dashboard.busy import DIGEST
    from tests.dashboard.visiting import Site
else:
    from busy import DIGEST

PAGES = {
    "overview": "/",
    "instances": "/instances",
    "rules": "/rules",
    "rule": "/rule?id=write_orders",
    "rule of a file": "/rule?id=per_client",
    "editor": "/editor?id=write_orders",
    "new rule": "/editor?from=login",
    "revisions": "/revisions?id=write_orders",
    "changes": "/changes?show=all",
    "change": "/change?id=1",
    "keys": "/keys",
    "key": f"/key?digest={DIGEST}",
    "tiers": "/tiers",
    "audit": "/audit",
}

LOOKING = {"/sign-in", "/sign-out", "/theme", "/keys/find", "/editor/check", "/editor/explain", "/editor/replay"}
"""Forms that change nothing but what their sender sees."""

CHANGING = {
    route.path for router in PAGES_ALL for route in router.routes if isinstance(route, APIRoute) and "POST" in (route.methods or ())
} - LOOKING


def inline(html: str) -> list[str]:
    """
    What runs or is styled in a page itself, and images that somebody else made.
    """
    found: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            named = dict(attrs)
            found.extend(f"{tag} {name}" for name in named if name.startswith("on") or name == "style")
            if (tag == "script" and "src" not in named) or (tag == "img" and not (named["src"] or "").startswith("/static/")):
                found.append(tag)

    Reader().feed(html)
    return found


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)
def test_every_page_answers_a_viewer_and_is_inert(busy: Site, path: str) -> None:
    """
    What is in the database is text, whoever wrote it.
    """
    with busy.client() as client:
        answer = client.get(path)

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert inline(answer.text) == []
    assert "script-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/changes?show=all", "/keys", "/audit"])
def test_hostile_names_are_shown_as_they_are(busy: Site, path: str) -> None:
    """
    Inert is not hidden: support has to see what was sent.
    """
    with busy.client() as client:
        answer = client.get(path)

    assert "&lt;img src=x onerror=alert(1)&gt;" in answer.text


@pytest.mark.parametrize("path", [*PAGES.values(), "/tokens"])
def test_nobody_sees_a_page_without_signing_in(busy: Site, path: str) -> None:
    """
    They are led to the form, and from there to where they wanted to go.
    """
    with busy.client(None) as client:
        answer = client.get(path)
        assert answer.url.path == "/sign-in"

        after = client.post("/sign-in", data={"token": busy.secret(Role.ADMIN), "next": answer.url.params.get("next", "/")})

    assert after.status_code == 200
    assert str(after.url) == f"{busy.address}{path}"


@pytest.mark.parametrize(
    "elsewhere", ["//evil.example/", "/\\evil.example", "https://evil.example/", "javascript:alert(1)", "/a\r\nx: y", ""]
)
def test_signing_in_never_leads_to_another_host(busy: Site, elsewhere: str) -> None:
    """
    An address that somebody was sent must not end on a page of somebody else.
    """
    with busy.client(None) as client:
        answer = client.post("/sign-in", data={"token": busy.secret(Role.VIEWER), "next": elsewhere}, follow_redirects=False)

    assert answer.headers["location"] == "/"


def test_a_wrong_token_is_told_so(busy: Site) -> None:
    """
    With what to do about it.
    """
    with busy.client(None) as client:
        answer = client.post("/sign-in", data={"token": "tg_wrong"})

    assert answer.status_code == 401
    assert "The token is not good: it is unknown, was revoked or has ended." in answer.text


def test_only_admins_see_tokens(busy: Site) -> None:
    """
    Neither the page nor the way to it.
    """
    with busy.client(Role.APPROVER) as client:
        refused, overview = client.get("/tokens"), client.get("/")
    with busy.client(Role.ADMIN) as client:
        shown = client.get("/tokens")

    assert refused.status_code == 403
    assert "this needs the role admin" in refused.text
    assert 'href="/tokens"' not in overview.text
    assert "alice" in shown.text


@pytest.mark.parametrize("path", sorted(CHANGING))
def test_a_viewer_changes_nothing(busy: Site, path: str) -> None:
    """
    Also not with a form made by hand.
    """
    with busy.client() as client:
        csrf = re.search(r'name="csrf" value="([^"]+)"', client.get("/").text)
        assert csrf is not None
        answer = client.post(path, data={"csrf": csrf[1], "id": "write_orders"})

    assert answer.status_code == 403


@pytest.mark.parametrize("path", ["/editor/save", "/theme", "/sign-out", "/change/decide"])
def test_a_form_of_somebody_else_is_refused(busy: Site, path: str) -> None:
    """
    It lacks what only our pages know.
    """
    with busy.client(Role.ADMIN) as client:
        answer = client.post(path, data={"theme": "dark"})

    assert answer.status_code == 403
    assert "does not come from a page of this control plane" in answer.text


def test_viewers_are_not_offered_what_they_may_not_do(busy: Site) -> None:
    """
    A button that only refuses is a trap.
    """
    with busy.client() as client:
        rules, rule, key = client.get("/rules").text, client.get("/rule?id=write_orders").text, client.get(f"/key?digest={DIGEST}").text

    assert 'href="/editor"' not in rules
    assert "Delete this rule" not in rule
    assert "Save override" not in key


def test_the_script_gets_a_page_without_its_frame(busy: Site) -> None:
    """
    Ten dashboards that look every second must cost little.
    """
    with busy.client() as client:
        whole, part = client.get("/"), client.get("/", headers={"tidegate-part": "1"})

    assert 'id="decisions"' in part.text
    assert "<nav" not in part.text
    assert len(part.text) < len(whole.text)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/rule?id=nope", 404), ("/change?id=99", 404), ("/change?id=x", 422), ("/revisions?id=nope", 404), ("/key?digest=1", 404)],
)
def test_errors_say_what_to_do(busy: Site, path: str, status: int) -> None:
    """
    In a page like every other, with a way on.
    """
    with busy.client() as client:
        answer = client.get(path)

    assert answer.status_code == status
    assert 'role="alert"' in answer.text
    assert "<nav" in answer.text


@pytest.mark.parametrize("name", ["dashboard.js", "tokens.css", "icon.svg"])
def test_files_of_pages_are_kept_by_browsers(busy: Site, name: str) -> None:
    """
    Their addresses change when they do.
    """
    with busy.client(None) as client:
        answer = client.get(f"/static/{name}")

    assert answer.status_code == 200
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize("name", ["..%2fpage.py", "nothing.css", "%2e%2e", "__init__.py"])
def test_nothing_else_is_served(busy: Site, name: str) -> None:
    """
    Only what pages load.
    """
    with busy.client(None) as client:
        answer = client.get(f"/static/{name}")

    assert answer.status_code == 404


def test_the_choice_of_colours_stays(busy: Site) -> None:
    """
    In the page from its first byte, so that nothing flashes.
    """
    with busy.client() as client:
        csrf = re.search(r'name="csrf" value="([^"]+)"', client.get("/").text)
        assert csrf is not None
        after = client.post("/theme", data={"csrf": csrf[1], "theme": "dark", "back": "/rules"})

    assert after.url.path == "/rules"
    assert 'data-theme="dark"' in after.text
