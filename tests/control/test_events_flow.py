"""
Real decisions on their way from a real service to the database, a file and the API.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from sqlalchemy import func, select

from tidegate.control.database import Database
from tidegate.control.models import Recording, StoredEvent, Usage
from tidegate.service.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Eventually = Callable[..., None]

    from tests.control.controlling import Clients, settings_for
else:
    from controlling import Clients, settings_for

KEY = "customer-with-a-secret-key"
CHECK = "/api/v1/rate-limit/check"


@contextmanager
def serving(address: str, tmp_path: Path, more: dict[str, str | bool] | None = None) -> Iterator[Service]:
    """
    A service with a control plane beside it, and a rule of three for each client.
    """
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "version: 1\nidentity: [{header: x-api-key}]\nrules:\n"
        "  - {name: strict, per: client, quotas: 3/hour}\n  - {name: tried, per: client, quotas: 1/hour, mode: shadow}\n",
        encoding="utf-8",
    )
    off = {"http.listen": "127.0.0.1:0", "grpc.listen": "off", "workers": "2", "events.instance": "a"}
    with Service(settings_for(address, tmp_path, {**off, **(more or {})})) as service:
        yield service


def ask(service: Service, times: int, key: str = KEY) -> int:
    """
    Asks as a customer; how often it was denied.
    """
    question = {"method": "GET", "endpoint": f"/a?secret={key}", "headers": {"x-api-key": key}}
    with httpx.Client(base_url=f"http://{service.addresses['http']}", timeout=30) as client:
        return sum(not client.post(CHECK, json=question).json()["allowed"] for _ in range(times))


def test_totals_are_exact_under_load(address: str, tmp_path: Path) -> None:
    """From several threads: counters, events in a file, and use by rule and key say the same."""
    file = tmp_path / "events.jsonl"
    denied = []
    with serving(address, tmp_path, {"events.file": str(file)}) as service:
        threads = [threading.Thread(target=lambda: denied.append(ask(service, 100))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    database = Database(address)
    with database.reading() as session:
        sums = func.sum(Usage.allowed), func.sum(Usage.denied), func.sum(Usage.shadow_denied)
        of_all = session.execute(select(Usage.rule_id, *sums).where(Usage.digest == "").group_by(Usage.rule_id)).all()
        of_keys = session.execute(select(Usage.rule_id, *sums).where(Usage.digest != "").group_by(Usage.rule_id)).all()
    database.close()

    assert 397 == sum(denied)
    assert [False] * 397 == [row["allowed"] for row in rows if not row["allowed"]]
    assert 400 == len({row["event_id"] for row in rows})
    assert {("strict", 3, 397, 0), ("tried", 1, 0, 399)} == {tuple(row) for row in of_all}
    assert {("strict", 3, 397, 0), ("tried", 0, 0, 399)} == {tuple(row) for row in of_keys}


def test_no_key_is_anywhere(tmp_path: Path, capfd: pytest.CaptureFixture[str], eventually: Eventually) -> None:
    """Not in the database, its journal, the file of events, or what is logged; and neither is a query."""
    with serving(f"sqlite:///{tmp_path}/t.db", tmp_path, {"events.file": str(tmp_path / "events.jsonl"), "log.level": "debug"}) as service:
        ask(service, 5)
        assert service.control is not None
        collector = service.control.collector
        assert collector is not None
        database = service.control.database

        def are_all_kept() -> bool:
            # Its own thread does the same, and may have what is looked for in its hands.
            collector.take()
            collector.look()
            collector.write()
            with database.reading() as session:
                counts = [session.scalar(select(func.count()).select_from(table)) for table in (StoredEvent, Recording, Usage)]
            file = tmp_path / "events.jsonl"
            return all(counts) and file.exists() and file.stat().st_size > 0

        eventually(are_all_kept, within=30)
        held = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file() and path.name != "rules.yaml"}

    assert {"t.db", "t.db-wal", "events.jsonl"} <= set(held)
    assert [] == [name for name, content in held.items() if KEY.encode() in content]
    assert KEY not in "".join(capfd.readouterr())


def test_the_api_tells_what_happened(address: str, tmp_path: Path, eventually: Eventually) -> None:
    """Events with filters, the last two minutes, and who reports."""
    with serving(address, tmp_path) as service:
        ask(service, 5)
        ask(service, 1, "another-key")
        assert service.control is not None
        with Clients.of_control(service.control) as client:

            def told(**wanted: Any) -> list[dict[str, Any]]:  # noqa: ANN401  # filters
                found: list[dict[str, Any]] = client.viewer.get("/admin/v1/events", params=wanted).json()["events"]
                return found

            eventually(lambda: len(told()) == 6, within=30)
            [last, *_] = denied = told(allowed="false")
            assert ("cust…", "GET /a", "strict", 3, 3) == tuple(
                last[name] for name in ("client_id", "endpoint", "rule_id", "current_count", "limit_count")
            )
            assert (2, 5, 1) == (len(denied), len(told(digest=last["digest"])), len(told(client_id="anot…")))
            assert [] == told(rule_id="no such rule")
            page = client.viewer.get("/admin/v1/events", params={"limit": 4}).json()
            rest = client.viewer.get("/admin/v1/events", params={"limit": 4, "before": page["next"]}).json()
            assert (4, 2, None) == (len(page["events"]), len(rest["events"]), rest["next"])

            def live() -> dict[str, Any]:
                said: dict[str, Any] = client.viewer.get("/admin/v1/live").json()
                return said

            eventually(lambda: live()["rules"].get("strict") == {"allowed": 4, "denied": 2, "shadow_denied": 0}, within=30)
            assert ["strict"] == [key["rule"] for key in live()["top"]]
            [instance] = client.viewer.get("/admin/v1/instances").json()
            assert ("a", True, None) == tuple(instance[name] for name in ("name", "is_alive", "problem"))


@pytest.mark.parametrize("path", ["/admin/v1/events", "/admin/v1/live", "/admin/v1/instances"])
def test_who_has_no_token_is_told_nothing(client: Clients, path: str) -> None:
    """What customers do is nobody's business."""
    assert (401, 200) == (client.nobody.get(path).status_code, client.viewer.get(path).status_code)


@pytest.mark.parametrize(
    "wanted", ["limit=0", "limit=1001", "digest=x", "before=%27", "since=yesterday", "allowed=perhaps", "rule_id=" + "a" * 301]
)
def test_wrong_filters_are_refused(client: Clients, wanted: str) -> None:
    """With what is wrong."""
    assert 422 == client.viewer.get(f"/admin/v1/events?{wanted}").status_code


def test_a_service_without_a_control_plane_keeps_no_events(tmp_path: Path) -> None:
    """Nothing waits for somebody who does not come."""
    settings = settings_for("sqlite:///x.db", tmp_path, {"http.listen": "127.0.0.1:0", "grpc.listen": "off"})
    off = settings_for("sqlite:///x.db", tmp_path, {"http.listen": "127.0.0.1:0", "grpc.listen": "off", "events.buffer": "0"})
    with_control, without = Service(settings), Service(off)
    try:
        assert json.loads(with_control.document())["events"] is not None
        assert json.loads(without.document())["events"] is None
        assert b"" == without.server.take_events(10)
        assert json.loads(without.server.snapshot())["events"] is None
    finally:
        with_control.stop()
        without.stop()
