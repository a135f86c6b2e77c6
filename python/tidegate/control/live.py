"""
What an instance tells about the last two minutes: the JSON of `Instance.live`, in one typed place for who writes and who reads it.

It is written each second and read by every open dashboard, so it is small: no histogram, no list longer than `POINTS_MAX`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

POINTS_MAX = 120
"""Seconds of history that an instance keeps."""


@dataclass(frozen=True, slots=True)
class Point:
    """
    One second of an instance.

    Args:
        at: When it ended, in whole seconds since the epoch.
        allowed: Requests that were allowed.
        denied: Requests that were denied.
        shadow_denied: Decisions of rules in shadow that would have denied.
        degraded: Decisions without the store.
        p50_us: The median of the checks of this second in microseconds; `None` without checks.
        p95_us: 95 of 100 were not slower.
        p99_us: 99 of 100 were not slower.
    """

    at: int
    allowed: int = 0
    denied: int = 0
    shadow_denied: int = 0
    degraded: int = 0
    p50_us: float | None = None
    p95_us: float | None = None
    p99_us: float | None = None


@dataclass(frozen=True, slots=True)
class RuleCount:
    """
    What one rule said in the last minute.
    """

    allowed: int = 0
    denied: int = 0
    shadow_denied: int = 0


@dataclass(frozen=True, slots=True)
class TopKey:
    """
    A key that is denied much: this hour and the one before. `key` is masked as `top.keys` says.
    """

    rule: str
    key: str
    denied: int
    last_seen: float = 0.0


@dataclass(frozen=True, slots=True)
class Shard:
    """
    A server of the shared store. `breaker` is `closed`, `ramp`, `half_open` or `open`.
    """

    name: str
    breaker: str = "closed"
    is_up: bool = True


@dataclass(frozen=True, slots=True)
class SinkState:
    """
    Where events go beside the database, such as `kafka`. `why` says what went wrong last; it is empty while all is well.
    """

    name: str
    written: int = 0
    dropped: int = 0
    waiting: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Live:
    """
    All of it. What is missing in the JSON has its default: instances of two versions may share a database.

    Args:
        points: Seconds, oldest first.
        rules: Decisions of the last minute by rule.
        top: The keys denied most.
        shards: Servers of the shared store; none with counters in memory.
        degraded: Decisions without the store in the last minute, by reason.
        store: Where counters live, such as `memory` or `redis`, without any secret.
        keys: Counters that are held in memory.
        events_dropped: Events that did not reach the control plane since the start.
        sinks: Where events go beside the database.
    """

    points: tuple[Point, ...] = ()
    rules: Mapping[str, RuleCount] = field(default_factory=dict)
    top: tuple[TopKey, ...] = ()
    shards: tuple[Shard, ...] = ()
    degraded: Mapping[str, int] = field(default_factory=dict)
    store: str = "memory"
    keys: int = 0
    events_dropped: int = 0
    sinks: tuple[SinkState, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """
        What `Instance.live` holds.
        """
        return asdict(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """
        Reads it; names that it does not know are left out.
        """
        simple = {name: said[name] for name in ("degraded", "store", "keys", "events_dropped") if name in said}
        return cls(
            points=tuple(_read(Point, point) for point in said.get("points", ())),
            rules={name: _read(RuleCount, count) for name, count in said.get("rules", {}).items()},
            top=tuple(_read(TopKey, key) for key in said.get("top", ())),
            shards=tuple(_read(Shard, shard) for shard in said.get("shards", ())),
            sinks=tuple(_read(SinkState, sink) for sink in said.get("sinks", ())),
            **simple,
        )


_Part = TypeVar("_Part", Point, RuleCount, TopKey, Shard, SinkState)


def _read(kind: type[_Part], said: Mapping[str, Any]) -> _Part:
    known = {one.name for one in fields(kind)}
    return kind(**{name: value for name, value in said.items() if name in known})
