"""
People who look at a control plane: how they get in, with and without a window.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from tidegate.control import tokens
from tidegate.control.caller import Caller
from tidegate.control.roles import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

    from tidegate.control.control import Control

SCREENSHOTS = Path(__file__).parents[2] / "test-output" / "screenshots"
PATIENCE_MS = 20_000
"""How long a browser may take for anything, on a machine that is busy."""


def token_of(control: Control, role: Role, name: str) -> str:
    """
    A new token: the secret.
    """
    with control.database.session() as session:
        return tokens.create(session, Caller("tester", Role.ADMIN, "test", control.now()), name, role)[1]


@dataclass
class Site:
    """
    A control plane, and how people get in.
    """

    control: Control
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """
        Where browsers find it.
        """
        return f"http://{self.control.address}"

    def secret(self, role: Role, name: str | None = None) -> str:
        """
        The token of a role, made when it is first asked for.
        """
        name = name or f"the {role}"
        if name not in self.secrets:
            self.secrets[name] = token_of(self.control, role, name)
        return self.secrets[name]

    @contextmanager
    def client(self, role: Role | None = Role.VIEWER) -> Iterator[httpx.Client]:
        """
        A browser without a window: it keeps cookies, and follows where it is led.
        """
        with httpx.Client(base_url=self.address, headers={"accept": "text/html"}, follow_redirects=True, timeout=30) as client:
            if role is not None:
                client.post("/sign-in", data={"token": self.secret(role)})
            yield client


def sign_in(page: Page, site: Site, role: Role = Role.ADMIN, name: str | None = None) -> None:
    """
    Signs in as people do.
    """
    page.goto(f"{site.address}/sign-in")
    page.get_by_label("Token").fill(site.secret(role, name))
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Overview").wait_for()
    # Shortcuts are there with the script, which is loaded before this.
    page.wait_for_load_state()
