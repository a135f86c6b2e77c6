"""
The audit log: complete, in pages, and filtered by what people ask for.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.control.controlling import Clients, Clock


def test_a_change_says_who_what_when_why_and_from_where(client: Clients, clock: Clock) -> None:
    """
    With what it was and what it is now.
    """
    number = client.admin.post("/admin/v1/tokens", json={"name": "<script>alert(1)</script>", "role": "viewer"}).json()["id"]
    client.admin.delete(f"/admin/v1/tokens/{number}", params={"reason": "=HYPERLINK(1)"})
    entry = client.viewer.get("/admin/v1/audit", params={"limit": 1}).json()["entries"][0]

    assert ("the admin", "127.0.0.1", "token.revoke") == (entry["actor"], entry["address"], entry["action"])
    assert "token:<script>alert(1)</script>" == entry["subject"]
    assert "=HYPERLINK(1)" == entry["reason"]
    assert entry["before"]["revoked_at"] is None
    assert clock.at.isoformat() == entry["after"]["revoked_at"]


def test_pages_follow_each_other_without_a_gap(client: Clients) -> None:
    """
    Newest first, and the last one says so.
    """
    for number in range(5):
        client.admin.post("/admin/v1/tokens", json={"name": f"n{number}", "role": "viewer"})
    whole = [entry["id"] for entry in client.viewer.get("/admin/v1/audit").json()["entries"]]
    paged: list[int] = []
    before = None
    while True:
        page = client.viewer.get("/admin/v1/audit", params={"limit": 2, **({"before": before} if before else {})}).json()
        paged += [entry["id"] for entry in page["entries"]]
        if (before := page["next"]) is None:
            break

    assert whole == paged == sorted(whole, reverse=True)


def test_filters_ask_for_what_they_say(client: Clients, clock: Clock) -> None:
    """
    What looks like SQL or a pattern is only a text.
    """
    clock.advance(hours=1)
    number = client.admin.post("/admin/v1/tokens", json={"name": "a_b%", "role": "viewer"}).json()["id"]
    client.admin.delete(f"/admin/v1/tokens/{number}")
    since = (clock.at - timedelta(minutes=1)).isoformat()

    def found(**wanted: str) -> int:
        return len(client.viewer.get("/admin/v1/audit", params=wanted).json()["entries"])

    assert 2 == found(subject="token:a_b%")
    assert 0 == found(subject="token:a%")
    assert 0 == found(subject="' OR 1=1 --")
    assert 1 == found(action="token.revoke")
    assert 2 == found(action="token.", since=since)
    assert 0 == found(action="token", since=since)
    assert 2 == found(actor="the admin")
    assert 0 == found(since=(clock.at + timedelta(seconds=1)).isoformat())
    assert 0 == found(actor="the admin", until=since)


def test_wrong_filters_are_refused(client: Clients) -> None:
    """
    A time without a zone is nobody's time.
    """
    wrong = [
        {"since": "2026-01-01T00:00:00"},
        {"limit": "0"},
        {"limit": "1001"},
        {"before": "-1"},
        {"before": str(2**80)},
        {"actor": "x" * 301},
    ]

    assert [422] * len(wrong) == [client.viewer.get("/admin/v1/audit", params=one).status_code for one in wrong]
