"""
Decisions by the minute: added up in this process, and written to the table `usage` every few seconds.

What rules said is exact, because it comes from counters.
What single keys did comes from events: denials are exact as long as no event was dropped, allowed ones are as exact as the samples are.
While the database is away, all of it waits here, within bounds.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from tidegate.control.events import RULE_MAX
from tidegate.control.models import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.orm import Session

    from tidegate.control.events import Event
    from tidegate.control.live import RuleCount

MINUTES_MAX: Final = 240
"""How many minutes wait for the database at most."""

HOURS_A_TURN: Final = 24
"""How many hours are summed up at a time, so that no transaction is long."""

_MINUTE: Final = 60
_HOUR: Final = timedelta(hours=1)
_LOCK: Final = 0x7469_6465_6761_7566
"""The number of a lock of PostgreSQL: one instance at a time sums up."""


@dataclass(slots=True)
class Count:
    """
    What one rule said in one minute, to one key or to all.
    """

    allowed: int = 0
    denied: int = 0
    shadow_denied: int = 0
    tier: str = ""

    def add(self, other: Count) -> None:
        """
        Adds what was said meanwhile.
        """
        self.allowed += other.allowed
        self.denied += other.denied
        self.shadow_denied += other.shadow_denied
        self.tier = other.tier or self.tier


Place = tuple[int, str, str]
"""A minute in seconds since the epoch, a rule, and the digest of a key; that is empty for all keys."""

Counts = dict[Place, Count]


@dataclass
class Rollup:
    """
    What was not written yet.

    Args:
        keys: How many keys of a minute are kept at most.
    """

    keys: int
    dropped: int = 0
    """Decisions that are in no row of a key, because there were too many keys."""
    _waiting: Counts = field(default_factory=dict)
    _seen: dict[int, set[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note_rules(self, at: float, said: Mapping[str, RuleCount]) -> None:
        """
        Takes in what rules said.

        Args:
            at: When, in seconds since the epoch.
            said: What each of them said since the last time.
        """
        minute = _minute(at)
        with self._lock:
            for rule, count in said.items():
                if count.allowed or count.denied or count.shadow_denied:
                    self._add((minute, rule[:RULE_MAX], ""), Count(count.allowed, count.denied, count.shadow_denied))
            self._forget(minute)

    def note_events(self, events: Sequence[Event]) -> None:
        """
        Takes in what happened to single keys.

        Args:
            events: Events that are no mere recordings.
        """
        with self._lock:
            for event in events:
                if not event.digest:
                    continue
                minute = _minute(event.at)
                known = self._seen.setdefault(minute, set())
                if event.digest not in known:
                    if len(known) >= self.keys:
                        self.dropped += event.weight
                        continue
                    known.add(event.digest)
                one = Count(event.weight, 0, 0, event.tier) if event.is_allowed else Count(0, event.weight, 0, event.tier)
                self._add((minute, event.rule_id, event.digest), one)
                for rule in event.shadowed:
                    self._add((minute, rule[:RULE_MAX], event.digest), Count(0, 0, event.weight, event.tier))

    def take(self) -> Counts:
        """
        Takes out what waits to be written. What could not be written is put back.
        """
        with self._lock:
            taken, self._waiting = self._waiting, {}
            return taken

    def put_back(self, counts: Counts) -> None:
        """
        Takes in what could not be written.
        """
        with self._lock:
            for place, count in counts.items():
                self._add(place, count)

    def _add(self, place: Place, count: Count) -> None:
        found = self._waiting.get(place)
        if found is None:
            self._waiting[place] = count
        else:
            found.add(count)

    def _forget(self, now: int) -> None:
        oldest = now - MINUTES_MAX * _MINUTE
        for minute in [minute for minute in self._seen if minute < now - 2 * _MINUTE]:
            del self._seen[minute]
        if len(self._waiting) > MINUTES_MAX:
            for place in [place for place in self._waiting if place[0] < oldest]:
                del self._waiting[place]


def write(session: Session, instance: str, counts: Counts) -> None:
    """
    Adds counts to the table.

    Args:
        session: The transaction.
        instance: Who counted.
        counts: What was counted since the last time.
    """
    rows = [
        {
            "minute": datetime.fromtimestamp(minute, UTC),
            "rule_id": rule,
            "digest": digest,
            "instance": instance,
            "tier": count.tier,
            "allowed": count.allowed,
            "denied": count.denied,
            "shadow_denied": count.shadow_denied,
        }
        for (minute, rule, digest), count in counts.items()
    ]
    _insert(session, rows)


def sum_up(session: Session, now: datetime, *, keep_minutes: timedelta, keep_hours: timedelta, keys: int) -> int:
    """
    Makes one row of an hour out of those of its minutes and instances, once they are old, and forgets what is too old.

    Args:
        session: The transaction.
        now: The time.
        keep_minutes: How long single minutes are kept.
        keep_hours: How long hours are.
        keys: How many keys of an hour are kept at most, those that asked most.

    Returns:
        How many hours were summed up.
    """
    if session.get_bind().dialect.name == "postgresql" and not session.scalar(select(func.pg_try_advisory_xact_lock(_LOCK))):
        return 0
    session.execute(delete(Usage).where(Usage.minute < now - keep_hours))
    old = (Usage.instance != "") & (Usage.minute < _hour(now - keep_minutes))
    for turn in range(HOURS_A_TURN):
        first = session.scalar(select(func.min(Usage.minute)).where(old))
        if first is None:
            return turn
        _sum_up_hour(session, _hour(first), keys)
    return HOURS_A_TURN


def _sum_up_hour(session: Session, hour: datetime, keys: int) -> None:
    is_in = (Usage.minute >= hour) & (Usage.minute < hour + _HOUR)
    said = (func.sum(Usage.allowed), func.sum(Usage.denied), func.sum(Usage.shadow_denied))
    query = select(Usage.rule_id, Usage.digest, func.max(Usage.tier), *said).where(is_in).group_by(Usage.rule_id, Usage.digest)
    # Sums of different databases are of different types.
    found: list[tuple[Any, ...]] = [tuple(row) for row in session.execute(query)]
    session.execute(delete(Usage).where(is_in))
    of_all = [row for row in found if not row[1]]
    of_keys = sorted((row for row in found if row[1]), key=lambda row: -(row[3] + row[4]))
    rows = [
        {
            "minute": hour,
            "rule_id": rule,
            "digest": digest,
            "instance": "",
            "tier": tier,
            "allowed": int(allowed),
            "denied": int(denied),
            "shadow_denied": int(shadow_denied),
        }
        for rule, digest, tier, allowed, denied, shadow_denied in [*of_all, *of_keys[:keys]]
    ]
    _insert(session, rows)


def _insert(session: Session, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    new = dialect.insert(Usage)
    added = {name: getattr(Usage, name) + new.excluded[name] for name in ("allowed", "denied", "shadow_denied")}
    changed = new.on_conflict_do_update(
        index_elements=["minute", "rule_id", "digest", "instance"], set_={**added, "tier": new.excluded.tier}
    )
    session.execute(changed, rows)


def _minute(at: float) -> int:
    return int(at) // _MINUTE * _MINUTE


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)
