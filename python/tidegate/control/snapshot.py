"""
What a data plane counted since its start, and what happened between two looks at it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from tidegate.control.live import RuleCount, Shard, TopKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Snapshot:
    """
    What was counted since the start. Numbers never go back, and those of rules that are gone stay.

    Args:
        at: When it was taken, in seconds since the epoch.
        started_at: When the service began.
        generation: The generation of rules in force.
        problem: Why the rules on disk are not in force.
        allowed: Requests that were allowed.
        denied: Requests that were denied.
        rules: What each rule said.
        bounds_us: Bounds of the histogram of latencies.
        up_to: How many decisions took at most as long as each bound.
        count: How many decisions were timed.
        degraded: Decisions without the store, by reason.
        store: Where counters live.
        keys: Counters that are held in memory.
        shards: Servers of the shared store.
        top: The keys denied most.
        dropped: Events that nobody took in time.
    """

    at: float
    started_at: float
    generation: int
    problem: str | None
    allowed: int
    denied: int
    rules: Mapping[str, RuleCount]
    bounds_us: Sequence[int]
    up_to: Sequence[int]
    count: int
    degraded: Mapping[str, int]
    store: str
    keys: int
    shards: tuple[Shard, ...]
    top: tuple[TopKey, ...]
    dropped: int

    @classmethod
    def from_json(cls, document: str) -> Self:
        """
        Reads what `Server.snapshot` says.
        """
        said: dict[str, Any] = json.loads(document)
        latency, store = said["latency"], said["store"]
        return cls(
            at=said["at"],
            started_at=said["started_at"],
            generation=said["generation"],
            problem=said["problem"],
            allowed=said["allowed"],
            denied=said["denied"],
            rules={name: RuleCount(*counts) for name, counts in said["rules"].items()},
            bounds_us=latency["bounds_us"],
            up_to=latency["up_to"],
            count=latency["count"],
            degraded=said["degraded"],
            store=store["name"],
            keys=store["keys"],
            shards=tuple(Shard(shard["name"], shard["breaker"], shard["is_up"]) for shard in store["shards"]),
            top=tuple(TopKey(key["rule"], key["key"], key["denied"], key["last_seen"]) for key in said["top"]["keys"]),
            dropped=0 if said["events"] is None else said["events"]["dropped"],
        )


def between(before: RuleCount | None, after: RuleCount) -> RuleCount:
    """
    What a rule said between two looks.

    Args:
        before: What it had said at the first; `None` if it was not there yet.
        after: What it had said at the second.

    Returns:
        The difference.
    """
    if before is None:
        return after
    return RuleCount(
        after.allowed - before.allowed,
        after.denied - before.denied,
        after.shadow_denied - before.shadow_denied,
    )


def percentile(share: float, before: Snapshot, after: Snapshot) -> float | None:
    """
    How long the slowest of a share of the decisions between two looks took.

    Within a bucket of the histogram they are taken to be spread evenly, so it is as exact as the buckets are narrow.

    Args:
        share: The share, such as 0.99.
        before: The first look.
        after: The second.

    Returns:
        Microseconds; `None` if there were no decisions.
    """
    count = after.count - before.count
    if count <= 0:
        return None
    wanted = share * count
    low, below = 0, 0
    for bound, earlier, later in zip(after.bounds_us, before.up_to, after.up_to, strict=True):
        up_to = later - earlier
        if up_to >= wanted:
            return round(low + (bound - low) * (wanted - below) / (up_to - below), 1)
        low, below = bound, up_to
    # Longer than the last bound, by nobody knows how much.
    return float(low)
