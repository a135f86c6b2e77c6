"""
A control plane with much to show, one beside a real service, and a real browser.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tidegate.control.control import Control
from tidegate.service import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from tests.chromium import Missing, find
    from tests.dashboard.busy import FILES, fill
    from tests.dashboard.visiting import PATIENCE_MS, Site
else:
    from busy import FILES, fill
    from chromium import Missing, find
    from visiting import PATIENCE_MS, Site

NOW = datetime(2026, 11, 16, 21, 40, 5, tzinfo=UTC)


@pytest.fixture(scope="session")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """
    A control plane on its own, with all tables full. Its clock stands still; tests only look.
    """
    folder = tmp_path_factory.mktemp("busy")
    (folder / "rules.yaml").write_text(FILES, encoding="utf-8")
    flags: dict[str, str | bool] = {
        "rules": str(folder / "rules.yaml"),
        "watch": False,
        "admin.listen": "127.0.0.1:0",
        "admin.database": f"sqlite:///{folder}/tidegate.db",
        "admin.cache": str(folder / "tidegate.cache"),
        "admin.approval": True,
    }
    with Control(load(environment={}, flags=flags), now=lambda: NOW) as control:
        with control.database.session() as session:
            fill(session, NOW)
            control.database.changed(session)
        yield Site(control)


# Playwright runs an event loop on this thread for as long as it is there, and no other can run beside it: it ends with its file of tests.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """
    A real browser without a window.
    """
    try:
        found = find()
    except Missing as missing:
        pytest.skip(str(missing))
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        # Without its sandbox it also runs as root and in containers; it sees nothing but our pages.
        browser = playwright.chromium.launch(executable_path=found.path, env={**os.environ, **found.environment}, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def foreign() -> list[str]:
    """
    What a browser asked of other hosts.
    """
    return []


@pytest.fixture
def page(chromium: Browser, foreign: list[str]) -> Iterator[Page]:
    """
    A new window. Whatever fails in it, fails the test: scripts, refused content, requests to other hosts.
    """
    context = chromium.new_context(viewport={"width": 1360, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    failed: list[str] = []
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.on("console", lambda message: failed.append(message.text) if "Content Security Policy" in message.text else None)
    page.on("request", lambda request: foreign.append(request.url) if not request.url.startswith(("http://127.0.0.1:", "data:")) else None)
    page.on("dialog", lambda dialog: dialog.accept())
    yield page
    context.close()

    assert failed == []
    assert foreign == []
