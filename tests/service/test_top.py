"""
The keys denied most, over HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.service.running import ask, here
    from tidegate.service import Service
else:
    from running import ask, here

RULES = "version: 1\nrules: [{name: strict, per: client, quotas: 1/hour}]\n"


def deny(service: Service, client: str, times: int) -> None:
    """
    Asks once more often than it is denied.
    """
    for _ in range(times + 1):
        ask(f"http://{service.addresses['http']}", "POST", "/api/v1/rate-limit/check", {"client_id": client})


def top(service: Service, query: str = "") -> Any:  # noqa: ANN401  # whatever it answers
    """
    The list.
    """
    answer = ask(f"http://{service.addresses['http']}", "GET", "/api/v1/rate-limit/top" + query)
    assert 200 == answer.status
    return answer.json


def test_the_worst_comes_first_and_masked() -> None:
    """Names of clients are not shown in full unless somebody wants that."""
    with here(RULES) as service:
        deny(service, "alice-and-more", 1)
        deny(service, "bob-and-more", 3)
        found, first = top(service), top(service, "?n=1")

    assert [("strict", "client=bob-…", 3, 0), ("strict", "client=alic…", 1, 0)] == [
        (key["rule"], key["key"], key["denied"], key["error"]) for key in found["keys"]
    ]
    assert 4 == found["denied"]
    assert found["keys"][:1] == first["keys"]


def test_it_can_be_switched_off() -> None:
    """With no counters there is a list without keys."""
    with here(RULES, {"top.size": 0}) as service:
        deny(service, "alice", 2)
        found = top(service)

    assert [] == found["keys"]


def test_keys_are_shown_in_full_if_wanted() -> None:
    """As they were sent, but for what a terminal would obey."""
    with here(RULES, {"top.keys": "plain"}) as service:
        deny(service, "al\x1b[2Jice", 1)
        found = top(service)

    assert "client=al\N{REPLACEMENT CHARACTER}[2Jice" == found["keys"][0]["key"]
