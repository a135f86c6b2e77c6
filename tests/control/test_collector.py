"""
From a data plane to the database: what arrives, what waits while it cannot, and what is never there.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import func, select, text

from tidegate.control import collector as module
from tidegate.control import events, record
from tidegate.control.collector import Collector
from tidegate.control.database import Database
from tidegate.control.models import Instance, Recording, StoredEvent, Usage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.control.controlling import Clock, settings_for
    from tests.control.telling import Told, line

    Make = Callable[..., Collector]
else:
    from controlling import settings_for
    from telling import Told, line


@pytest.fixture
def told() -> Told:
    """
    A data plane.
    """
    return Told()


@pytest.fixture
def make(told: Told, database: Database, clock: Clock, tmp_path: Path) -> Make:
    """
    Makes collectors whose threads do not run: the test takes, looks and writes.
    """

    def make(more: dict[str, str | bool] | None = None, on: Database = database) -> Collector:
        settings = settings_for("sqlite:///unused.db", tmp_path, {"events.instance": "a", **(more or {})})
        return Collector(told, on, settings, clock, lambda: 42)

    return make


def recorded(**said: Any) -> dict[str, Any]:  # noqa: ANN401  # parts of an event
    """
    An allowed request that is recorded, and told of only then.
    """
    return line(allowed=True, weight=0, recording={"weight": 8, "attributes": {"path": "/a", "client": "#1"}}, **said)


def test_everything_has_its_table(make: Make, told: Told, database: Database) -> None:
    """Events, recordings, use by rule and by key, and the instance itself."""
    collector = make()
    told.waiting = [line(), line(allowed=True, weight=4), recorded()]
    told.allowed, told.denied, told.rules = 4, 1, {"strict": [4, 1, 0]}
    collector.take()
    collector.look()
    for _ in range(module.USAGE_EVERY):
        collector.write()
    with database.reading() as session:
        assert 2 == session.scalar(select(func.count()).select_from(StoredEvent))
        [recording] = session.scalars(select(Recording)).all()
        [instance] = session.scalars(select(Instance)).all()
        use = {row.digest: (row.allowed, row.denied) for row in session.scalars(select(Usage))}

    assert ({"path": "/a", "client": "#1"}, 8, True) == (recording.attributes, recording.weight, recording.allowed)
    assert ("a", 42, 3) == (instance.name, instance.number, instance.generation)
    assert {"": (4, 1), "d" * 32: (4, 1)} == use


def test_events_are_found_by_what_they_say(make: Make, told: Told, database: Database) -> None:
    """Filters, the newest first, page by page; a filter is a value and never a statement."""
    collector = make()
    told.waiting = [line(rule=f"r{number % 2}", path=f"/{number}", allowed=number == 3, at=1_000_000.0 + number) for number in range(6)]
    collector.take()
    collector.write()
    with database.reading() as session:

        def paths(wanted: events.Filter, **options: Any) -> list[str]:  # noqa: ANN401  # options of `find`
            return [event.endpoint for event in events.find(session, wanted, **options)]

        everything = events.Filter()
        assert [f"GET /{number}" for number in (5, 4, 3, 2, 1, 0)] == paths(everything)
        assert ["GET /5", "GET /3", "GET /1"] == paths(events.Filter(rule_id="r1"))
        assert ["GET /3"] == paths(events.Filter(is_allowed=True))
        assert ["GET /4"] == paths(events.Filter(endpoint="GET /4"))
        assert 6 == len(paths(events.Filter(endpoint="GET /*")))
        assert [] == paths(events.Filter(endpoint="GET %*"))
        assert [] == paths(events.Filter(rule_id="r1' OR '1'='1"))
        [_, second] = events.find(session, everything, limit=2)
        assert ["GET /3", "GET /2"] == paths(everything, before=second.event_id, limit=2)
        assert ["GET /1", "GET /0"] == paths(events.Filter(until=second.at - timedelta(seconds=2)))


def test_what_the_database_keeps_is_bounded(make: Make, told: Told, database: Database, clock: Clock) -> None:
    """The last events, and recordings of a while."""
    collector = make({"events.recent": "3", "events.keep_recordings": "60s"})
    told.waiting = [line(at=clock().timestamp() + number) for number in range(10)]
    told.waiting += [recorded(at=clock().timestamp() - 300), recorded(at=clock().timestamp())]
    collector.take()
    for _ in range(module.PRUNE_EVERY):
        collector.write()
    with database.reading() as session:
        assert 3 == session.scalar(select(func.count()).select_from(StoredEvent))
        assert 1 == len(record.between(session, clock() - timedelta(hours=1), clock() + timedelta(hours=1)))


def test_a_flood_of_events_is_counted_but_not_kept(make: Make, told: Told, database: Database) -> None:
    """The database takes some of each second, and the use of keys counts all."""
    collector = make()
    told.waiting = [line() for _ in range(3 * module.TAKE_MAX)]
    collector.take()
    collector.write(is_last=True)
    with database.reading() as session:
        assert module.EVENTS_A_WRITE == session.scalar(select(func.count()).select_from(StoredEvent))
        assert 3 * module.TAKE_MAX == session.scalar(select(func.sum(Usage.denied)))


def test_a_database_that_is_down_loses_no_count(make: Make, told: Told, database: Database) -> None:
    """What was counted meanwhile is written when it is back, once."""
    collector = make()
    with database.session() as session:
        for table in ("usage", "recordings", "events", "instances"):
            session.execute(text(f"ALTER TABLE {table} RENAME TO away_{table}"))
    for number in range(1, 11):
        told.waiting = [line(), recorded()]
        told.denied, told.rules = number, {"strict": [0, number, 0]}
        collector.take()
        collector.look()
        collector.write()
    with database.session() as session:
        for table in ("usage", "recordings", "events", "instances"):
            session.execute(text(f"ALTER TABLE away_{table} RENAME TO {table}"))
    collector.write(is_last=True)
    with database.reading() as session:
        use = {row.digest: row.denied for row in session.scalars(select(Usage))}
        recordings = session.scalar(select(func.count()).select_from(Recording))

    assert ({"": 10, "d" * 32: 10}, 10) == (use, recordings)


def test_a_database_that_never_was_hurts_nobody(make: Make, told: Told, tmp_path: Path) -> None:
    """Files get events without one, and an end is an end."""
    nowhere = Database(f"sqlite:///{tmp_path}/no/such/folder/t.db")
    collector = make({"events.file": str(tmp_path / "e.jsonl")}, on=nowhere)
    collector.start()
    told.waiting = [line()]
    collector.stop()
    nowhere.close()

    assert 1 == len((tmp_path / "e.jsonl").read_text(encoding="utf-8").splitlines())


def test_recordings_that_wait_are_bounded_and_the_rest_is_counted(
    make: Make, told: Told, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that is slow does not fill the memory."""
    monkeypatch.setattr(module, "RECORDINGS_MAX", 5)
    collector = make()
    told.waiting = [recorded() for _ in range(12)]
    collector.take()
    collector.look()
    collector.write()
    with database.reading() as session:
        assert 5 == session.scalar(select(func.count()).select_from(Recording))
        assert 7 == session.scalars(select(Instance)).one().live["events_dropped"]


def test_an_instance_that_ends_in_peace_leaves(make: Make, told: Told, database: Database) -> None:
    """Nobody is shown as gone who was stopped."""
    collector = make()
    collector.look()
    collector.write()
    collector.start()
    collector.stop()
    with database.reading() as session:
        assert [] == session.scalars(select(Instance)).all()
