"""
Slots, debts and resets by real services on a store that they share, and on one that goes away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidegate import Limiter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Eventually
    from tests.servers import Single
    from tests.service.running import ask, here
else:
    from running import ask, here
    from servers import Single

RULES = """
version: 1
rules:
  - {name: each_path, per: [client, path], quotas: [1 concurrent ttl 1m, 100/minute]}
  - {name: everybody, per: global, quotas: 50 concurrent ttl 1m}
"""
REQUEST = {"client_id": "alice", "endpoint": "/reports"}


@pytest.fixture(scope="module")
def server() -> Iterator[Single]:
    """
    A store.
    """
    with Single() as single:
        yield single


def call(address: str, name: str, body: dict[str, Any]) -> Any:  # noqa: ANN401  # whatever it answers
    """
    The answer to a call that makes sense.
    """
    answer = ask(f"http://{address}", "POST", f"/api/v1/rate-limit/{name}", body)

    assert answer.status == 200, answer.body
    return answer.json


def test_what_one_service_lent_another_renews_and_takes_back(server: Single) -> None:
    """
    They share nothing but the store.
    """
    settings = {"store": f"{server.url()}?prefix=shared", "budget": "5s"}
    with here(RULES, settings) as first, here(RULES, settings) as second:
        one, other = first.addresses["http"], second.addresses["http"]
        taken = call(one, "check", REQUEST)
        held = {**REQUEST, "lease": taken["lease"]}

        assert taken["allowed"]
        assert not call(other, "check", REQUEST)["allowed"]
        assert call(other, "check", {**REQUEST, "endpoint": "/orders"})["allowed"]
        assert call(other, "renew", held) == {"renewed": True, "degraded": False, "reason": None}
        assert call(other, "renew", {**held, "lease": "1"})["renewed"] is False
        assert call(other, "release", held) == {"released": True, "degraded": False, "reason": None}
        assert call(one, "release", held)["released"] is False
        assert call(one, "renew", held)["renewed"] is False
        assert call(one, "check", REQUEST)["allowed"]


def test_debits_and_resets_reach_the_store(server: Single) -> None:
    """
    What one service was told is known to the other.
    """
    rules = "version: 1\nrules: [{name: pairs, per: [client, path], quotas: 10/minute}]\n"
    settings = {"store": f"{server.url()}?prefix=debits", "budget": "5s"}
    with here(rules, settings) as first, here(rules, settings) as second:
        one, other = first.addresses["http"], second.addresses["http"]

        assert call(one, "debit", {**REQUEST, "cost": 12})["remaining"] == 0
        assert call(other, "check", REQUEST)["allowed"] is False
        assert call(one, "reset", REQUEST) == {"reset": True, "degraded": False, "reason": None}
        assert call(one, "reset", REQUEST)["reset"] is False
        assert call(one, "check", REQUEST)["remaining"] == 9


def test_a_store_that_is_away_is_told_and_holds_up_nobody(eventually: Eventually) -> None:
    """
    Nothing is lost yet, nothing was given back, and each call costs the budget at most once.
    """
    with Single() as server, here(RULES, {"store": server.url(), "budget": "200ms"}) as service:
        address = service.addresses["http"]
        eventually(lambda: call(address, "peek", REQUEST)["degraded"] is False)
        lease = "00000000000000000000000000000007"
        held = {**REQUEST, "lease": lease}
        eventually(lambda: call(address, "check", held)["degraded"] is False)
        server.node.freeze()

        renewed, released, reset = (call(address, name, body) for name, body in [("renew", held), ("release", held), ("reset", REQUEST)])

        assert (renewed["renewed"], released["released"], reset["reset"]) == (True, False, False)
        for answer in (renewed, released, reset):
            assert answer["degraded"] is True
            assert answer["reason"] in {"store_timeout", "store_breaker_open"}


def test_the_library_gives_back_what_a_key_of_several_attributes_took(server: Single, tmp_path: Path) -> None:
    """
    Slots and units are found again where they were taken: together with the other keys of the same client.
    """
    request = {"client": "alice", "path": "/reports"}
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\nrules: [{name: pairs, per: [client, path], quotas: [1 concurrent ttl 1m, 5/minute]}]\n")
    with Limiter.from_rules(rules, store=f"{server.url()}?prefix=library", budget=5.0) as limiter:
        for _ in range(3):
            decision = limiter.check(request)
            assert decision.allowed
            assert limiter.renew(decision)
            assert limiter.release(decision)
        decision = limiter.check(request)
        limiter.refund(decision)

        assert limiter.check(request).quotas[1].remaining == 1
