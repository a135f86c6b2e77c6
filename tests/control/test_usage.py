"""
What a key has used, seen beside a service: a change is in force by itself, and people see what it does.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tidegate.control.keys import Keys
from tidegate.control.models import Usage
from tidegate.control.roles import Role
from tidegate.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.control.controlling import settings_for, token_of
else:
    from controlling import settings_for, token_of

RULES = """
version: 1
identity: [{header: x-api-key}]
rules:
  - {name: per_key, match: {path: /orders}, per: client, quotas: 5/day}
  - {name: everybody, per: global, quotas: 1000/day}
"""
WITHIN = 30.0


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """
    A service with its control plane, on free ports.
    """
    (tmp_path / "rules.yaml").write_text(RULES, encoding="utf-8")
    more = {"http.listen": "127.0.0.1:0", "grpc.listen": "off", "admin.cache": "off"}
    with Service(settings_for(f"sqlite:///{tmp_path}/tidegate.db", tmp_path, more)) as service:
        yield service


@pytest.fixture
def admin(service: Service) -> Iterator[httpx.Client]:
    """
    An editor of it.
    """
    assert service.control is not None
    token = token_of(service.control, Role.EDITOR)
    with httpx.Client(base_url=f"http://{service.addresses['admin']}", headers={"authorization": f"Bearer {token}"}, timeout=30) as client:
        yield client


def check(service: Service, key: str) -> Any:  # noqa: ANN401  # JSON
    """
    What the service says to a request with a key.
    """
    body = {"client_id": key, "endpoint": "/orders", "method": "GET"}
    return httpx.post(f"http://{service.addresses['http']}/api/v1/rate-limit/check", json=body, timeout=30).json()


def test_what_is_changed_is_in_force_and_seen(service: Service, admin: httpx.Client, eventually: Callable[..., None]) -> None:
    """
    Quota, use, reset, block and unblock, by real requests.
    """
    assert check(service, "k")["limit"] == 5
    admin.put("/admin/v1/quotas/k", json={"quotas": {"per_key": "50/day"}}).raise_for_status()
    eventually(lambda: check(service, "k")["limit"] == 50, within=WITHIN)

    now = admin.get("/admin/v1/usage/k").raise_for_status().json()["now"]

    used = {one["rule"]: one for one in now}
    assert {"per_key", "everybody"} == set(used)
    assert (50, True, 50) == (
        used["per_key"]["limit"],
        used["per_key"]["used"] >= 2,
        used["per_key"]["used"] + used["per_key"]["remaining"],
    )
    assert admin.post("/admin/v1/usage/k/reset", json={"reason": "a mistake of ours"}).raise_for_status().json()["was_used"]
    after = {one["rule"]: one["used"] for one in admin.get("/admin/v1/usage/k").json()["now"]}
    assert (0, used["everybody"]["used"]) == (after["per_key"], after["everybody"])

    admin.put("/admin/v1/blocks/k", json={"seconds": 3600, "reason": "abuse"}).raise_for_status()
    eventually(lambda: check(service, "k")["rule"] == "blocked", within=WITHIN)
    denied = check(service, "k")
    assert (False, True) == (denied["allowed"], 3500 < denied["retry_after"] <= 3600)
    assert 'rule="blocked"' in httpx.get(f"http://{service.addresses['http']}/metrics").text
    admin.delete("/admin/v1/blocks/k", params={"reason": "all is well"}).raise_for_status()
    eventually(lambda: check(service, "k")["allowed"], within=WITHIN)


def test_by_its_digest_a_key_has_no_counters(service: Service, admin: httpx.Client) -> None:
    """
    And it says so.
    """
    assert service.control is not None
    digest = Keys.of(service.control.settings).digest("k")

    found = admin.get(f"/admin/v1/usage/digest:{digest}").raise_for_status().json()

    assert (None, True) == (found["now"], "by the key itself" in found["why_unknown"])
    assert admin.post(f"/admin/v1/usage/digest:{digest}/reset", json={"reason": "x"}).status_code == 422


def test_over_time_minutes_of_all_instances_are_added_up(service: Service, admin: httpx.Client) -> None:
    """
    Rule by rule, and only of that key.
    """
    assert service.control is not None
    digest, minute = Keys.of(service.control.settings).digest("k"), datetime(2026, 11, 16, 12, tzinfo=UTC)
    with service.control.database.session() as session:
        for instance, who in (("a", digest), ("b", digest), ("a", "")):
            session.add(Usage(minute=minute, rule_id="per_key", digest=who, instance=instance, allowed=2, denied=1, shadow_denied=0))

    asked = {"since": minute.isoformat(), "until": (minute + timedelta(minutes=1)).isoformat()}
    points = admin.get("/admin/v1/usage/k", params=asked).raise_for_status().json()["over_time"]

    assert [("per_key", 4, 2, 0)] == [(point["rule"], point["allowed"], point["denied"], point["shadow_denied"]) for point in points]
    assert admin.get("/admin/v1/usage/k", params={"since": "2020-01-01T00:00:00Z"}).status_code == 422
