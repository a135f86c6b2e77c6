"""
The data planes that share a database: each writes one row every second, and everybody reads those of all.
"""

from __future__ import annotations

import os
import socket
from collections import Counter, deque
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite

from tidegate import __version__
from tidegate.control.live import POINTS_MAX, Live, Point, RuleCount
from tidegate.control.models import Instance
from tidegate.control.snapshot import between, percentile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy.orm import Session

    from tidegate.control.live import SinkState
    from tidegate.control.snapshot import Snapshot

ALIVE: Final = timedelta(seconds=10)
"""Who did not report for so long is taken to be gone."""

KEPT: Final = timedelta(hours=1)
"""How long somebody is shown who is gone."""

NAME_MAX: Final = 64
_BREAKERS: Final = ("closed", "ramp", "half_open", "open")
_MINUTE: Final = 60


class History:
    """
    The last two minutes of one data plane, made of its snapshots. It does not touch the database.
    """

    def __init__(self) -> None:
        self._last: Snapshot | None = None
        self._points: deque[Point] = deque(maxlen=POINTS_MAX)
        self._rules: deque[tuple[float, Mapping[str, RuleCount]]] = deque()
        self._degraded: deque[tuple[float, Mapping[str, int]]] = deque()

    def take_in(self, snapshot: Snapshot) -> Mapping[str, RuleCount]:
        """
        Takes in a snapshot.

        Args:
            snapshot: What was counted until now.

        Returns:
            What each rule said since the last one; since the start for the first one.
        """
        last, self._last = self._last, snapshot
        before = {} if last is None else last.rules
        said = {name: between(before.get(name), count) for name, count in snapshot.rules.items()}
        said = {name: count for name, count in said.items() if count != RuleCount()}
        if last is not None:
            degraded = {reason: count - last.degraded.get(reason, 0) for reason, count in snapshot.degraded.items()}
            self._rules.append((snapshot.at, said))
            self._degraded.append((snapshot.at, {reason: count for reason, count in degraded.items() if count}))
            self._points.append(_point(last, snapshot, said, sum(degraded.values())))
        for entries in (self._rules, self._degraded):
            while entries and entries[0][0] <= snapshot.at - _MINUTE:
                entries.popleft()
        return said

    def live(self, *, dropped: int = 0, sinks: Sequence[SinkState] = ()) -> Live:
        """
        What the dashboard draws.

        Args:
            dropped: Events that were lost after they were taken.
            sinks: Where events go.

        Returns:
            All of it.
        """
        last = self._last
        if last is None:
            return Live()
        degraded: Counter[str] = Counter()
        for _, counts in self._degraded:
            degraded.update(counts)
        return Live(
            points=tuple(self._points),
            rules=_summed(counts for _, counts in self._rules),
            top=last.top,
            shards=last.shards,
            degraded=dict(degraded),
            store=last.store,
            keys=last.keys,
            events_dropped=last.dropped + dropped,
            sinks=tuple(sinks),
        )


def default_name() -> str:
    """
    A name for this process that no other one has at the same time.

    Returns:
        The host and the number of the process.
    """
    end = f"-{os.getpid()}"
    return socket.gethostname()[: NAME_MAX - len(end)] + end


def write(session: Session, name: str, snapshot: Snapshot, *, number: int, now: datetime, live: Live) -> None:  # noqa: PLR0913  # a row
    """
    Reports an instance.

    Args:
        session: The transaction.
        name: Its name.
        snapshot: What it counted.
        number: The `Version.number` that it has in force.
        now: The time.
        live: What the dashboard draws.
    """
    values = {
        "started_at": datetime.fromtimestamp(snapshot.started_at, UTC),
        "seen_at": now,
        "version": __version__,
        "number": number,
        "generation": snapshot.generation,
        "problem": snapshot.problem,
        "live": live.to_json(),
    }
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    new = dialect.insert(Instance).values(name=name, **values)
    session.execute(new.on_conflict_do_update(index_elements=["name"], set_=values))


def remove(session: Session, name: str) -> None:
    """
    An instance that ended in peace leaves nothing behind.
    """
    session.execute(delete(Instance).where(Instance.name == name))


def prune(session: Session, now: datetime) -> None:
    """
    Forgets who has been gone for long.
    """
    session.execute(delete(Instance).where(Instance.seen_at < now - KEPT))


def find(session: Session) -> Sequence[Instance]:
    """
    All that reported in the last hour, by name.
    """
    return session.scalars(select(Instance).order_by(Instance.name)).all()


def is_alive(instance: Instance, now: datetime) -> bool:
    """
    Whether an instance reports.
    """
    return instance.seen_at > now - ALIVE


def merged(lives: Iterable[Live]) -> Live:
    """
    What a whole fleet does: sums, and of latencies the slowest instance.

    Args:
        lives: Those of instances that are alive.

    Returns:
        All of it together.
    """
    lives = list(lives)
    points: dict[int, Point] = {}
    for point in (point for live in lives for point in live.points):
        points[point.at] = _joined(points[point.at], point) if point.at in points else point
    degraded: Counter[str] = Counter()
    for live in lives:
        degraded.update(live.degraded)
    # Of what several instances see of a server, the worst comes last and counts.
    seen = sorted((shard for live in lives for shard in live.shards), key=lambda shard: (not shard.is_up, _BREAKERS.index(shard.breaker)))
    shards = {shard.name: shard for shard in seen}
    return Live(
        points=tuple(points[at] for at in sorted(points))[-POINTS_MAX:],
        rules=_summed(live.rules for live in lives),
        top=tuple(sorted((key for live in lives for key in live.top), key=lambda key: -key.denied)[:10]),
        shards=tuple(shards.values()),
        degraded=dict(degraded),
        store=", ".join(sorted({live.store for live in lives})) or "memory",
        keys=sum(live.keys for live in lives),
        events_dropped=sum(live.events_dropped for live in lives),
    )


def _point(last: Snapshot, snapshot: Snapshot, said: Mapping[str, RuleCount], degraded: int) -> Point:
    p50, p95, p99 = (percentile(share, last, snapshot) for share in (0.5, 0.95, 0.99))
    return Point(
        at=int(snapshot.at),
        allowed=snapshot.allowed - last.allowed,
        denied=snapshot.denied - last.denied,
        shadow_denied=sum(count.shadow_denied for count in said.values()),
        degraded=degraded,
        p50_us=p50,
        p95_us=p95,
        p99_us=p99,
    )


def _joined(one: Point, other: Point) -> Point:
    return Point(
        at=one.at,
        allowed=one.allowed + other.allowed,
        denied=one.denied + other.denied,
        shadow_denied=one.shadow_denied + other.shadow_denied,
        degraded=one.degraded + other.degraded,
        p50_us=_slower(one.p50_us, other.p50_us),
        p95_us=_slower(one.p95_us, other.p95_us),
        p99_us=_slower(one.p99_us, other.p99_us),
    )


def _slower(one: float | None, other: float | None) -> float | None:
    return max((time for time in (one, other) if time is not None), default=None)


def _summed(counts: Iterable[Mapping[str, RuleCount]]) -> dict[str, RuleCount]:
    sums: dict[str, RuleCount] = {}
    for name, count in (item for mapping in counts for item in mapping.items()):
        before = sums.get(name, RuleCount())
        sums[name] = RuleCount(before.allowed + count.allowed, before.denied + count.denied, before.shadow_denied + count.shadow_denied)
    return sums
