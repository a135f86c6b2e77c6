"""
How a limiter's store is doing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from tidegate import Stats


@dataclass(frozen=True, slots=True)
class ShardHealth:
    """
    One server that holds counters.

    Args:
        name: Its address.
        is_up: Whether it is connected.
        breaker: The circuit breaker in front of it: `closed` (all calls are sent), `open` (none), `half_open` (one probe at a time) or
            `ramp` (a growing share).
        why: What is wrong, if something is.
        version: Its version, once it has said it.
        role: `primary`, or what else it is.
        maxmemory_policy: What it does when its memory is full. Anything but `noeviction` forgets counters.
        slots: How many of the cluster's slots it serves.
    """

    name: str
    is_up: bool
    breaker: Literal["closed", "open", "half_open", "ramp"]
    why: str = ""
    version: str = ""
    role: str = ""
    maxmemory_policy: str = ""
    slots: int = 0


@dataclass(frozen=True, slots=True)
class Health:
    """
    How the store of a limiter and the way to it are doing. Made by `limiter.health()`.

    Args:
        status: `ok`: every decision is the store's. `degraded`: some are taken without it. `down`: none can be asked.
        store: What the store is: `memory`, `single`, `sentinel` or `cluster`, with its address and without its password.
        shards: Its servers.
        instances: How many processes share the store, as far as heartbeats tell: what `local` divides by.
        degraded: Decisions taken without the store, by reason.
        deny_cache_hits: Requests that were denied without asking the store again.
        advanced: Requests that were admitted without asking the store, by units that had been taken in advance.
        advance_units: Units that were taken in advance and not spent yet.
        late_answers: Answers of the store that came after the budget was over.
        owed: Counters with admissions that the store has not been told yet.
        clock_skew: How far the store's clock is ahead of this process's, in seconds.
        warnings: What should be changed, in words.
    """

    status: Literal["ok", "degraded", "down"]
    store: str
    shards: tuple[ShardHealth, ...] = ()
    instances: int = 1
    degraded: dict[str, int] = field(default_factory=dict)
    deny_cache_hits: int = 0
    advanced: int = 0
    advance_units: int = 0
    late_answers: int = 0
    owed: int = 0
    clock_skew: float = 0.0
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, shared: dict[str, Any] | None, stats: Stats) -> Self:
        """
        Makes it from what the compiled module says.

        Args:
            shared: What is known of a shared store; `None` for the memory store.
            stats: What the limiter has done.

        Returns:
            The health.
        """
        if shared is None:
            return cls(status="ok", store="memory://", degraded=stats.degraded_by)
        shards = tuple(ShardHealth(**shard) for shard in shared.pop("shards"))
        working = sum(shard.is_up and shard.breaker == "closed" for shard in shards)
        status: Literal["ok", "degraded", "down"] = "ok" if shards and working == len(shards) else "degraded" if working else "down"
        degraded, warnings = stats.degraded_by, shared.pop("warnings")
        if "store_foreign_value" in degraded:
            warnings.append(
                "values under the limiter's prefix are not the limiter's: delete them, or choose another prefix= in the address"
            )
        return cls(status=status, shards=shards, degraded=degraded, warnings=tuple(warnings), **shared)
