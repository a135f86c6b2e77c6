"""
One day of an operator, in a real browser, beside a real service: watch traffic, write a rule, have it approved, block a key.
"""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.control.roles import Role

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.conftest import Eventually
    from tests.dashboard.visiting import PATIENCE_MS, Site, sign_in
    from tests.service.running import ask, here
    from tidegate.service import Service
else:
    from service.running import ask, here
    from visiting import PATIENCE_MS, Site, sign_in

RULES = "version: 1\nidentity: [{header: x-api-key}]\nrules: [{name: everybody, per: client, quotas: 1000/second}]\n"
pytestmark = pytest.mark.timeout(240)


class Beside(Site):
    """
    A control plane, and the service beside which it runs.
    """

    service: Service

    def check(self, client: str, path: str) -> dict[str, Any]:
        """
        Asks the data plane, as a gateway does.
        """
        answer = ask(
            f"http://{self.service.addresses['http']}",
            "POST",
            "/api/v1/rate-limit/check",
            {"client_id": client, "endpoint": path, "method": "GET"},
        )
        said: dict[str, Any] = answer.json
        return said

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """
        Somebody asks all the time.
        """
        is_over = threading.Event()

        def run() -> None:
            while not is_over.wait(0.01):
                self.check("steady", "/hello")

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Beside]:
    """
    A service with its control plane; changes of rules need a second person.
    """
    settings = {
        "admin.listen": "127.0.0.1:0",
        "admin.database": f"sqlite:///{tmp_path}/tidegate.db",
        "admin.cache": tmp_path / "tidegate.cache",
        "admin.approval": True,
    }
    with here(RULES, settings) as service:
        assert service.control is not None
        made = Beside(service.control)
        made.service = service
        yield made


def test_traffic_moves_on_the_first_page(page: Page, site: Beside) -> None:
    """
    Without loading it again, and who walks through it by keyboard stays where they are.
    """
    sign_in(page, site)
    with site.traffic():
        page.locator("#figures").get_by_text(re.compile(r"^[1-9]\d* /s$")).first.wait_for()
        link = page.locator("#now").get_by_role("link").first
        link.focus()
        words = page.locator("#decisions svg").get_attribute("aria-label")
        page.locator(f'#decisions svg:not([aria-label="{words}"])').wait_for()

        page.locator(".pulse").filter(has_text=re.compile("^Live$")).wait_for()
        assert page.evaluate("document.activeElement.tagName") == "A"


def test_a_rule_is_written_approved_and_enforced(chromium: Browser, page: Page, site: Beside, eventually: Eventually) -> None:
    """
    With a mistake first, which is told while it is typed.
    """
    sign_in(page, site, Role.EDITOR, "erin")
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.get_by_role("link", name="New rule").click()
    page.get_by_label("Name").fill("orders")
    text = page.get_by_label("Rule", exact=True)
    text.fill("match: {path: /orders}\nper: client\nquotas: 1/minuet\n")
    problem = page.locator("#problems .problem")
    problem.wait_for()

    assert "line 3" in problem.inner_text()
    assert "minute" in problem.inner_text()
    assert page.locator(".gutter .error").inner_text() == "3"
    page.get_by_role("button", name="Go to line 3").click()
    assert page.evaluate("document.activeElement.value.slice(0, document.activeElement.selectionStart).split('\\n').length") == 3

    page.get_by_role("button", name="Propose").click()
    # Where else a rule with a mistake was taken.
    page.wait_for_url("**/editor/save")
    text = page.get_by_label("Rule", exact=True)
    assert text.input_value() == "match: {path: /orders}\nper: client\nquotas: 1/minuet\n"

    text.fill("match: {path: /orders}\nper: client\nquotas: 1/minute\n")
    page.locator("#problems").get_by_text("no problems").wait_for()
    page.get_by_label("Path").fill("/orders")
    page.get_by_label("Other attributes").fill("header:x-api-key=abc")
    page.get_by_role("button", name="Explain").click()
    page.locator("#explanation").get_by_text("orders binds with 1/minute").wait_for()
    page.get_by_role("button", name="What would it have looked like?").click()
    page.locator("#replay").get_by_text(re.compile("recorded|Requests")).first.wait_for()
    page.get_by_label("Reason").fill("orders overload the queue")
    page.get_by_role("button", name="Propose").click()
    page.get_by_text("A second person has to approve it, not its author.").wait_for()
    assert site.check("abc", "/orders")["allowed"]
    assert site.check("abc", "/orders")["allowed"], "it is enforced before anybody agreed"

    context = chromium.new_context()
    second = context.new_page()
    second.set_default_timeout(PATIENCE_MS)
    sign_in(second, site, Role.APPROVER, "anna")
    second.get_by_role("link", name="Change requests").click()
    second.get_by_role("link", name="orders").click()
    second.get_by_role("button", name="Approve").click()
    second.get_by_text("Approved.").wait_for()
    context.close()

    eventually(lambda: "orders" in str(site.check("def", "/orders")), 20)
    denied = site.check("def", "/orders")
    assert not denied["allowed"]
    assert denied["rule"] == "orders"
    page.goto(f"{site.address}/audit?subject=rule:orders")
    assert page.get_by_text("anna").first.is_visible()


def test_a_key_is_blocked_and_unblocked(page: Page, site: Beside, eventually: Eventually) -> None:
    """
    With reasons, and in force within a moment.
    """
    sign_in(page, site, Role.EDITOR, "erin")
    assert site.check("sk_live_4711", "/hello")["allowed"]
    page.keyboard.press("g")
    page.keyboard.press("k")
    page.get_by_label("API key").fill("sk_live_4711")
    page.get_by_role("button", name="Open").click()
    page.get_by_text("not blocked").wait_for()
    assert "4711" not in page.content().replace("sk_l", ""), "the key itself is on the page"
    assert "4711" not in page.url

    page.get_by_text("Reset its counters").click()
    page.locator("#reset-reason").fill("counted twice")
    page.get_by_role("button", name="Reset").click()
    page.get_by_text("Its counters are reset.").wait_for()
    page.get_by_label("Reason").first.fill("credential stuffing, case 12")
    page.get_by_role("button", name="Block", exact=True).click()
    page.get_by_text("The key is blocked.").wait_for()
    eventually(lambda: not site.check("sk_live_4711", "/hello")["allowed"], 20)
    blocked = site.check("sk_live_4711", "/hello")
    assert blocked["rule"] == "blocked"
    assert blocked["retry_after"] > 0
    assert site.check("another", "/hello")["allowed"]

    page.get_by_label("Reason").first.fill("it was a test")
    page.get_by_role("button", name="Unblock").click()
    page.get_by_text("The key may pass again.").wait_for()
    eventually(lambda: site.check("sk_live_4711", "/hello")["allowed"], 20)
    page.wait_for_load_state()
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.get_by_text("credential stuffing, case 12").first.wait_for()
    assert "4711" not in page.content()
