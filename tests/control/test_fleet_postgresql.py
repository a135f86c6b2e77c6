"""
Two instances of a fleet on a PostgreSQL of their own, which is stopped and started again under them.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tidegate.control.roles import Role
from tidegate.service.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Eventually, Measured
    from tests.control.controlling import own_postgresql, settings_for, start_postgresql, token_of
else:
    from controlling import own_postgresql, settings_for, start_postgresql, token_of

RULES = "/api/v1/rate-limit/rules"
WITHIN = 30.0


@pytest.fixture
def server() -> Iterator[Any]:
    """
    A PostgreSQL that the test may stop.
    """
    with own_postgresql() as server:
        yield server


@pytest.fixture
def fleet(server: Any, tmp_path: Path) -> Iterator[tuple[Service, Service]]:  # noqa: ANN401  # of a package without types
    """
    Two services, each with its control plane and its folder.
    """
    with ExitStack() as stack:
        made = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            settings = settings_for(server.get_uri(), tmp_path / name, {"admin.cache": str(tmp_path / name / "kept")})
            made.append(stack.enter_context(Service(settings)))
        yield made[0], made[1]


def editor(service: Service) -> httpx.Client:
    """
    Somebody who may change rules, at one instance.
    """
    assert service.control is not None
    headers = {"authorization": f"Bearer {token_of(service.control, Role.EDITOR)}"}
    return httpx.Client(base_url=f"http://{service.addresses['admin']}", headers=headers, timeout=30)


def put(client: httpx.Client, name: str) -> int:
    """
    Makes a rule that denies everything below its name.
    """
    body = {"rule_id": name, "endpoint_pattern": f"/{name}/**", "limit": 0, "window_seconds": 60, "scope": "global"}
    return client.post(RULES, json=body).status_code


def is_denied(service: Service, name: str) -> bool:
    """
    Whether a real request is denied by a rule.
    """
    body = {"client_id": "someone", "method": "POST", "endpoint": f"/{name}/1"}
    answer = httpx.post(f"http://{service.addresses['http']}/api/v1/rate-limit/check", json=body, timeout=30).json()
    return bool(answer["rule"] == name)


def reasons(service: Service) -> list[str]:
    """
    What readiness says is wrong with the control plane; also while it is, the service is ready.
    """
    answer = httpx.get(f"http://{service.addresses['http']}/readyz", timeout=30)
    assert 200 == answer.status_code
    return [reason["code"] for reason in answer.json()["reasons"]]


def test_every_instance_has_a_change_soon(fleet: tuple[Service, Service], eventually: Eventually, measured: Measured) -> None:
    """Two seconds are promised. How long it took is kept, and only a machine that stands still fails it."""
    with editor(fleet[0]) as client:
        for name in ("first", "second", "third"):
            assert 201 == put(client, name)
            took = eventually(lambda: all(is_denied(service, name) for service in fleet), WITHIN)  # noqa: B023  # called at once
            measured(f"{name} change, seconds", took)

            assert took < 10.0


def test_a_server_that_stops_and_starts_again_stops_no_decision(
    server: Any,  # noqa: ANN401  # of a package without types
    fleet: tuple[Service, Service],
    eventually: Eventually,
) -> None:
    """The last good rules decide, health says why nothing changes, changes are refused, and all of it heals by itself."""
    with editor(fleet[0]) as client:
        assert 201 == put(client, "orders")
        eventually(lambda: all(is_denied(service, "orders") for service in fleet), WITHIN)

        server.stop()
        for service in fleet:
            eventually(lambda: ["control_plane_failing"] == reasons(service), WITHIN)  # noqa: B023  # called at once
            assert is_denied(service, "orders")
            assert not is_denied(service, "more")
        assert 503 == put(client, "more")

        start_postgresql(server)
        for service in fleet:
            eventually(lambda: [] == reasons(service), WITHIN)  # noqa: B023  # as above
        assert 201 == put(client, "more")
        eventually(lambda: all(is_denied(service, "more") and is_denied(service, "orders") for service in fleet), WITHIN)
