"""
Tokens through the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.control.conftest import Clients


def test_a_token_is_shown_once(client: Clients) -> None:
    """
    When it is made; the list never has it.
    """
    made = client.admin.post("/admin/v1/tokens", json={"name": "ci", "role": "editor"})
    listed = client.admin.get("/admin/v1/tokens")

    assert 201 == made.status_code, made.text
    secret = made.json()["token"]
    assert secret.startswith("tg_")
    assert secret not in listed.text
    assert 200 == client.with_token(secret).get("/api/v1/session").status_code
