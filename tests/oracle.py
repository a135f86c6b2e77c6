"""
What every algorithm must answer, written down a second time: naive, from `algorithms.md` §1.0-1.9, with whole numbers and fractions only.

Nothing here is fast and nothing is shared with the package. Each model keeps its state in the plainest form and knows four things: how the
state is brought to an instant (`settle`), whether a cost fits (`fits`), how it is charged (`charge`) and given back (`give_back`).
Everything a client is told follows from `fits` by search, as §1.0 defines it:

* `remaining` is the largest cost that fits now,
* `retry_after` is the smallest wait after which the cost fits,
* `reset_after` is the smallest wait after which the whole capacity fits.

Each search checks its result from both sides. All times are nanoseconds; an instant is counted from the epoch.
"""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, Any, TypeAlias
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SECOND = 1_000_000_000
START = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z, where a `ManualClock` starts."""

Receipt: TypeAlias = Any
"""Where a charge went; each model has its own form."""


# --- What is asked and answered ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Rule:
    """
    A quota in its object form, with every default filled in.
    """

    algorithm: str
    limit: int = 0
    period_ns: int = 0
    burst: int = 0
    queue_ns: int = 0
    nodelay: int = 0
    max_cost: int = 0
    entries: int = 16
    buckets: int | None = None
    calendar: str | None = None
    zone: str = "UTC"
    ttl_ns: int = 60 * SECOND
    min_interval_ns: int = 0
    max_debt: int = 0


@dataclass(frozen=True)
class Answer:
    """
    Every field of a decision; `None` is unlimited for units and never for `retry_after`.
    """

    allowed: bool
    limit: int | None
    remaining: int | None
    retry_after: int | None
    reset_after: int
    delay: int = 0


@dataclass
class Taken:
    """
    An answer with what is needed to give the charge back.
    """

    answer: Answer
    receipt: Receipt
    generation: int
    given_back: int = 0


# --- One key under one quota ------------------------------------------------------------------------------------------------------------


class Model(ABC):
    """
    What one key has used of one quota.
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.last_admitted: int | None = None

    @abstractmethod
    def settle(self, now: int) -> None:
        """
        Brings the state to `now`: drops what no longer counts, and clamps what only a clock that went back can explain.
        """

    @abstractmethod
    def fits(self, now: int, cost: int, lease: str | None = None) -> bool:
        """
        The line `allow iff` of the algorithm, in a settled state.
        """

    @abstractmethod
    def charge(self, now: int, cost: int, lease: str | None = None) -> Receipt:
        """
        Takes the cost without asking, up to what may be owed.
        """

    @abstractmethod
    def give_back(self, now: int, receipt: Receipt, cost: int, before: int) -> None:
        """
        Takes back what still counts of a charge, of which `before` units were given back earlier.
        """

    @abstractmethod
    def idle_at(self, now: int) -> int:
        """
        An instant from which on nothing is used; it need not be the first.
        """

    def capacity(self) -> int:
        """
        The largest cost of an idle key.
        """
        return self.rule.limit

    def limit(self) -> int:
        """
        The capacity that clients are told.
        """
        return 0 if is_closed(self.rule) else self.capacity()

    def delay(self, now: int) -> int:
        """
        How long an admitted request waits before it starts.
        """
        return 0

    def refunds(self, rule: Rule) -> bool:
        """
        Whether a receipt that was made under `rule` still means the same.
        """
        return True

    # What follows from the above, for all algorithms alike.

    def at(self, instant: int) -> Model:
        """
        A copy as it will be if nothing else happens. Settling replaces what it changes, so the copy can be shallow.
        """
        later = copy.copy(self)
        later.bring_to(instant)
        return later

    def bring_to(self, now: int) -> None:
        """
        Settles, also the gap between two requests: one that began in the future began now.

        Under a limit of 0 only slots are looked at, for their holders go on.
        """
        if not is_closed(self.rule) or isinstance(self, Concurrency):
            self.last_admitted = None if self.last_admitted is None else min(self.last_admitted, now)
            self.settle(now)

    def admits(self, now: int, cost: int, lease: str | None = None) -> bool:
        """
        Whether the cost fits and the gap is over. With a limit of 0 nothing ever fits.
        """
        return not is_closed(self.rule) and self.gap_end() <= now and self.fits(now, cost, lease)

    def gap_end(self) -> int:
        """
        From when on the next request may be admitted.
        """
        return 0 if self.last_admitted is None else self.last_admitted + self.rule.min_interval_ns

    def remaining(self, now: int) -> int:
        """
        The largest cost that is admitted now, 0 if not even that is.
        """
        return largest(lambda cost: self.admits(now, cost), self.limit())

    def retry_after(self, now: int, cost: int, lease: str | None = None) -> int | None:
        """
        The smallest wait after which the cost is admitted.
        """
        if is_closed(self.rule):
            return None
        horizon = max(self.idle_at(now), self.gap_end(), now)
        if not self.at(horizon).admits(horizon, cost, lease):
            return None
        return smallest(lambda wait: self.at(now + wait).admits(now + wait, cost, lease), horizon - now)

    def reset_after(self, now: int) -> int:
        """
        The smallest wait after which the whole capacity is there again.
        """
        if is_closed(self.rule):
            return 0
        horizon = max(self.idle_at(now), self.gap_end(), now)
        return smallest(lambda wait: self.at(now + wait).is_full(now + wait), horizon - now)

    def is_full(self, now: int) -> bool:
        """
        Whether the whole capacity is there.
        """
        return self.admits(now, self.capacity())


def largest(fits: Callable[[int], bool], bound: int) -> int:
    """
    The largest number up to `bound` that fits, where every smaller one fits too; 0 if none does.
    """
    low, high = 0, bound
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    assert low == 0 or fits(low)
    assert low == bound or not fits(low + 1)
    return low


def smallest(holds: Callable[[int], bool], bound: int) -> int:
    """
    The smallest number up to `bound` at which something holds that holds ever after.
    """
    if holds(0):
        return 0
    # Often nothing happens before the last moment; otherwise the instant is found by halving.
    low, high = (bound - 1, bound) if not holds(bound - 1) else (0, bound - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    assert holds(high)
    assert not holds(high - 1)
    return high


class Unlimited(Model):
    """
    No limit at all.
    """

    def settle(self, now: int) -> None:
        """
        There is nothing to settle.
        """

    def fits(self, now: int, cost: int, lease: str | None = None) -> bool:
        """
        Everything fits.
        """
        return True

    def charge(self, now: int, cost: int, lease: str | None = None) -> Receipt:
        """
        Nothing is counted.
        """

    def give_back(self, now: int, receipt: Receipt, cost: int, before: int) -> None:
        """
        Nothing was taken.
        """

    def idle_at(self, now: int) -> int:
        """
        Always idle.
        """
        return now


def is_closed(rule: Rule) -> bool:
    """
    A limit of 0 is legal: always denied, and never is said. What was used before the limit became 0 is kept.
    """
    return rule.algorithm != "unlimited" and (rule.limit == 0 or (rule.algorithm == "gcra" and rule.burst == 0))


class SlidingWindowLog(Model):
    """
    §1.2: every charge on its own.
    """

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self.entries: dict[int, tuple[int, int]] = {}
        """From the number of a charge to its time and cost."""
        self.charges = 0

    def settle(self, now: int) -> None:
        """
        Drops what has left the window `(now - W, now]`; what lies in the future is of now.
        """
        clamped = {number: (min(at, now), cost) for number, (at, cost) in self.entries.items()}
        self.entries = {number: (at, cost) for number, (at, cost) in clamped.items() if at > now - self.rule.period_ns}

    def used(self) -> int:
        """
        Units in the window.
        """
        return sum(cost for _, cost in self.entries.values())

    def fits(self, now: int, cost: int, lease: str | None = None) -> bool:
        """
        `u + n <= L`.
        """
        return self.used() + cost <= self.rule.limit

    def charge(self, now: int, cost: int, lease: str | None = None) -> Receipt:
        """
        Adds an entry of its own.
        """
        self.charges += 1
        cost = owed(self.used(), cost, self.rule)
        if cost > 0:
            self.entries[self.charges] = (now, cost)
        return self.charges

    def give_back(self, now: int, receipt: Receipt, cost: int, before: int) -> None:
        """
        Takes from that entry and from no other.
        """
        if receipt in self.entries:
            at, charged = self.entries.pop(receipt)
            if charged > cost:
                self.entries[receipt] = (at, charged - cost)

    def idle_at(self, now: int) -> int:
        """
        When the latest charge has left.
        """
        return max((at for at, _ in self.entries.values()), default=now) + self.rule.period_ns


def owed(used: int, cost: int, rule: Rule) -> int:
    """
    How much of a cost is charged: usage stops at the limit plus `max_debt`, and is never lowered to it.
    """
    return max(0, min(cost, rule.limit + rule.max_debt - used))


class SlidingWindow(Model):
    """
    §1.3: at most M pairs of time and count.
    """

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self.pairs: list[tuple[int, int]] = []
        self.clamps = 0

    def settle(self, now: int) -> None:
        """
        Drops what has left the window; pairs of the future become one pair of now, and no receipt from before finds its units any more.
        """
        if any(at > now for at, _ in self.pairs):
            count = sum(count for at, count in self.pairs if at >= now)
            self.pairs = [(at, count) for at, count in self.pairs if at < now] + [(now, count)]
            self.clamps += 1
        self.pairs = [(at, count) for at, count in self.pairs if at > now - self.rule.period_ns]

    def used(self) -> int:
        """
        Units in the window.
        """
        return sum(count for _, count in self.pairs)

    def fits(self, now: int, cost: int, lease: str | None = None) -> bool:
        """
        `u + n <= L`.
        """
        return self.used() + cost <= self.rule.limit

    def charge(self, now: int, cost: int, lease: str | None = None) -> Receipt:
        """
        Adds to the pair of this tick, or a new one; then merges the neighbours for which `count * gap` is smallest, keeping the later time.
        """
        cost = owed(self.used(), cost, self.rule)
        if self.pairs and self.pairs[-1][0] == now:
            self.pairs[-1] = (now, self.pairs[-1][1] + cost)
        elif cost > 0:
            self.pairs.append((now, cost))
        while len(self.pairs) > self.rule.entries:
            held_back = [count * (self.pairs[i + 1][0] - at) for i, (at, count) in enumerate(self.pairs[:-1])]
            i = held_back.index(min(held_back))
            self.pairs[i : i + 2] = [(self.pairs[i + 1][0], self.pairs[i][1] + self.pairs[i + 1][1])]
        return now, self.clamps

    def give_back(self, now: int, receipt: Receipt, cost: int, before: int) -> None:
        """
        The charge lies in the first pair that is no earlier, unless it has left.
        """
        charged_at, clamps = receipt
        if charged_at <= now - self.rule.period_ns or clamps != self.clamps:
            return
        for i, (at, count) in enumerate(self.pairs):
            if at >= charged_at:
                self.pairs[i : i + 1] = [(at, count - cost)] if count > cost else []
                return

    def idle_at(self, now: int) -> int:
        """
        When the latest pair has left.
        """
        return max((at for at, _ in self.pairs), default=now) + self.rule.period_ns


class SlidingWindowCounter(Model):
    """
    §1.4: what was used in this window and in the one before.
    """

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self.id = 0
        self.cur = 0
        self.prev = 0

    def settle(self, now: int) -> None:
        """
        Rolls the buckets. After a step back everything is of the earlier window, at full weight.
        """
        new = now // self.rule.period_ns
        if new == self.id + 1:
            self.cur, self.prev = 0, self.cur
        elif new > self.id:
            self.cur, self.prev = 0, 0
        elif new < self.id:
            self.cur, self.prev = self.cur + owed(self.cur, self.prev, self.rule), 0
        self.id = new

    def fits(self, now: int, cost: int, lease: str | None = None) -> bool:
        """
        `cur*W + prev*(W-e) + n*W <= L*W`.
        """
        window = self.rule.period_ns
        elapsed = now - self.id * window
        return self.cur * window + self.prev * (window - elapsed) + cost * window <= self.rule.limit * window

    def charge(self, now: int, cost: int, lease: str | None = None) -> Receipt:
        """
        Counts in this window.
        """
        self.cur += owed(self.cur, cost, self.rule)
        return self.id

    def give_back(self, now: int, receipt: Receipt, cost: int, before: int) -> None:
        """
        Takes from the bucket that was charged, wherever it is now.
        """
        if receipt == self.id:
            self.cur = max(0, self.cur - cost)
        elif receipt == self.id - 1:
            self.prev = max(0, self.prev - cost)

    def idle_at(self, now: int) -> int:
        """
        When both buckets have rolled out.
        """
        return (self.id + 2) * self.rule.period_ns


class SlidingWindowRing(Model):
    """
    §1.5: k + 1 sub-windows, each counted until its last tick has left the window.
    """

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        assert rule.buckets is not None
        self.k = rule.buckets
        self.width = -(-rule.period_ns // self.k)
        self.counts: dict[int, int] = {}

    def settle(self, now: int) -> None:
        """
        Keeps the bucket of now and the k before it; later ones are merged into that of now.
        """
        newest = now // self.width
        settled: dict[int, int] = {}
        for bucket, count in self.counts.items():
            if bucket >= newest - self.k:
                settled[min(bucket, newest)] = settled.get(min(bucket, newest), 0) + count
        self.counts = settled

    def used(self, now: int) -> int:
        """
        Units in buckets whose last tick is still in the window of k sub-windows.
        """
        window = self.k * self.width
        return sum(count for bucket, count in self.counts.items() if (bucket + 1) * self.width - 1 > now - window)

    def fits(self, now: int, cost: int, lease: str | None = None) -> bool:
        """
        `used + n <= L`.
        """
        return self.used(now) + cost <= self.rule.limit

    def charge(self, now: int, cost: int, lease: str | None = None) -> Receipt:
        """
        Counts in the bucket of now.
        """
        bucket = now // self.width
        self.counts[bucket] = self.counts.get(bucket, 0) + owed(self.used(now), cost, self.rule)
        return bucket

    def give_back(self, now: int, receipt: Receipt, cost: int, before: int) -> None:
        """
        Takes from the bucket that was charged, if it is still there.
        """
        if receipt in self.counts:
            self.counts[receipt] = max(0, self.counts[receipt] - cost)

    def idle_at(self, now: int) -> int:
        """
        When the latest bucket has left.
        """
        return (max(self.counts, default=now // self.width) + self.k + 1) * self.width - 1


class FixedWindow(Model):
    """
    §1.1: one counter per window, which is known by its end.
    """

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self.end = 0
        self.used = 0

    def settle(self, now: int) -> None:
        """
        A later window starts at 0. After a step back the count stays in force, for one more window at most.
        """
        end = window_end(self.rule, now)
        if end > self.end or self.used == 0:
            self.end, self.used = end, 0
        else:
            self.end = min(self.end, window_end(self.rule, end))

    def fits(self, now: int, cost: int, lease: str | None = None) -> bool:
        """
        `c + n <= L`.
        """
        return self.used + cost <= self.rule.limit

    def charge(self, now: int, cost: int, lease: str | None = None) -> Receipt:
        """
        Counts in this window.
        """
        self.used += owed(self.used, cost, self.rule)
        return self.end

    def give_back(self, now: int, receipt: Receipt, cost: int, before: int) -> None:
        """
        Only into the window that was charged.
        """
        if receipt == self.end:
            self.used = max(0, self.used - cost)

    def idle_at(self, now: int) -> int:
        """
        The end of the window that is counted, which after a step back is later than that of now.
        """
        return max(self.end, window_end(self.rule, now))


def window_end(rule: Rule, now: int) -> int:
    """
    The first instant of the next window.
    """
    if rule.calendar is None:
        return (now // rule.period_ns + 1) * rule.period_ns
    zone = ZoneInfo(rule.zone)
    if rule.calendar in ("minute", "hour"):
        return clock_window_end(zone, rule.calendar, now)
    local = datetime.fromtimestamp(now // SECOND, UTC).astimezone(zone)
    first = next_first_day(rule.calendar, local.date())
    midnight = datetime(first.year, first.month, first.day, tzinfo=zone)
    return int(midnight.timestamp()) * SECOND


def clock_window_end(zone: ZoneInfo, unit: str, now: int) -> int:
    """
    The first second at which a clock on the wall shows another minute or hour, or is put forward or back.
    """

    def shown(second: int) -> tuple[object, ...]:
        local = datetime.fromtimestamp(second, UTC).astimezone(zone)
        return local.date(), local.hour, local.minute if unit == "minute" else None, local.utcoffset()

    second = now // SECOND
    while shown(second) == shown(now // SECOND):
        second += 1
    return second * SECOND


def next_first_day(unit: str, day: date) -> date:
    """
    The first day of the next day, week, month or year.
    """
    first = day + timedelta(days=1)
    while (
        (unit == "week" and first.weekday() != 0) or (unit in ("month", "year") and first.day != 1) or (unit == "year" and first.month != 1)
    ):
        first += timedelta(days=1)
    return first


class Gcra(Model):
    """
    §1.6: the theoretical arrival time, an exact fraction.
    """

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self.arrival = Fraction(0)
        self.base = 1
        """The denominator that the fraction was written with: `l` of the rate in lowest terms."""
        self.refunded = Fraction(0)
        """The time by which refunds moved the arrival back, since there were receipts."""
        self.receipts_until = 0
        """When the last receipt of before a refund has passed; 0 while nothing was refunded."""

    def rate(self) -> Fraction:
        """
        Units per nanosecond.
        """
        return Fraction(self.rule.limit, self.rule.period_ns)

    def level(self, now: int) -> Fraction:
        """
        Units that are used.
        """
        return max(Fraction(0), self.arrival - now) * self.rate()

    def set_level(self, now: int, level: Fraction) -> None:
        """
        Moves the arrival time so that `level` units are used, or all that can be.
        """
        self.arrival = now + min(level, Fraction(self.level_max())) / self.rate()
        self.base = self.rate().numerator

    def level_max(self) -> Fraction:
        """
        What admissions and debits can use at most.
        """
        return Fraction(self.rule.burst + self.rule.max_debt)

    def settle(self, now: int) -> None:
        """
        Clamps a level that only a step back or a lowered burst explains; another denominator rounds the time up to a whole tick.
        """
        if self.base != self.rate().numerator:
            self.arrival, self.base = Fraction(ceil(self.arrival)), self.rate().numerator
        if 0 < self.receipts_until <= now:
            self.refunded, self.receipts_until = Fraction(0), 0
        if self.level(now) > self.level_max():
            self.set_level(now, self.level_max())

    def fits(self, now: int, cost: int, lease: str | None = None) -> bool:
        """
        `q + n*p <= B*p`, both sides divided by p.
        """
        return self.level(now) + cost <= self.rule.burst

    def charge(self, now: int, cost: int, lease: str | None = None) -> Receipt:
        """
        Moves the arrival time on; the receipt is where it ends up, and what had been refunded by then.
        """
        self.set_level(now, self.level(now) + cost)
        if self.receipts_until:
            self.receipts_until = max(self.receipts_until, ceil(self.arrival))
        return self.arrival, self.refunded

    def give_back(self, now: int, receipt: Receipt, cost: int, before: int) -> None:
        """
        Only what of the charge still lies ahead, which is less by all that was refunded since.
        """
        arrival, refunded = receipt
        since = self.refunded - refunded
        ahead = max(Fraction(0), (arrival - now - since) * self.rate()) if since >= 0 else Fraction(0)
        credit = min(Fraction(cost), ahead, self.level(now))
        if credit > 0:
            self.receipts_until = max(self.receipts_until, ceil(self.arrival))
            self.set_level(now, self.level(now) - credit)
            self.refunded += credit / self.rate()

    def capacity(self) -> int:
        """
        The burst.
        """
        return self.rule.burst

    def refunds(self, rule: Rule) -> bool:
        """
        A receipt is a time: under another rate it would stand for another number of units. And a lowered bound may have clamped the charge.
        """
        charged = type(self)(rule)
        return charged.rate() == self.rate() and charged.level_max() <= self.level_max()

    def idle_at(self, now: int) -> int:
        """
        When the arrival time has passed.
        """
        return max(now, ceil(self.arrival))


class LeakyBucket(Gcra):
    """
    §1.7: when the queue is empty again, an exact fraction. The level is the backlog in units.
    """

    def waiting_max(self) -> Fraction:
        """
        The longest backlog at which a request is admitted, in units: those that wait for D, and those that need not wait.
        """
        return self.rule.queue_ns * self.rate() + self.rule.nodelay

    def level_max(self) -> Fraction:
        """
        One request of the largest cost was admitted at the last moment, and then everything was owed.
        """
        return self.waiting_max() + self.rule.max_cost + self.rule.max_debt

    def start_in(self, now: int) -> Fraction:
        """
        The delay of a request that comes now, in nanoseconds.
        """
        return max(Fraction(0), self.level(now) - self.rule.nodelay) / self.rate()

    def fits(self, now: int, cost: int, lease: str | None = None) -> bool:
        """
        `delay <= D and n <= max_cost`.
        """
        return self.start_in(now) <= self.rule.queue_ns and cost <= self.rule.max_cost

    def delay(self, now: int) -> int:
        """
        Rounded up: starts never come closer than the rate says.
        """
        return ceil(self.start_in(now))

    def capacity(self) -> int:
        """
        How many requests of cost 1 an idle queue admits at once, as far as they can be counted.
        """
        return min(floor(self.waiting_max()) + 1, 2**53)

    def remaining(self, now: int) -> int:
        """
        How many requests of cost 1 are admitted now: the last one while those before it do not fill the queue.
        """
        is_open = not is_closed(self.rule) and self.gap_end() <= now
        return largest(lambda units: is_open and self.level(now) + units - 1 <= self.waiting_max(), self.limit())

    def is_full(self, now: int) -> bool:
        """
        Whether as many are admitted as by an idle queue.
        """
        return self.remaining(now) == self.capacity()


class Concurrency(Model):
    """
    §1.8: who holds how much, and until when.
    """

    @dataclass
    class Lease:
        """
        What one holder has.
        """

        weight: int
        expires_at: int

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self.leases: dict[str, Concurrency.Lease] = {}

    def settle(self, now: int) -> None:
        """
        Drops what has expired. A clock that went back makes leases last longer.
        """
        self.leases = {key: lease for key, lease in self.leases.items() if lease.expires_at > now}

    def fits(self, now: int, cost: int, lease: str | None = None) -> bool:
        """
        `used + n <= C`, or the holder has its slots already.
        """
        if cost > self.rule.limit:
            return False
        return lease in self.leases or sum(held.weight for held in self.leases.values()) + cost <= self.rule.limit

    def charge(self, now: int, cost: int, lease: str | None = None) -> Receipt:
        """
        Adds a lease, or renews the holder's own with the weight that it has.
        """
        assert lease is not None
        weight = self.leases[lease].weight if lease in self.leases else cost
        self.leases[lease] = self.Lease(weight, now + self.rule.ttl_ns)

    def give_back(self, now: int, receipt: Receipt, cost: int, before: int) -> None:
        """
        Leases are released, not refunded.
        """

    def renew(self, now: int, lease: str) -> bool:
        """
        Extends a lease that is still held.
        """
        if lease not in self.leases:
            return False
        self.leases[lease].expires_at = now + self.rule.ttl_ns
        return True

    def release(self, lease: str) -> bool:
        """
        Ends a lease, if it is held.
        """
        return self.leases.pop(lease, None) is not None

    def idle_at(self, now: int) -> int:
        """
        The last expiry.
        """
        return max((lease.expires_at for lease in self.leases.values()), default=now)


MODELS: dict[str, type[Model]] = {
    "unlimited": Unlimited,
    "sliding_window": SlidingWindow,
    "sliding_window_log": SlidingWindowLog,
    "sliding_window_counter": SlidingWindowCounter,
    "fixed_window": FixedWindow,
    "gcra": Gcra,
    "leaky_bucket": LeakyBucket,
    "concurrency": Concurrency,
}


def model_of(rule: Rule) -> type[Model]:
    """
    The model that enforces a rule.
    """
    return SlidingWindowRing if rule.buckets is not None else MODELS[rule.algorithm]


# --- All keys under one quota -----------------------------------------------------------------------------------------------------------


@dataclass
class Oracle:
    """
    A limiter with one quota, as slow as it is plain.
    """

    quota: str | Mapping[str, Any]
    keys: dict[str, Model] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rule = self.open_rule = read(self.quota)
        self.generation = self.receipts_since = 1

    def check(self, now: int, key: str, cost: int = 1, lease: str | None = None) -> Taken:
        """
        Takes the cost if it fits. A step back of the clock is remembered either way; cost 0 is a peek.
        """
        if cost == 0:
            return Taken(self.peek(now, key, cost, lease), None, self.generation)
        model = self.model(key)
        model.bring_to(now)
        retry_after, receipt = model.retry_after(now, cost, lease), None
        delay = model.delay(now) if retry_after == 0 else 0
        if retry_after == 0:
            receipt = model.charge(now, cost, lease)
            model.last_admitted = now if self.rule.min_interval_ns > 0 else model.last_admitted
        return Taken(self.answer(model, now, retry_after, delay), receipt, self.generation)

    def peek(self, now: int, key: str, cost: int = 1, lease: str | None = None) -> Answer:
        """
        What `check` would say, from a copy.
        """
        model = self.model(key).at(now)
        retry_after = model.retry_after(now, cost, lease)
        return self.answer(model, now, retry_after, model.delay(now) if retry_after == 0 else 0)

    def debit(self, now: int, key: str, cost: int) -> Answer:
        """
        Takes the cost as far as it may be owed. It is no request, so the gap between two of them does not begin. Slots cannot be owed.
        """
        model = self.model(key)
        model.bring_to(now)
        if cost > 0 and not is_closed(self.rule) and not isinstance(model, Concurrency):
            model.charge(now, cost)
        return self.answer(model, now, 0, 0)

    def refund(self, now: int, key: str, taken: Taken, cost: int) -> None:
        """
        Gives back what still counts.
        """
        model = self.model(key)
        before, taken.given_back = taken.given_back, taken.given_back + cost
        if taken.answer.allowed and not is_closed(self.rule) and taken.generation >= self.receipts_since:
            model.bring_to(now)
            model.give_back(now, taken.receipt, cost, before)

    def renew(self, now: int, key: str, lease: str) -> bool:
        """
        Extends a lease.
        """
        model = self.model(key)
        model.bring_to(now)
        return isinstance(model, Concurrency) and model.renew(now, lease)

    def release(self, now: int, key: str, lease: str) -> bool:
        """
        Ends a lease.
        """
        model = self.model(key)
        model.bring_to(now)
        return isinstance(model, Concurrency) and model.release(lease)

    def load(self, quota: str | Mapping[str, Any]) -> None:
        """
        Changes the limit, or what else leaves algorithm and window as they are. What was used stays used.

        Receipts from before a change that gives them another meaning are void, also when the change is undone.
        """
        self.rule, self.generation = read(quota), self.generation + 1
        for key, model in self.keys.items():
            assert type(model) is model_of(self.rule), f"{key}: the algorithm may not change"
            model.rule = self.rule
        if not is_closed(self.rule):
            if not is_closed(self.open_rule) and not model_of(self.rule)(self.rule).refunds(self.open_rule):
                self.receipts_since = self.generation
            self.open_rule = self.rule

    def model(self, key: str) -> Model:
        """
        What is known of a key.
        """
        return self.keys.setdefault(key, model_of(self.rule)(self.rule))

    def answer(self, model: Model, now: int, retry_after: int | None, delay: int) -> Answer:
        """
        The fields that describe the state as it is.
        """
        allowed = retry_after == 0
        if isinstance(model, Unlimited):
            return Answer(allowed, None, None, retry_after, 0)
        return Answer(allowed, model.limit(), model.remaining(now), retry_after, model.reset_after(now), delay)


# --- Reading quotas ---------------------------------------------------------------------------------------------------------------------

UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "second": SECOND,
    "m": 60 * SECOND,
    "minute": 60 * SECOND,
    "h": 3_600 * SECOND,
    "hour": 3_600 * SECOND,
    "d": 86_400 * SECOND,
    "day": 86_400 * SECOND,
}
NUMBERS = ("burst", "nodelay", "max_cost", "entries", "buckets", "max_debt")
DURATIONS = ("queue", "ttl", "min_interval")


def read(quota: str | Mapping[str, Any]) -> Rule:
    """
    Reads a quota as the vectors write it: canonical text, or the object form.
    """
    given = words(quota) if isinstance(quota, str) else dict(quota)
    given.pop("name", None)
    if given.pop("unlimited", False):
        return Rule(algorithm="unlimited")
    algorithm = given.setdefault("algorithm", algorithm_of(given))
    limit = given["limit"]
    if algorithm == "gcra":
        given.setdefault("burst", limit)
    if algorithm == "leaky_bucket" and "max_cost" not in given:
        given["max_cost"] = LeakyBucket(Rule(**given)).capacity() if limit > 0 else 1
    default_debt = {"gcra": given.get("burst"), "leaky_bucket": given.get("max_cost"), "concurrency": 0}
    given.setdefault("max_debt", default_debt.get(algorithm, limit))
    return Rule(**given)


def words(text: str) -> dict[str, Any]:
    """
    Splits a text such as `100/minute burst 20` into the object form.
    """
    if text == "unlimited":
        return {"unlimited": True}
    head, *rest = text.split()
    limit, _, period = head.partition("/")
    given: dict[str, Any] = {"limit": int(limit)}
    if period and "calendar" not in rest:
        given["period_ns"] = duration(period)
    while rest:
        word = rest.pop(0)
        if word == "concurrent":
            given["algorithm"] = "concurrency"
        elif word == "calendar":
            given |= {"calendar": period} | ({"zone": rest.pop(0)} if rest else {})
        elif word in NUMBERS:
            given[word] = int(rest.pop(0))
        elif word in DURATIONS:
            given[f"{word}_ns"] = duration(rest.pop(0))
        else:
            given["algorithm"] = {"token_bucket": "gcra"}.get(word, word)
    return given


def duration(text: str) -> int:
    """
    Reads `minute`, `7s` or `200ms`.
    """
    found = re.fullmatch(r"(\d*)([a-z]+)", text)
    assert found, text
    return int(found[1] or 1) * UNITS_NS[found[2]]


def algorithm_of(given: Mapping[str, Any]) -> str:
    """
    The algorithm of a quota that names none.
    """
    if given.keys() & {"queue_ns", "nodelay"}:
        return "leaky_bucket"
    if "burst" in given:
        return "gcra"
    if "calendar" in given:
        return "fixed_window"
    return "sliding_window_counter" if "buckets" in given else "sliding_window"
