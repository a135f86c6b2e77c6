"""
What happened between two looks at a data plane, and what instances tell of it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tidegate.control import instances
from tidegate.control.live import Live, Point, RuleCount, Shard, SinkState, TopKey
from tidegate.control.snapshot import Snapshot, percentile

if TYPE_CHECKING:
    from tests.control.telling import Told
    from tidegate.control.database import Database
else:
    from telling import Told

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def look(told: Told) -> Snapshot:
    """
    A look at a data plane.
    """
    return Snapshot.from_json(told.snapshot())


@pytest.mark.parametrize(
    ("up_to", "count", "share", "expected"),
    [
        pytest.param([100, 100, 100], 100, 0.5, 5.0, id="half-of-the-first-bucket"),
        pytest.param([0, 100, 100], 100, 0.5, 55.0, id="half-of-the-second"),
        pytest.param([50, 100, 100], 100, 0.99, 98.2, id="near-its-end"),
        pytest.param([0, 0, 0], 10, 0.5, 1000.0, id="longer-than-the-last-bound"),
        pytest.param([0, 0, 0], 0, 0.5, None, id="no-decisions"),
    ],
)
def test_percentiles_are_those_between_two_looks(up_to: list[int], count: int, share: float, expected: float | None) -> None:
    """They come from differences of the histogram, spread evenly within a bucket."""
    before = Told(up_to=[7, 8, 9], count=10)
    after = Told(up_to=[7 + up_to[0], 8 + up_to[1], 9 + up_to[2]], count=10 + count)

    assert expected == percentile(share, look(before), look(after))


def test_a_history_tells_seconds_and_the_last_minute() -> None:
    """Points are differences; sums by rule and reason are of one minute."""
    told, history = Told(rules={"strict": [5, 0, 0]}, allowed=5), instances.History()
    assert {"strict": RuleCount(5, 0, 0)} == history.take_in(look(told))
    for _ in range(130):
        told.at += 1
        told.allowed += 3
        told.denied += 1
        told.rules["strict"] = [told.allowed, told.denied, 0]
        told.degraded["timeout"] = told.denied
        history.take_in(look(told))
    live = history.live(dropped=4)

    assert 120 == len(live.points)
    assert Point(int(told.at), 3, 1, 0, 1) == live.points[-1]
    assert {"strict": RuleCount(180, 60, 0)} == live.rules
    assert {"timeout": 60} == live.degraded
    assert (Shard("s1", "open", is_up=False),) == live.shards
    assert 4 == live.events_dropped
    assert live == Live.from_json(live.to_json())


def test_instances_report_and_are_forgotten(database: Database) -> None:
    """One row each, written again and again; who is silent is gone at first, and later forgotten."""
    live = Live(points=(Point(1, 2, 3),), sinks=(SinkState("kafka", 1, 2, 3, "down"),))
    with database.session() as session:
        for number in (1, 2):
            instances.write(session, "a", look(Told(problem="bad rules")), number=number, now=NOW, live=live)
    with database.reading() as session:
        [found] = instances.find(session)

    assert ("a", 2, 3, "bad rules", NOW) == (found.name, found.number, found.generation, found.problem, found.seen_at)
    assert live == Live.from_json(found.live)
    assert (True, False) == tuple(instances.is_alive(found, NOW + timedelta(seconds=later)) for later in (1, 20))
    with database.session() as session:
        instances.prune(session, NOW + timedelta(hours=2))
        assert [] == list(instances.find(session))


def test_a_fleet_is_the_sum_of_its_instances() -> None:
    """Counts are added by second, latencies are the slowest, of a shard the worst that anybody sees."""
    one = Live(
        points=(Point(1, 1, 1, p50_us=5.0), Point(2, 1, 0)),
        rules={"a": RuleCount(1, 2, 3)},
        top=(TopKey("a", "k", 5),),
        shards=(Shard("s"),),
        keys=1,
    )
    other = Live(
        points=(Point(2, 10, 4, p50_us=9.0),),
        rules={"a": RuleCount(10, 20, 30)},
        top=(TopKey("a", "l", 7),),
        shards=(Shard("s", "open", is_up=False),),
        degraded={"timeout": 2},
    )
    for fleet in (instances.merged([one, other]), instances.merged([other, one])):
        assert (Point(1, 1, 1, p50_us=5.0), Point(2, 11, 4, p50_us=9.0)) == fleet.points
        assert {"a": RuleCount(11, 22, 33)} == fleet.rules
        assert ["l", "k"] == [key.key for key in fleet.top]
        assert (Shard("s", "open", is_up=False),) == fleet.shards
        assert ({"timeout": 2}, 1) == (fleet.degraded, fleet.keys)
    assert Live() == instances.merged([])


def test_names_fit_the_table_and_differ_by_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the name of a host is."""
    monkeypatch.setattr("socket.gethostname", lambda: "h" * 200)

    assert instances.NAME_MAX == len(instances.default_name())
