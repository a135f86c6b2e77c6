"""
All instances together: what each reported, added up second by second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from tidegate.control.live import POINTS_MAX, Live, Point, TopKey
from tidegate.control.models import Instance
from tidegate.dashboard import charts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from markupsafe import Markup
    from sqlalchemy.orm import Session

    from tidegate.control.live import Shard

SILENT_S: Final = 6.0
"""An instance that has said nothing for so long is not up."""

_RATE_S: Final = 5
"""Rates are the mean of so many seconds: a number that jumps cannot be read."""


@dataclass(frozen=True, slots=True)
class Seen:
    """
    One instance.
    """

    name: str
    started_at: datetime
    seen_at: datetime
    version: str
    number: int
    generation: int
    problem: str | None
    live: Live
    is_up: bool

    @property
    def health(self) -> str:
        """In one or two words."""
        return "not seen" if not self.is_up else "problem" if self.problem else "in order"

    @property
    def kind(self) -> str:
        """The colour of it."""
        return "denied" if not self.is_up else "degraded" if self.problem else "allowed"

    @property
    def rate(self) -> float:
        """Decisions a second."""
        last = self.live.points[-_RATE_S:] if self.is_up else ()
        return sum(point.allowed + point.denied for point in last) / len(last) if last else 0.0

    @property
    def p99_us(self) -> float | None:
        """Of its last second with checks."""
        return _last(point.p99_us for point in self.live.points) if self.is_up else None

    @property
    def spark(self) -> Markup:
        """Its decisions over two minutes."""
        return charts.sparkline(
            [point.allowed + point.denied for point in self.live.points], "tide", f"decisions of {self.name}, last 2 minutes"
        )


@dataclass(frozen=True, slots=True)
class Fleet:
    """
    All of them.

    Args:
        instances: By name; those that are up first.
        points: Their seconds, added up. Latencies are those of the slowest instance, because quantiles cannot be added.
    """

    instances: Sequence[Seen]
    points: Sequence[Point]

    @property
    def running(self) -> list[Seen]:
        """Those that are up."""
        return [one for one in self.instances if one.is_up]

    @property
    def up(self) -> int:
        """How many are up."""
        return len(self.running)

    @property
    def wrong(self) -> int:
        """How many need somebody to look."""
        return sum(1 for one in self.instances if one.problem or not one.is_up)

    @property
    def allowed_rate(self) -> float:
        """Allowed requests a second."""
        return _mean([point.allowed for point in self.points[-_RATE_S:]])

    @property
    def denied_rate(self) -> float:
        """Denied requests a second."""
        return _mean([point.denied for point in self.points[-_RATE_S:]])

    @property
    def p50_us(self) -> float | None:
        """Of the last second with checks."""
        return _last(point.p50_us for point in self.points)

    @property
    def p95_us(self) -> float | None:
        """As `p50_us`."""
        return _last(point.p95_us for point in self.points)

    @property
    def p99_us(self) -> float | None:
        """As `p50_us`."""
        return _last(point.p99_us for point in self.points)

    @property
    def degraded(self) -> list[tuple[str, int]]:
        """Decisions without the store in the last minute, by reason, most first."""
        total: dict[str, int] = {}
        for one in self.running:
            for reason, number in one.live.degraded.items():
                total[reason] = total.get(reason, 0) + number
        return sorted(((reason, number) for reason, number in total.items() if number), key=lambda found: (-found[1], found[0]))

    @property
    def degraded_total(self) -> int:
        """All of them."""
        return sum(number for _, number in self.degraded)

    @property
    def shards(self) -> list[tuple[str, Shard]]:
        """Servers of the shared store, each as every instance sees it."""
        return [(one.name, shard) for one in self.running for shard in one.live.shards]

    def top(self, most: int = 10) -> list[TopKey]:
        """
        The keys denied most by all instances together.
        """
        total: dict[tuple[str, str], TopKey] = {}
        for one in self.running:
            for key in one.live.top:
                before = total.get((key.rule, key.key), TopKey(key.rule, key.key, 0))
                total[key.rule, key.key] = TopKey(key.rule, key.key, before.denied + key.denied, max(before.last_seen, key.last_seen))
        return sorted(total.values(), key=lambda key: (-key.denied, key.rule, key.key))[:most]


def read(session: Session, now: datetime) -> Fleet:
    """
    Reads what all instances reported last.
    """
    found = [_seen(row, now) for row in session.scalars(select(Instance).order_by(Instance.name))]
    found.sort(key=lambda one: not one.is_up)
    return Fleet(found, add_up([one.live.points for one in found if one.is_up]))


def _seen(row: Instance, now: datetime) -> Seen:
    is_up = (now - row.seen_at).total_seconds() < SILENT_S
    return Seen(
        row.name, row.started_at, row.seen_at, row.version, row.number, row.generation, row.problem, Live.from_json(row.live), is_up
    )


def add_up(histories: Sequence[Sequence[Point]]) -> list[Point]:
    """
    The seconds of several instances as one history of `POINTS_MAX` seconds.

    It ends where the slowest reporter ends: a second of which some have not told yet would look like a dip.
    """
    told = [history for history in histories if history]
    if not told:
        return []
    newest = max(history[-1].at for history in told)
    end = min(history[-1].at for history in told if newest - history[-1].at < SILENT_S)
    by_second: dict[int, list[Point]] = {}
    for history in told:
        for point in history:
            by_second.setdefault(point.at, []).append(point)
    return [_sum(at, by_second.get(at, [])) for at in range(end - POINTS_MAX + 1, end + 1)]


def _sum(at: int, points: Iterable[Point]) -> Point:
    found = list(points)
    return Point(
        at,
        sum(point.allowed for point in found),
        sum(point.denied for point in found),
        sum(point.shadow_denied for point in found),
        sum(point.degraded for point in found),
        _most(point.p50_us for point in found),
        _most(point.p95_us for point in found),
        _most(point.p99_us for point in found),
    )


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _last(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return known[-1] if known else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
