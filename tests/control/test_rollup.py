"""
Decisions by the minute.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from tidegate.control import rollup
from tidegate.control.events import Event
from tidegate.control.live import RuleCount
from tidegate.control.models import Usage
from tidegate.control.rollup import Count, Rollup

if TYPE_CHECKING:
    from tests.control.telling import line
    from tidegate.control.database import Database
else:
    from telling import line

KEEP: dict[str, Any] = {"keep_minutes": timedelta(days=1), "keep_hours": timedelta(days=30), "keys": 10}
AT = 1_000_020.5


def event(**said: Any) -> Event:  # noqa: ANN401  # parts of an event
    """
    An event.
    """
    return Event.from_json(json.dumps(line(**said)).encode())


def rows(database: Database) -> list[tuple[object, ...]]:
    """
    What the table holds, without the instance.
    """
    with database.reading() as session:
        found = session.scalars(select(Usage).order_by(Usage.minute, Usage.rule_id, Usage.digest)).all()
    return [(row.minute.timestamp(), row.rule_id, row.digest[:1], row.allowed, row.denied, row.shadow_denied) for row in found]


def test_rules_and_keys_are_added_up_by_the_minute(database: Database) -> None:
    """Rows of all keys come from counters, those of single keys from events, and a minute is written in several parts."""
    summed = Rollup(keys=10)
    summed.note_rules(AT, {"strict": RuleCount(10, 2, 0), "idle": RuleCount()})
    summed.note_events([event(), event(allowed=True, weight=4, tier="pro"), event(at=AT + 60, shadowed=["tried"])])
    with database.session() as session:
        rollup.write(session, "a", summed.take())
    summed.note_rules(AT + 1, {"strict": RuleCount(1, 1, 1)})
    with database.session() as session:
        rollup.write(session, "a", summed.take())

    minute = 1_000_020.0
    assert [
        (minute, "strict", "", 11, 3, 1),
        (minute, "strict", "d", 4, 1, 0),
        (minute + 60, "strict", "d", 0, 1, 0),
        (minute + 60, "tried", "d", 0, 0, 1),
    ] == rows(database)


def test_keys_are_bounded_and_what_is_left_out_is_counted() -> None:
    """However many keys there are in a minute, so many are kept; those that are known go on."""
    summed = Rollup(keys=2)
    summed.note_events([event(digest=f"{number:032x}") for number in range(5)])
    summed.note_events([event(digest=f"{0:032x}")])

    counts = summed.take()
    assert (2, 3) == (len(counts), summed.dropped)
    assert 2 == counts[1_000_020, "strict", f"{0:032x}"].denied


def test_what_waits_for_a_database_is_bounded() -> None:
    """A database that is away for days does not fill the memory."""
    summed = Rollup(keys=2)
    for minute in range(3 * rollup.MINUTES_MAX):
        summed.note_rules(AT + 60 * minute, {"strict": RuleCount(1, 0, 0)})

    assert len(summed.take()) <= rollup.MINUTES_MAX + 2


def test_what_could_not_be_written_is_not_lost() -> None:
    """It is put back, and added to what has come meanwhile."""
    summed = Rollup(keys=2)
    summed.note_rules(AT, {"strict": RuleCount(1, 2, 3)})
    taken = summed.take()
    summed.note_rules(AT, {"strict": RuleCount(10, 20, 30)})
    summed.put_back(taken)

    assert {(1_000_020, "strict", ""): Count(11, 22, 33)} == summed.take()


def test_old_minutes_become_hours_and_old_hours_are_forgotten(database: Database) -> None:
    """Sums stay the same, instances are no longer told apart, and of keys those stay that asked most."""
    start = datetime(2026, 1, 10, 8, tzinfo=UTC)
    counts: rollup.Counts = {}
    for minute in range(180):
        place = int(start.timestamp()) + 60 * minute
        counts[place, "strict", ""] = Count(10, 1, 0)
        counts[place, "strict", f"{minute:032x}"] = Count(minute, 1, 0, "pro")
    with database.session() as session:
        rollup.write(session, "a", counts)
        rollup.write(session, "b", counts)
        assert 2 == rollup.sum_up(session, start + timedelta(hours=26), **KEEP)
        assert 0 == rollup.sum_up(session, start + timedelta(hours=26), **KEEP)
    with database.reading() as session:
        hours = session.execute(select(Usage).where(Usage.instance == "", Usage.digest == "").order_by(Usage.minute)).scalars().all()
        keys = session.scalars(select(Usage.digest).where(Usage.instance == "", Usage.minute == start, Usage.digest != "")).all()
        total = session.scalar(select(func.sum(Usage.allowed)).where(Usage.digest == ""))

    assert [(start, 1200, 120), (start + timedelta(hours=1), 1200, 120)] == [(row.minute, row.allowed, row.denied) for row in hours]
    assert {f"{minute:032x}" for minute in range(50, 60)} == set(keys)
    assert 3600 == total
    with database.session() as session:
        rollup.sum_up(session, start + timedelta(days=60), **KEEP)
    assert [] == rows(database)
