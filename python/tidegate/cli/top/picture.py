"""
Two readings become rates, and durations become quantiles.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.cli.top.page import Page
    from tidegate.cli.top.reading import Reading

CIRCUIT = ("closed", "ramp", "half open", "open")
_DURATION = "ratelimit_check_duration_seconds"


@dataclass(frozen=True, slots=True)
class Rule:
    """
    What one rule said, per second; and how often it denied since the service began.
    """

    rule: str
    allowed: float
    denied: float
    shadow_denied: float
    denied_total: int


@dataclass(frozen=True, slots=True)
class Limited:
    """
    One key, with its denials per second.
    """

    rule: str
    key: str
    denied_rate: float
    denied: int
    error: int
    last_seen: float


@dataclass(frozen=True, slots=True)
class Shard:
    """
    One server of a shared store.
    """

    shard: str
    is_up: bool
    breaker: str


@dataclass(frozen=True, slots=True)
class Picture:
    """
    How a service is doing. Rates are per second; times are in seconds, and `None` if nothing happened.
    """

    seconds: float
    version: str
    generation: int
    is_draining: bool
    is_stale: bool
    started: float
    allowed: float
    denied: float
    unmatched: float
    degraded: dict[str, float]
    p50: float | None
    p99: float | None
    connections: int
    keys: int | None
    memory: int | None
    cpu: float | None
    store_errors: dict[str, float]
    round_trip: float | None
    deny_cache: float | None
    shards: Sequence[Shard] = field(default_factory=tuple)
    rules: Sequence[Rule] = field(default_factory=tuple)
    limited: Sequence[Limited] = field(default_factory=tuple)

    def as_dict(self) -> dict[str, Any]:
        """
        The same for scripts.
        """
        return asdict(self)


def picture(before: Reading, now: Reading) -> Picture:
    """
    What happened between two readings.

    Args:
        before: The earlier one. If the service started anew since, it counts for nothing.
        now: The later one.
    """
    change = _Change(before, now)
    page = now.page
    return Picture(
        seconds=change.seconds,
        version=next(iter(page.values("ratelimit_build_info", "version")), ""),
        generation=int(page.total("ratelimit_rule_generation")),
        is_draining=page.total("ratelimit_draining") > 0,
        is_stale=page.total("ratelimit_rules_stale") > 0,
        started=page.total("process_start_time_seconds"),
        allowed=change.rate("ratelimit_checks_total", outcome="allowed"),
        denied=change.rate("ratelimit_checks_total", outcome="denied"),
        unmatched=change.rate("ratelimit_unmatched_total"),
        degraded=change.rates("ratelimit_degraded_total", "reason"),
        p50=change.quantile(0.5),
        p99=change.quantile(0.99),
        connections=int(page.total("ratelimit_connections")),
        keys=int(page.total("ratelimit_keys")) if "ratelimit_keys" in page else None,
        memory=int(page.total("process_resident_memory_bytes")) or None,
        cpu=change.rate("process_cpu_seconds_total") if "process_cpu_seconds_total" in page else None,
        store_errors=change.rates("ratelimit_redis_errors_total", "kind"),
        round_trip=_mean(change, "ratelimit_store_round_trips_seconds_total", "ratelimit_store_round_trips_total"),
        deny_cache=change.rate("ratelimit_deny_cache_hits_total") if "ratelimit_deny_cache_hits_total" in page else None,
        shards=_shards(page),
        rules=_rules(change),
        limited=_limited(change),
    )


class _Change:
    def __init__(self, before: Reading, now: Reading) -> None:
        started = "process_start_time_seconds"
        self.is_anew = before.page.total(started) != now.page.total(started)
        self.before, self.now = before, now
        self.seconds = max((now.at_ns - before.at_ns) / 1e9, 1e-9)

    def amount(self, name: str, **labels: str) -> float:
        earlier = 0.0 if self.is_anew else self.before.page.total(name, **labels)
        # A rule that was gone and came back begins anew.
        return max(0.0, self.now.page.total(name, **labels) - earlier)

    def rate(self, name: str, **labels: str) -> float:
        return self.amount(name, **labels) / self.seconds

    def rates(self, name: str, label: str) -> dict[str, float]:
        """Rates above 0."""
        rates = {value: self.rate(name, **{label: value}) for value in self.now.page.values(name, label)}
        return {value: rate for value, rate in rates.items() if rate > 0}

    def quantile(self, share: float) -> float | None:
        """What a share of all requests was as fast as, as Prometheus works it out: evenly spread within a bucket."""
        bounds = self.now.page.values(f"{_DURATION}_bucket", "le")
        buckets = sorted((float(bound), self.amount(f"{_DURATION}_bucket", le=bound)) for bound in bounds)
        count = buckets[-1][1] if buckets else 0.0
        if count == 0:
            return None
        lower, below = 0.0, 0.0
        for upper, up_to in buckets:
            if up_to >= share * count:
                if math.isinf(upper):
                    return lower
                return lower + (upper - lower) * (share * count - below) / (up_to - below)
            lower, below = upper, up_to
        return lower


def _mean(change: _Change, total: str, count: str) -> float | None:
    times = change.amount(count)
    return change.amount(total) / times if times else None


def _shards(page: Page) -> list[Shard]:
    up = {labels["shard"]: value > 0 for labels, value in page.samples("ratelimit_shard_up")}
    states = ((labels["shard"], int(value)) for labels, value in page.samples("ratelimit_circuit_state"))
    return [Shard(shard, up.get(shard, False), CIRCUIT[min(state, len(CIRCUIT) - 1)]) for shard, state in states]


def _rules(change: _Change) -> list[Rule]:
    name = "ratelimit_decisions_total"
    rules = [
        Rule(
            rule=rule,
            allowed=change.rate(name, rule=rule, outcome="allowed"),
            denied=change.rate(name, rule=rule, outcome="denied"),
            shadow_denied=change.rate(name, rule=rule, outcome="shadow_denied"),
            denied_total=int(change.now.page.total(name, rule=rule, outcome="denied")),
        )
        for rule in change.now.page.values(name, "rule")
    ]
    return sorted(rules, key=lambda rule: (-rule.denied, -rule.shadow_denied, -rule.denied_total, -rule.allowed, rule.rule))


def _limited(change: _Change) -> list[Limited]:
    earlier = {} if change.is_anew else {(key.rule, key.key): key.denied for key in change.before.keys}
    limited = [
        Limited(
            rule=key.rule,
            key=key.key,
            # Who was not listed before may have been denied often: only what is certain counts.
            denied_rate=max(0, key.denied - earlier.get((key.rule, key.key), key.error)) / change.seconds,
            denied=key.denied,
            error=key.error,
            last_seen=key.last_seen,
        )
        for key in change.now.keys
    ]
    return sorted(limited, key=lambda key: (-key.denied_rate, -key.denied, key.rule, key.key))
