"""
From a call of the API to the answer of another instance: real services, real ports.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from tidegate.control.models import Block
from tidegate.service import load
from tidegate.service.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Eventually
    from tests.control.controlling import bring_back, take_away
else:
    from controlling import bring_back, take_away

RULES = "/api/v1/rate-limit/rules"
CHECK = "/api/v1/rate-limit/check"


@contextmanager
def instance(folder: Path, address: str) -> Iterator[Service]:
    """
    A service with a control plane, on free ports.
    """
    folder.mkdir(exist_ok=True)
    (folder / "rules.yaml").write_text(
        "version: 1\nidentity: [{header: x-api-key}]\nrules: [{name: all, per: global, quotas: 9999/minute}]\n"
    )
    flags: dict[str, str | bool] = {
        "rules": str(folder / "rules.yaml"),
        "http.listen": "127.0.0.1:0",
        "grpc.listen": "off",
        "admin.listen": "127.0.0.1:0",
        "admin.database": address,
        "admin.cache": str(folder / "kept"),
    }
    with Service(load(environment={}, flags=flags)) as service:
        yield service


def ask(service: Service, client: str = "someone") -> dict[str, Any]:
    """
    Asks a service for a decision.
    """
    body = {"client_id": client, "method": "POST", "endpoint": "/orders/1"}
    found: dict[str, Any] = httpx.post(f"http://{service.addresses['http']}{CHECK}", json=body, timeout=30).json()
    return found


def reasons(service: Service) -> list[str]:
    """
    Why a service is not wholly ready.
    """
    return [reason["code"] for reason in httpx.get(f"http://{service.addresses['http']}/readyz", timeout=30).json()["reasons"]]


def admin(service: Service, stack: ExitStack) -> httpx.Client:
    """
    Who may do everything, with the token of the first start.
    """
    assert service.control is not None
    headers = {"authorization": f"Bearer {service.control.take_first_token()}"}
    return stack.enter_context(httpx.Client(base_url=f"http://{service.addresses['admin']}", headers=headers, timeout=30))


def test_a_rule_made_on_one_instance_is_enforced_by_the_other(address: str, tmp_path: Path, eventually: Eventually) -> None:
    """And what is removed is enforced by neither."""
    with ExitStack() as stack:
        one, two = (stack.enter_context(instance(tmp_path / name, address)) for name in ("one", "two"))
        client = admin(one, stack)
        assert ask(two)["allowed"]
        body = {"rule_id": "no_orders", "endpoint_pattern": "/orders/**", "limit": 0, "window_seconds": 60, "scope": "global"}
        assert 201 == client.post(RULES, json=body).status_code

        for service in (one, two):
            eventually(lambda: not ask(service)["allowed"])  # noqa: B023  # called at once
            assert "no_orders" == ask(service)["rule"]

        assert 204 == client.delete(f"{RULES}/no_orders", headers={"If-Match": "*"}).status_code
        eventually(lambda: ask(one)["allowed"] and ask(two)["allowed"])


def test_members_follow_like_rules(address: str, tmp_path: Path, eventually: Eventually) -> None:
    """A key that is blocked in the database is refused by every instance."""
    with ExitStack() as stack:
        one, two = (stack.enter_context(instance(tmp_path / name, address)) for name in ("one", "two"))
        assert one.control is not None
        digest = one.limiter.member_digest({"headers": {"x-api-key": "sk_live_42"}})
        assert digest is not None
        with one.control.database.session() as session:
            session.add(Block(digest=digest, shown="sk***", until=None, reason="", at=one.control.now(), by="tester"))
            one.control.database.changed(session)

        # Digests are made under the secret of a limiter's own, so that only the first one knows this key.
        eventually(lambda: not one.limiter.allow({"headers": {"x-api-key": "sk_live_42"}}))
        assert one.limiter.allow({"headers": {"x-api-key": "sk_live_43"}})
        assert two.limiter.allow({"headers": {"x-api-key": "sk_live_43"}})


def test_a_database_that_goes_away_is_told_and_stops_no_decision(tmp_path: Path, eventually: Eventually) -> None:
    """Also not at a start: an instance that comes meanwhile has the rules that were kept, and takes up the rest when it can."""
    database = tmp_path / "tidegate.db"
    with ExitStack() as stack:
        one = stack.enter_context(instance(tmp_path / "one", f"sqlite:///{database}"))
        client = admin(one, stack)
        body = {"rule_id": "no_orders", "endpoint_pattern": "/orders/**", "limit": 0, "window_seconds": 60, "scope": "global"}
        client.post(RULES, json=body)
        eventually(lambda: not ask(one)["allowed"])
        eventually(lambda: (tmp_path / "one" / "kept").exists() and "no_orders" in (tmp_path / "one" / "kept").read_text())
    take_away(database)
    with instance(tmp_path / "one", f"sqlite:///{database}") as again:
        assert not ask(again)["allowed"]
        assert ["control_plane_failing"] == reasons(again)

        bring_back(database)
        eventually(lambda: [] == reasons(again))
        assert not ask(again)["allowed"]
