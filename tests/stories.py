"""
The stories that the truth tables tell, as texts; `make_vectors.py` asks the oracle what must be answered.

A story is a list of steps, `<time> <verb> <arguments>`, separated by semicolons:

    10s check 2 as first    a check with cost 2 (default 1), called `first`; `by b` names another key, `lease 0a` the id of a lease
    now peek 3              the same instant as the step before
    retry-1 check           one tick before the last denial said to come again
    knock 2                 after a denial: a check one tick before that instant, and one at it; after an admission: nothing
    reset debit 4           when the last answer said that nothing is used any more
    1m+5 refund first 2     two units of that check
    20s renew 0a            and `release`
    30s load 5/minute       another limit

Times count from the start of the story: ticks of a nanosecond without a unit, otherwise `ms s m h d y`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

Quota: TypeAlias = str | Mapping[str, Any]

START = 1_767_225_600_000_000_000
"""2026-01-01T00:00:00Z, where a `ManualClock` starts."""
HUGE = 2**53


@dataclass(frozen=True)
class Story:
    """
    What happens under a quota, from a start in nanoseconds since the epoch.
    """

    name: str
    about: str
    quota: Quota
    steps: str
    start: int = START

    def under(self, suffix: str) -> Story:
        """
        The same story with `{}` filled in.
        """
        assert isinstance(self.quota, str)
        return replace(self, quota=self.quota.replace("{}", suffix), steps=self.steps.replace("{}", suffix))


COMMON = [
    # Costs, peeks and what is never admitted.
    Story(
        "cost-n",
        "costs above 1 fit or do not, as a whole",
        "5/minute {}",
        "0 check 2; 1s check 2; 1s check 2; 1s check; 1s check; knock; now check 5; knock 5",
    ),
    Story(
        "edges",
        "a denial is true to the tick, whatever the cost",
        "4/10s {}",
        "0 check; 1 check; 3s check 2; now check; knock; now check 2; knock 2; now check 3; knock 3; now check 4; knock 4",
        start=START + 3_000_000_000,
    ),
    Story(
        "limit-0",
        "a limit of 0 denies everything and never is said",
        "0/minute {}",
        f"0 peek 0; 0 check 0; 0 check; 1 debit 1; 1d check {HUGE}",
    ),
    Story("limit-1", "one at a time", "1/second {}", "0 check; " + "now check; knock; " * 4),
    Story(
        "never",
        "a cost above the capacity is never admitted, and does not count",
        "3/minute {}",
        f"0 check 4; 0 check {HUGE}; 0 peek 4; 0 check 3; 1 check 4; 10m check 4; 10m check 3",
    ),
    Story(
        "peek",
        "asking without taking changes nothing",
        "3/minute {}",
        "0 peek 0; 0 peek; 0 peek 3; 0 peek 4; 0 check 0; 0 check 2; 1s peek 0; 1s peek; 1s peek 2; 1s peek 3; "
        "1s check; 1s check; retry-1 peek; now+1 peek; now check",
    ),
    Story(
        "two-keys",
        "keys do not share anything",
        "2/minute {}",
        "0 check 2; 0 check by b; 1s check; 1s check by b; 1s check by b; retry-1 check by b; now+1 check by b; now check",
    ),
    # Refunds: only what still counts comes back.
    Story(
        "refund",
        "at once everything comes back, or a part",
        "5/minute {}",
        "0 check 3 as first; 0 refund first 3; 0 peek; 1s check 4 as second; 1s refund second 1; 1s peek; "
        "2s refund second 2; 2s peek; 2s check 5; knock 5",
    ),
    Story(
        "refund-late",
        "a refund gives back nothing that has left by itself",
        "3/minute {}",
        "0 check 2 as first; 2m check 3; 2m+1s refund first 2; 2m+1s peek; 2m+1s check",
    ),
    Story(
        "refund-halfway",
        "after a while only a part of the charge is left",
        "6/minute {}",
        "0 check 6 as first; 35s check 3; 40s refund first 6; 40s peek; 45s check 2; 1m+1 peek",
    ),
    Story(
        "refund-between",
        "the refund of one request leaves those before and after it alone",
        "6/minute {}",
        "0 check; 10s check 2 as second; 20s check; 30s refund second 1; 30s peek; 40s refund second 1; 40s peek; "
        "1m-1 peek; 1m peek; 70s peek; 80s peek; 80s check 6; knock 6",
    ),
    # Debits: what was used is counted, also above the limit.
    Story(
        "debit",
        "a debit is not asked for, may overdraw, and is worked off",
        "4/minute {}",
        "0 debit 3; 0 check 2; 1s debit 3; 1s peek 0; 1s check; knock; now check 4; knock 4",
    ),
    Story(
        "debit-bound",
        "by default one capacity can be owed, and no more",
        "4/minute {}",
        f"0 debit 3; 0 debit {HUGE}; 1s debit 1; 1s check; knock",
    ),
    Story(
        "debit-none",
        "without debt a debit stops at the limit",
        "4/minute {} max_debt 0",
        "0 check 3; 1s debit 5; 1s check; knock",
    ),
    Story(
        "debit-some",
        "a debt of two units",
        "4/minute {} max_debt 2",
        "0 check 4; 10s debit 1; 20s debit 9; 20s peek 0; 20s check; knock",
    ),
    Story(
        "debit-0",
        "a debit of nothing changes nothing, also not what a step back finds",
        "3/minute {}",
        "0 check; 10m debit 0; 10m-1s peek; 10m peek 3",
    ),
    # The smallest gap between two admitted requests.
    Story(
        "min-interval",
        "two requests keep their distance, whatever is left",
        "3/minute {} min_interval 500ms",
        "0 check; 0 check; knock; now check 4; now peek 0; 3s debit 1; 3s check; knock; now check",
    ),
    Story(
        "min-interval-back",
        "a gap that began in the future begins now",
        "9/minute {} min_interval 5s",
        "10s check; 9s check; 0 check; knock",
    ),
    # The limit is changed while there is something in use.
    Story(
        "limit-raised",
        "a higher limit acts at once, and what was used stays used",
        "3/minute {}",
        "0 check 3; 1s check; 1s load 5/minute {}; 1s peek; 1s check 5; knock 5",
    ),
    Story(
        "limit-lowered",
        "a lower limit acts at once, and nothing is forgiven",
        "5/minute {}",
        "0 check 2 as first; 10s check 2; 20s load 2/minute {}; 20s peek 0; 20s check; 20s debit 1; 21s refund first 1; "
        "21s check; knock; now check 3",
    ),
    Story(
        "limit-closed",
        "a limit of 0 and back again: what was used is still used",
        "5/minute {}",
        "0 check 3; 1s load 0/minute {}; 1s check; 1s peek; 2s load 5/minute {}; 2s peek 3; 2s check 5; knock 5",
    ),
    # Clocks that go back, and clocks that jump.
    Story(
        "back-a-tick",
        "a clock that goes back by one tick grants nothing",
        "3/minute {}",
        "1m check 2; 1m-1 check; 1m-1 check; 1m check; retry-1 peek; now+1 check",
    ),
    Story(
        "back-a-second",
        "a peek forgets the step, a denial remembers it",
        "3/minute {}",
        "30s check 3; 29s peek; 30s peek; 29s check; 30s peek; 30s check; knock",
    ),
    Story(
        "back-a-window",
        "a clock that goes back by one window",
        "3/minute {}",
        "50s check 2; 70s check; 10s check; 10s check 3; knock 3",
    ),
    Story(
        "back-a-day",
        "after a large step the wait is that of a full window, not of a day",
        "3/minute {}",
        "1d check; 1d+20s check; 0 check 2; 0 check; knock; 1d+1m check 3",
    ),
    Story(
        "back-with-receipts",
        "receipts from before a step back",
        "6/minute {}",
        "30s check 2 as first; 40s check 2 as second; 35s check; 36s refund second 2; 36s peek; 37s refund first 2; 37s peek",
    ),
    Story(
        "jump",
        "a clock that jumps forward, by a tick too little and exactly",
        "3/minute {}",
        "0 check 3; reset-1 peek 3; now+1 peek 3; now check 3; 1y check 3; 30y check 3; 30y check",
    ),
    # Odd rates.
    Story(
        "odd-rate",
        "a rate that is no whole number of nanoseconds does not drift",
        "3/7s {}",
        "0 check 3; " + "now check; retry check; " * 9 + "now check 3; knock 3",
    ),
    Story(
        "odd-seven",
        "seven a minute, asked for in odd moments",
        "7/minute {}",
        "; ".join(f"{i * 3_333_333_333} check {1 + i % 3}" for i in range(16)) + "; knock",
    ),
]
"""Every algorithm that counts over time has to tell these."""

LOGS = [
    Story(
        "refund-at-the-edge",
        "one tick before a charge leaves it can be given back, at that tick no more",
        "5/minute {}",
        "0 check 2 as first; 0 check 2 as second; 10s check; 1m-1 refund first 1; 1m-1 peek; 1m refund second 1; 1m peek",
    ),
]
"""And the two logs these."""

GCRA = [
    Story(
        "timeline",
        "the rows of the header of gcra.rs",
        "60/minute burst 3",
        "0 check; 0 check; 0 check; 0 check; 500ms check; 1s check; 9s check 4",
    ),
    Story("burst-above-limit", "a burst larger than the limit", "1/second burst 5", "0 check 5; 0 check 5; knock 5; now check 6"),
    Story("burst-0", "a burst of 0 denies everything", "60/minute burst 0", "0 check; 0 debit 1; 1m peek 0"),
    Story(
        "fraction",
        "7 per minute is no whole number of nanoseconds, and nothing is ever rounded in the state",
        "7/minute burst 5",
        "0 check 5; " + "now check; knock; " * 10 + "now+1m peek 5",
    ),
    Story(
        "fraction-refund",
        "a part of a fractional charge comes back",
        "7/minute burst 5",
        "0 check 3 as first; 0 check 2; 10s refund first 3; 10s peek 5; retry-1 check 5; now+1 check 5",
    ),
    Story(
        "refund-in-parts",
        "two parts never give back more than is still ahead",
        "60/minute burst 3",
        "0 check 3 as first; 2s check 2; 2s refund first 1; 2s peek; 2s refund first 1; 2s peek",
    ),
    Story(
        "rate-changed",
        "the state is a time, so the used share is kept when the rate changes",
        "7/minute burst 5",
        "0 check 5; 1s load 11/minute burst 5; 1s peek 5; 2s load 7/minute burst 5; 2s peek 5; 3s load 14/2m burst 3; 3s peek; knock",
    ),
    Story(
        "rate-changed-refund",
        "a receipt of another rate is worth nothing",
        "60/minute burst 6",
        "0 check 2 as first; 0 check 2; 0 load 30/minute burst 6; 0 refund first 2; 0 peek; 0 check 4; knock 4",
    ),
    Story(
        "rate-changed-while-closed",
        "a receipt of another rate is worth nothing, also if the limit was 0 in between",
        "60/minute burst 6",
        "0 check 2; 0 check 2 as second; 0 load 0/minute burst 6; 0 load 30/minute burst 6; 0 refund second 2; 0 peek",
    ),
    Story(
        "burst-lowered",
        "usage above a lowered burst is clamped to burst and debt",
        "60/minute burst 10",
        "0 check 10; 0 load 60/minute burst 2; 0 peek; 0 check; 0 load 60/minute burst 10; 0 check; knock",
    ),
    Story(
        "huge",
        "2^53 units in about a day",
        {"limit": HUGE, "period_ns": 3 * 2**45, "algorithm": "gcra"},
        f"0 check {HUGE}; 0 check; knock; now check {HUGE}; knock {HUGE}",
    ),
]

LEAKY_BUCKET = [
    Story(
        "timeline",
        "the rows of the header of leaky_bucket.rs",
        "10/second queue 200ms",
        "0 check; 0 check; 0 check; 0 check; 50ms check; 100ms check",
    ),
    Story(
        "cost-n",
        "a dear request is admitted when its own delay fits, and those behind it wait for all of it",
        "10/second queue 200ms",
        "0 check 3; 0 check; 100ms check 3; 100ms check; knock; now check 4",
    ),
    Story(
        "limit-0",
        "a limit of 0 denies everything and never is said",
        "0/second queue 200ms",
        f"0 peek 0; 0 check; 1 debit 1; 1d check {HUGE}",
    ),
    Story(
        "no-queue",
        "without a queue a request starts at once or not at all",
        "10/second leaky_bucket",
        "0 check; 0 check; knock; now check 2",
    ),
    Story(
        "nodelay",
        "some start at once although the queue is not empty",
        "10/second queue 200ms nodelay 2",
        "0 check; " * 6 + "knock; 1s peek 0",
    ),
    Story(
        "max-cost",
        "a cost above max_cost is never admitted",
        "10/second queue 200ms max_cost 2",
        "0 check 3; 0 check 2; 0 check 2; 0 check 2; knock 2",
    ),
    Story(
        "fraction",
        "7 per minute is no whole number of nanoseconds; delays are rounded up",
        "7/minute queue 20s",
        "0 check; " * 5 + "now check; knock; " * 4,
    ),
    Story(
        "queue-between",
        "a queue that is no multiple of the spacing",
        "10/second queue 250ms",
        "0 check; " * 4 + "knock; reset-1 peek; now+1 peek",
    ),
    Story(
        "peek",
        "asking without taking changes nothing",
        "10/second queue 200ms",
        "0 peek 0; 0 peek 4; 0 check 0; 0 check 2; 0 peek; 0 peek 3; 0 check; 0 peek 0",
    ),
    Story(
        "refund",
        "a waiter that gives up shortens the queue",
        "10/second queue 200ms",
        "0 check; 0 check as second; 0 check; 0 refund second 1; 0 peek; 50ms check; 50ms check",
    ),
    Story(
        "refund-late",
        "what has drained does not come back",
        "10/second queue 500ms",
        "0 check 4 as first; 300ms check 2 as second; 350ms refund first 4; 350ms peek; 1s refund second 2; 1s peek",
    ),
    Story(
        "refund-in-parts",
        "two parts never give back more than is still ahead",
        "10/second queue 500ms",
        "0 check 3 as first; 200ms check 2; 200ms refund first 1; 200ms peek; 200ms refund first 1; 200ms peek",
    ),
    Story(
        "debit",
        "a debit lengthens the queue beyond what admission can, up to a bound",
        "10/second queue 200ms",
        f"0 debit 2; 0 check; 0 debit 4; 0 check; 0 debit {HUGE}; 0 check; knock",
    ),
    Story(
        "debit-0",
        "a debit of nothing changes nothing, also not what a step back finds",
        "10/second queue 200ms",
        "0 check; 1s debit 0; 1s-50ms peek; 1s peek",
    ),
    Story(
        "debit-none",
        "without debt a debit stops where admissions do",
        "10/second queue 200ms max_debt 0",
        f"0 debit {HUGE}; 0 check 0; 0 check; knock",
    ),
    Story(
        "min-interval",
        "two requests keep their distance",
        "10/second queue 1s min_interval 250ms",
        "0 check; 0 check; knock; now peek 0; now+250ms peek",
    ),
    Story(
        "limit-changed",
        "the backlog is a time, and is kept",
        "10/second queue 400ms",
        "0 check; " * 5 + "0 load 20/second queue 400ms; 0 check; 100ms load 3/second queue 400ms; 100ms check; 100ms check; knock",
    ),
    Story(
        "limit-closed",
        "a limit of 0 and back again: the backlog is still there",
        "10/second queue 400ms",
        "0 check 3; 0 load 0/second queue 400ms; 0 check; 100ms load 10/second queue 400ms; 100ms check",
    ),
    Story(
        "back",
        "after a step back the backlog is the longest that can be, not longer",
        "10/second queue 200ms max_debt 0",
        "1d check; 1d check; 1d-50ms peek; 1d-50ms check; 0 check; knock; 1d check",
    ),
    Story(
        "jump",
        "a clock that jumps forward, by a tick too little and exactly",
        "10/second queue 200ms",
        "0 check 3; 300ms-1 peek 3; 300ms peek 3; 30y check 3",
    ),
]

FIXED_WINDOW = [
    Story(
        "timeline",
        "the rows of the header of fixed_window.rs",
        "3/minute fixed_window",
        "50s check; 50s check 2; 50s check; 59s check; 60s check 3; 61s check 4",
    ),
    Story(
        "boundary",
        "one tick before the boundary and at it",
        "2/minute fixed_window",
        "1m-1 check 2; 1m-1 check; 1m check 2; 1m check",
    ),
    Story(
        "odd-window",
        "windows are counted from the epoch, not from the first request",
        "2/7s fixed_window",
        "0 check 2; 0 check; knock; now check 2; knock 2",
    ),
    Story(
        "refund-next-window",
        "a refund is lost once the window is over",
        "2/minute fixed_window",
        "1m-1 check 2 as first; 1m check; 1m refund first 2; 1m peek",
    ),
    Story(
        "huge",
        "2^53 units in 365 days",
        f"{HUGE}/365d fixed_window",
        f"0 check {HUGE - 1}; 0 check 2; 0 check; 0 debit {HUGE}; 0 check",
    ),
    Story(
        "berlin-midnight",
        "a day ends at midnight in its zone",
        "2/day calendar Europe/Berlin",
        "0-1 check 2; 0-1 check; 0 check 2; 0 check; knock",
        start=1_767_308_400_000_000_000,  # 2026-01-01T23:00:00Z
    ),
    Story(
        "berlin-spring",
        "the day on which the clocks are put forward has 23 hours",
        "2/day calendar Europe/Berlin",
        "0 check 2; 0 check; knock",
        start=1_774_738_800_000_000_000,  # 2026-03-28T23:00:00Z
    ),
    Story(
        "berlin-autumn",
        "the day on which the clocks are put back has 25 hours",
        "2/day calendar Europe/Berlin",
        "0 check 2; 0 check; knock",
        start=1_792_879_200_000_000_000,  # 2026-10-24T22:00:00Z
    ),
    *(
        Story(
            f"calendar-{unit}",
            f"one window per {unit} in New York",
            f"2/{unit} calendar America/New_York",
            "0 check 2; 0 check; knock; now check 2; knock 2",
            start=START + 5 * 86_400_000_000_000 + 7,
        )
        for unit in ("minute", "hour", "day", "week", "month", "year")
    ),
]

SLIDING_WINDOW = [
    Story(
        "timeline",
        "the rows of the header of sliding_window.rs",
        "3/minute",
        "0 check; 20s check; 40s check; 50s check; 60s check; 60s check 2; 61s check 4",
    ),
    Story(
        "merge",
        "with two pairs the cheapest neighbours are merged, and the later time is kept",
        "9/minute entries 2",
        "0 check; 10s check; 13s check; 30s check; 31s check; 50s check; 1m peek 0; "
        "70s-1 peek 0; 70s peek 0; 73s-1 peek 0; 73s peek 0; 91s-1 peek 0; 91s peek 0; 110s-1 peek 0; 110s peek 0",
    ),
    Story(
        "merge-weight",
        "counts weigh: a large pair is not moved for a small one",
        "20/minute entries 3",
        "0 check 9; 5s check; 12s check; 20s check 2; 21s check; 60s peek 0; 65s peek 0; 72s peek 0; 80s peek 0; 81s peek 0",
    ),
    Story(
        "merge-tie",
        "of equally cheap neighbours the oldest are merged",
        "9/minute entries 2",
        "0 check; 10s check; 20s check; 60s peek 0; 70s peek 0; 80s peek 0",
    ),
    Story(
        "merge-one",
        "a single pair moves to the newest time",
        "3/minute entries 1",
        "0 check; 30s check; 59s check; 60s check; knock",
    ),
    Story(
        "merge-refund",
        "a charge is found in the pair that it was merged into",
        "9/minute entries 2",
        "0 check 2 as first; 1s check 2; 30s check 2; 31s refund first 2; 31s peek 0; 60s peek 0; 61s peek 0",
    ),
    Story(
        "merge-refund-late",
        "a charge that has left is not taken from the pair that it was merged into",
        "9/minute entries 2",
        "0 check 2 as first; 1s check 2; 30s check 2; 60s refund first 2; 60s peek 0",
    ),
    Story(
        "entries-16",
        "with seventeen busy ticks the default of sixteen pairs holds one unit back",
        "17/minute",
        "; ".join(f"{i}s check" for i in range(18)) + "; 60s peek 0; 61s peek 0; 62s peek 0",
    ),
    Story(
        "entries-changed",
        "fewer pairs are merged with the next charge",
        "9/minute entries 3",
        "0 check; 10s check; 30s check; 31s load 9/minute entries 1; 31s peek 0; 32s check; 91s peek 0",
    ),
    Story(
        "unlimited",
        "no limit: a value of its own",
        "unlimited",
        f"0 check {HUGE}; 0 peek {HUGE}; 0 debit {HUGE}; 0 check 0",
    ),
    Story(
        "huge",
        "2^53 units in 365 days",
        f"{HUGE}/365d",
        f"0 check {HUGE - 1}; 1 check 2; 1 check; 2 debit {HUGE}; 2 check; knock",
    ),
]

SLIDING_WINDOW_LOG = [
    Story(
        "timeline",
        "the rows of the header of sliding_window_log.rs",
        "3/minute sliding_window_log",
        "0 check 2; 30s check; 30s check; 60s check 2; 60s check",
    ),
    Story(
        "same-tick",
        "requests of one tick are told apart",
        "4/minute sliding_window_log",
        "0 check as first; 0 check as second; 0 check 2; 0 refund first 1; 0 peek; 0 refund second 1; 0 peek",
    ),
    Story(
        "debit-nothing",
        "a debit that changes nothing does not delay the reset",
        "2/minute sliding_window_log max_debt 0",
        "0 check 2; 30s debit 1; 40s debit 0; 60s peek 0",
    ),
]

SLIDING_WINDOW_COUNTER = [
    Story(
        "timeline",
        "the rows of the header of sliding_window_counter.rs",
        "10/minute sliding_window_counter",
        "50s check 10; 50s check; 60s check; 66s check; 90s check 4; 90s check",
    ),
    Story(
        "interpolation",
        "the previous window fades tick by tick",
        "10/minute sliding_window_counter",
        "30s check 7; 59s peek 5; 60s peek 5; 61s peek 5; 70s peek 5; 80s peek 5; 119s peek 5; 90s check 5; 90s check 3; knock 3",
    ),
    Story(
        "fraction",
        "an estimate with a fraction is not rounded down",
        "100/minute sliding_window_counter",
        "0 check 99; 90s peek 50; 90s peek 51; 90s check 50; 90s check; knock",
    ),
    Story(
        "refund-rolled",
        "a charge is found in the window before, and not in the one before that",
        "10/minute sliding_window_counter",
        "50s check 8 as first; 75s check 2; 80s refund first 3; 80s peek; 121s refund first 5; 121s peek",
    ),
    Story(
        "huge",
        "2^53 units in 365 days",
        f"{HUGE}/365d sliding_window_counter",
        f"0 check {HUGE}; 1y check {HUGE // 3}; knock {HUGE // 3}; now debit {HUGE}; now check; knock",
    ),
]

RING = "sliding_window_counter buckets"
SLIDING_WINDOW_RING = [
    Story(
        "timeline",
        "the rows of the header of sliding_window_ring.rs",
        f"6/minute {RING} 6",
        "5s check 4; 15s check 2; 15s check",
    ),
    Story(
        "buckets-2",
        "the fewest sub-windows",
        f"4/minute {RING} 2",
        "29s check 2; 30s check 2; now check; knock; now check 3; knock 3",
    ),
    Story(
        "uneven",
        "a window that the buckets do not divide is rounded up",
        f"4/10us {RING} 3",
        "0 check; 3333 check; 3334 check; 6668 check; now check; knock; now check 2; knock 2; now check 3; knock 3; now check 4; knock 4",
    ),
    Story(
        "refund-bucket",
        "a charge is found in its bucket until that has left",
        f"9/minute {RING} 6",
        "9s check 3 as first; 12s check 3; 50s refund first 1; 50s peek; 70s-1 refund first 1; 70s-1 peek; 70s refund first 1; 70s peek",
    ),
    Story(
        "last-tick",
        "on its last tick a bucket has left, and a tick back it counts again",
        f"2/minute {RING} 6",
        "0 check 2; 70s-2 check; 70s-1 peek; 70s-1 check 3; 70s-2 peek; 70s check 2",
    ),
    Story(
        "huge",
        "2^53 units in 365 days",
        f"{HUGE}/365d {RING} 60",
        f"0 check {HUGE - 1}; 1d check 2; 1d debit {HUGE}; 1d check; knock",
    ),
]

CONCURRENCY = [
    Story(
        "timeline",
        "the rows of the header of concurrency.rs",
        "2 concurrent ttl 30s",
        "0 check lease 0a; 1s check lease 0b; 2s check lease 0c; 20s renew 0a; 21s release 0b; 21s check lease 0c",
    ),
    Story(
        "expiry",
        "one tick before a lease expires and at it",
        "1 concurrent ttl 30s",
        "0 check lease 01; 30s-1 check lease 02; 30s check lease 02; 30s renew 01; 30s release 01",
    ),
    Story(
        "renewal",
        "a renewed lease outlives its first term, a lost one does not come back",
        "1 concurrent ttl 30s",
        "0 check lease 01; 30s-1 renew 01; 59s check lease 02; 1m-1 renew 01; 1m-1 peek",
    ),
    Story(
        "idempotent",
        "the same id takes no second slot, keeps its weight and is renewed",
        "3 concurrent ttl 30s",
        "0 check 2 lease 01; 1s check 2 lease 01; 2s check lease 01; 3s check 2 lease 02; 3s check lease 02; "
        "4s check 2 lease 01; 4s check 4 lease 01",
    ),
    Story(
        "release",
        "a second release finds nothing, and an unknown lease is no error",
        "2 concurrent",
        f"0 check 2 lease {'f' * 32}; 1s release {'f' * 32}; 1s release {'f' * 32}; 1s release 01; 1s renew 01; 1s peek 2",
    ),
    Story(
        "weights",
        "leases of several slots, the first to expire first",
        "5 concurrent ttl 10s",
        "0 check 2 lease 01; 1s check lease 02; 2s check 2 lease 03; 3s renew 01; 4s check lease 04; 4s check 2 lease 04; "
        "4s check 3 lease 04; 4s check 4 lease 04; 4s check 5 lease 04; 4s check 6 lease 04",
    ),
    Story(
        "long-ids",
        "all 128 bits of an id count",
        "3 concurrent",
        "0 check lease 00000001000000000000000000000007; 0 check lease 00000002000000000000000000000007; 0 release 7; "
        "0 release 00000001000000000000000000000007; 0 peek 2",
    ),
    Story(
        "two-keys",
        "the same id under two keys is two leases",
        "1 concurrent",
        "0 check lease 01; 0 check by b lease 01; 0 release 01; 0 peek; 0 peek by b",
    ),
    Story(
        "peek",
        "asking without taking changes nothing",
        "2 concurrent ttl 30s",
        "0 peek 0; 0 peek 3; 0 check 2 lease 01; 1s peek 0; 1s peek; 30s peek",
    ),
    Story(
        "peek-id-0",
        "a peek has no id, so it is not the holder of the lease with number 0",
        "1 concurrent",
        "0 check lease 00; 0 peek; 0 check lease 00",
    ),
    Story("debit", "slots cannot be owed", "2 concurrent", f"0 debit 2; 0 check lease 01; 0 debit {HUGE}; 0 peek"),
    Story("limit-0", "a limit of 0 denies everything", "0 concurrent", "0 check lease 01; 0 peek 0; 0 release 01"),
    Story(
        "limit-changed",
        "leases drain under a lower limit",
        "3 concurrent ttl 30s",
        "1s check lease 01; 2s check lease 02; 3s check lease 03; 4s load 1 concurrent ttl 30s; 4s peek 0; 4s check lease 04; "
        "5s release 02; 5s check lease 03; 6s release 01; 6s check lease 04; 7s load 4 concurrent ttl 10s; 7s renew 03; "
        "7s check 3 lease 04; 7s check 3 lease 05",
    ),
    Story(
        "limit-closed",
        "a limit of 0 and back again: the leases are still held",
        "3 concurrent ttl 30s",
        "0 check 2 lease 01; 1s load 0 concurrent ttl 30s; 1s check lease 02; 2s load 3 concurrent ttl 30s; 2s peek; 2s release 01",
    ),
    Story(
        "limit-closed-draining",
        "under a limit of 0 those who hold slots renew and release them as ever",
        "3 concurrent ttl 30s",
        "0 check lease 01; 0 check lease 02; 1s load 0 concurrent ttl 30s; 20s renew 01; 20s release 02; 20s check lease 03; "
        "40s load 3 concurrent ttl 30s; 40s peek; 40s renew 02; 40s renew 01",
    ),
    Story(
        "back",
        "a clock that goes back lets leases last longer",
        "1 concurrent ttl 30s",
        "1m check lease 01; 30s check lease 02; 30s renew 01; 1m-1 check lease 02; 1m check lease 02",
    ),
    Story(
        "jump",
        "a clock that jumps forward ends leases",
        "1 concurrent",
        "0 check lease 01; 30y check lease 02; 30y renew 01",
    ),
    Story(
        "huge",
        "the most slots of one key",
        "100000 concurrent ttl 1d",
        f"0 check 99999 lease 01; 0 check 2 lease 02; 0 check lease 02; 0 check {HUGE} lease 03",
    ),
]

RANDOM: dict[str, list[str]] = {
    "gcra": ["7/minute burst 5", "3/7s gcra", "60/minute burst 4 max_debt 1", "11/13s burst 6 min_interval 1s"],
    "leaky_bucket": ["7/minute queue 30s", "10/second queue 350ms nodelay 2", "3/7s queue 10s max_cost 4 max_debt 2"],
    "fixed_window": ["5/7s fixed_window", "9/minute fixed_window max_debt 3"],
    "sliding_window": ["5/minute", "12/minute entries 2", "20/7s entries 3", "9/10s entries 4 max_debt 2 min_interval 100ms"],
    "sliding_window_log": [f"{rate} sliding_window_log" for rate in ("5/minute", "12/7s")] + ["9/10s sliding_window_log max_debt 2"],
    "sliding_window_counter": [f"{rate} sliding_window_counter" for rate in ("5/minute", "12/7s")]
    + ["9/10s sliding_window_counter max_debt 2"],
    "sliding_window_ring": [f"5/minute {RING} 4", f"12/7s {RING} 3", f"9/10s {RING} 10 max_debt 2"],
    "concurrency": ["3 concurrent ttl 10s", "8 concurrent ttl 7s"],
}
"""Quotas for histories by the dice."""

STORIES: dict[str, list[Story]] = {
    "gcra": GCRA + [story.under("gcra") for story in COMMON],
    "leaky_bucket": LEAKY_BUCKET,
    "fixed_window": FIXED_WINDOW + [story.under("fixed_window") for story in COMMON],
    "sliding_window": SLIDING_WINDOW + [story.under("sliding_window") for story in COMMON + LOGS],
    "sliding_window_log": SLIDING_WINDOW_LOG + [story.under("sliding_window_log") for story in COMMON + LOGS],
    "sliding_window_counter": SLIDING_WINDOW_COUNTER + [story.under("sliding_window_counter") for story in COMMON],
    "sliding_window_ring": SLIDING_WINDOW_RING + [story.under(f"{RING} 6") for story in COMMON],
    "concurrency": CONCURRENCY,
}
"""By the name of the file. The first story of each is the timeline that its documentation shows."""
