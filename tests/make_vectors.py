"""
Writes the truth tables in `testdata/vectors`, one file per algorithm, from what the oracle says.

    python tests/make_vectors.py            writes the files
    python tests/make_vectors.py --check    fails if a file differs from what would be written

The tables are stories: each line of a function below is a row. What a row must answer is asked of `tests/oracle.py`, never of the package.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from oracle import SECOND, START, Answer, Oracle, Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Quota: TypeAlias = str | Mapping[str, Any]
    Row: TypeAlias = dict[str, Any]

FOLDER = Path(__file__).parent.parent / "testdata" / "vectors"
MILLISECOND = SECOND // 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
YEAR = 365 * DAY
HUGE = 2**53


@dataclass
class Table:
    """
    A story under one quota, told to the oracle while it is written down.
    """

    name: str
    about: str
    quota: Quota
    start: int = START
    rows: list[Row] = field(default_factory=list)
    taken: dict[int, Taken] = field(default_factory=dict)
    now: int = 0
    said: Answer | None = None

    def __post_init__(self) -> None:
        self.oracle = Oracle(self.quota)

    def check(self, at: int, cost: int = 1, *, key: str = "a", lease: str | None = None) -> int:
        """
        Adds a check; the result names the row for a refund.
        """
        taken = self.oracle.check(self.start + at, key, cost, lease)
        self.taken[len(self.rows)] = taken
        return self._add(at, "check", taken.answer, key=key, cost=cost, **({"lease": lease} if lease else {}))

    def peek(self, at: int, cost: int = 1, *, key: str = "a") -> None:
        """
        Adds a peek.
        """
        self._add(at, "peek", self.oracle.peek(self.start + at, key, cost), key=key, cost=cost)

    def debit(self, at: int, cost: int, *, key: str = "a") -> None:
        """
        Adds a debit.
        """
        self._add(at, "debit", self.oracle.debit(self.start + at, key, cost), key=key, cost=cost)

    def refund(self, at: int, of: int, cost: int) -> None:
        """
        Adds a refund of the check in row `of`.
        """
        key = self.rows[of]["key"]
        self.oracle.refund(self.start + at, key, self.taken[of], cost)
        self._add(at, "refund", None, key=key, of=of, cost=cost)

    def renew(self, at: int, lease: str, *, key: str = "a") -> None:
        """
        Adds a renewal.
        """
        held = self.oracle.renew(self.start + at, key, lease)
        self._add(at, "renew", None, key=key, lease=lease, expect={"held": held})

    def release(self, at: int, lease: str, *, key: str = "a") -> None:
        """
        Adds a release.
        """
        held = self.oracle.release(self.start + at, key, lease)
        self._add(at, "release", None, key=key, lease=lease, expect={"held": held})

    def load(self, at: int, quota: Quota) -> None:
        """
        Changes the limit.
        """
        self.oracle.load(quota)
        self._add(at, "load", None, quota=quota)

    def retry_at(self) -> int:
        """
        When the last denial said to come again.
        """
        assert self.said is not None
        assert self.said.retry_after is not None
        return self.now + self.said.retry_after

    def reset_at(self) -> int:
        """
        When the last answer said that nothing is used any more.
        """
        assert self.said is not None
        return self.now + self.said.reset_after

    def knock(self, cost: int = 1, *, key: str = "a") -> None:
        """
        After a denial: asks one tick before the promised instant, and at it. Nothing is added when there was none.
        """
        if self.said is not None and self.said.allowed:
            return
        at = self.retry_at()
        self.check(at - 1, cost, key=key)
        self.check(at, cost, key=key)

    def _add(self, at: int, do: str, answer: Answer | None, **rest: Any) -> int:  # noqa: ANN401  # a row of JSON
        self.now = at
        row: Row = {"at": at, "do": do, **rest}
        if answer is not None:
            self.said = answer
            row["expect"] = asdict(answer)
        self.rows.append(row)
        return len(self.rows) - 1


# --- Stories that every window and bucket has to tell -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """
    How one algorithm writes its quotas, and how long it remembers.
    """

    suffix: str
    memory: Callable[[int], int] = lambda window: 2 * window
    """From a window to a time after which a charge is forgotten."""

    def quota(self, rate: str, *clauses: str) -> str:
        """
        The quota text for a rate such as `5/minute`.
        """
        return " ".join(part for part in (rate, self.suffix, *clauses) if part)


def common(kind: Kind) -> Iterator[Table]:
    """
    The stories of all algorithms that count over time.
    """
    yield from asking(kind)
    yield from giving_back(kind)
    yield from owing(kind)
    yield from gaps(kind)
    yield from changing(kind)
    yield from stepping(kind)
    yield from sizes(kind)


def asking(kind: Kind) -> Iterator[Table]:
    """
    Costs, peeks and what is never admitted.
    """
    table = Table("cost-n", "costs above 1 fit or do not, as a whole", kind.quota("5/minute"))
    for at, cost in [(0, 2), (SECOND, 2), (SECOND, 2), (SECOND, 1), (SECOND, 1)]:
        table.check(at, cost)
    table.knock()
    table.check(table.now, 5)
    table.knock(5)
    yield table

    table = Table("edges", "a denial is true to the tick, whatever the cost", kind.quota("4/10s"), start=START + 3 * SECOND)
    table.check(0, 1)
    table.check(1, 1)
    table.check(3 * SECOND, 2)
    for cost in (1, 2, 3, 4):
        table.check(table.now, cost)
        table.knock(cost)
    yield table

    table = Table("limit-0", "a limit of 0 denies everything and never is said", kind.quota("0/minute"))
    table.peek(0, 0)
    table.check(0, 0)
    table.check(0, 1)
    table.debit(1, 1)
    table.check(DAY, HUGE)
    yield table

    table = Table("limit-1", "one at a time", kind.quota("1/second"))
    table.check(0)
    table.check(0)
    for _ in range(3):
        table.check(table.now)
        table.knock()
    yield table

    table = Table("never", "a cost above the capacity is never admitted, and does not count", kind.quota("3/minute"))
    table.check(0, 4)
    table.check(0, HUGE)
    table.peek(0, 4)
    table.check(0, 3)
    table.check(1, 4)
    table.check(10 * MINUTE, 4)
    table.check(10 * MINUTE, 3)
    yield table

    table = Table("peek", "asking without taking changes nothing", kind.quota("3/minute"))
    for cost in (0, 1, 3, 4):
        table.peek(0, cost)
    table.check(0, 0)
    table.check(0, 2)
    for cost in (0, 1, 2, 3):
        table.peek(SECOND, cost)
    table.check(SECOND, 1)
    table.check(SECOND, 1)
    table.peek(table.retry_at() - 1)
    table.peek(table.now + 1)
    table.check(table.now)
    yield table

    table = Table("two-keys", "keys do not share anything", kind.quota("2/minute"))
    table.check(0, 2)
    table.check(0, key="b")
    table.check(SECOND)
    table.check(SECOND, key="b")
    table.check(SECOND, key="b")
    table.knock(key="b")
    table.check(table.now)
    yield table


def giving_back(kind: Kind) -> Iterator[Table]:
    """
    Refunds: only what still counts comes back.
    """
    table = Table("refund", "at once everything comes back, or a part", kind.quota("5/minute"))
    first = table.check(0, 3)
    table.refund(0, first, 3)
    table.peek(0)
    second = table.check(SECOND, 4)
    table.refund(SECOND, second, 1)
    table.peek(SECOND)
    table.refund(2 * SECOND, second, 2)
    table.peek(2 * SECOND)
    table.check(2 * SECOND, 5)
    table.knock(5)
    yield table

    table = Table("refund-late", "a refund gives back nothing that has left by itself", kind.quota("3/minute"))
    first = table.check(0, 2)
    forgotten = kind.memory(MINUTE)
    table.check(forgotten, 3)
    table.refund(forgotten + SECOND, first, 2)
    table.peek(forgotten + SECOND)
    table.check(forgotten + SECOND)
    yield table

    table = Table("refund-halfway", "after a while only a part of the charge is left", kind.quota("6/minute"))
    first = table.check(0, 6)
    table.check(35 * SECOND, 3)
    table.refund(40 * SECOND, first, 6)
    table.peek(40 * SECOND)
    table.check(45 * SECOND, 2)
    table.peek(MINUTE + 1)
    yield table

    table = Table("refund-between", "the refund of one request leaves those before and after it alone", kind.quota("6/minute"))
    table.check(0)
    second = table.check(10 * SECOND, 2)
    table.check(20 * SECOND)
    table.refund(30 * SECOND, second, 1)
    table.peek(30 * SECOND)
    table.refund(40 * SECOND, second, 1)
    for at in (40 * SECOND, MINUTE - 1, MINUTE, 70 * SECOND, 80 * SECOND):
        table.peek(at)
    table.check(80 * SECOND, 6)
    table.knock(6)
    yield table


def owing(kind: Kind) -> Iterator[Table]:
    """
    Debits: what was used is counted, also above the limit.
    """
    table = Table("debit", "a debit is not asked for, may overdraw, and is worked off", kind.quota("4/minute"))
    table.debit(0, 3)
    table.check(0, 2)
    table.debit(SECOND, 3)
    table.peek(SECOND, 0)
    table.check(SECOND)
    table.knock()
    table.check(table.now, 4)
    table.knock(4)
    yield table

    table = Table("debit-bound", "by default one capacity can be owed, and no more", kind.quota("4/minute"))
    table.debit(0, 3)
    table.debit(0, HUGE)
    table.debit(SECOND, 1)
    table.check(SECOND)
    table.knock()
    yield table

    table = Table("debit-none", "without debt a debit stops at the limit", kind.quota("4/minute", "max_debt 0"))
    table.check(0, 3)
    table.debit(SECOND, 5)
    table.check(SECOND)
    table.knock()
    yield table

    table = Table("debit-some", "a debt of two units", kind.quota("4/minute", "max_debt 2"))
    table.check(0, 4)
    table.debit(10 * SECOND, 1)
    table.debit(20 * SECOND, 9)
    table.peek(20 * SECOND, 0)
    table.check(20 * SECOND, 1)
    table.knock()
    yield table


def gaps(kind: Kind) -> Iterator[Table]:
    """
    The smallest gap between two admitted requests.
    """
    table = Table("min-interval", "two requests keep their distance, whatever is left", kind.quota("3/minute", "min_interval 500ms"))
    table.check(0)
    table.check(0)
    table.knock()
    table.check(table.now, 4)
    table.peek(table.now, 0)
    table.debit(3 * SECOND, 1)
    table.check(3 * SECOND)
    table.knock()
    table.check(table.now)
    yield table

    table = Table("min-interval-back", "a gap that began in the future begins now", kind.quota("9/minute", "min_interval 5s"))
    table.check(10 * SECOND)
    table.check(9 * SECOND)
    table.check(0)
    table.knock()
    yield table


def changing(kind: Kind) -> Iterator[Table]:
    """
    The limit is changed while there is something in use.
    """
    table = Table("limit-raised", "a higher limit acts at once, and what was used stays used", kind.quota("3/minute"))
    table.check(0, 3)
    table.check(SECOND)
    table.load(SECOND, kind.quota("5/minute"))
    table.peek(SECOND)
    table.check(SECOND, 5)
    table.knock(5)
    yield table

    table = Table("limit-lowered", "a lower limit acts at once, and nothing is forgiven", kind.quota("5/minute"))
    first = table.check(0, 2)
    table.check(10 * SECOND, 2)
    table.load(20 * SECOND, kind.quota("2/minute"))
    table.peek(20 * SECOND, 0)
    table.check(20 * SECOND)
    table.debit(20 * SECOND, 1)
    table.refund(21 * SECOND, first, 1)
    table.check(21 * SECOND)
    table.knock()
    table.check(table.now, 3)
    yield table

    table = Table("limit-closed", "a limit of 0 and back again: what was used is still used", kind.quota("5/minute"))
    table.check(0, 3)
    table.load(SECOND, kind.quota("0/minute"))
    table.check(SECOND)
    table.peek(SECOND)
    table.load(2 * SECOND, kind.quota("5/minute"))
    table.peek(2 * SECOND, 3)
    table.check(2 * SECOND, 5)
    table.knock(5)
    yield table


def stepping(kind: Kind) -> Iterator[Table]:
    """
    Clocks that go back, and clocks that jump.
    """
    table = Table("back-a-tick", "a clock that goes back by one tick grants nothing", kind.quota("3/minute"))
    table.check(MINUTE, 2)
    table.check(MINUTE - 1, 1)
    table.check(MINUTE - 1, 1)
    table.check(MINUTE)
    table.peek(table.retry_at() - 1)
    table.check(table.now + 1)
    yield table

    table = Table("back-a-second", "a peek forgets the step, a denial remembers it", kind.quota("3/minute"))
    table.check(30 * SECOND, 3)
    table.peek(29 * SECOND)
    table.peek(30 * SECOND)
    table.check(29 * SECOND)
    table.peek(30 * SECOND)
    table.check(30 * SECOND)
    table.knock()
    yield table

    table = Table("back-a-window", "a clock that goes back by one window", kind.quota("3/minute"))
    table.check(50 * SECOND, 2)
    table.check(70 * SECOND, 1)
    table.check(10 * SECOND, 1)
    table.check(10 * SECOND, 3)
    table.knock(3)
    yield table

    table = Table("back-a-day", "after a large step the wait is that of a full window, not of a day", kind.quota("3/minute"))
    table.check(DAY, 1)
    table.check(DAY + 20 * SECOND, 1)
    table.check(0, 2)
    table.check(0, 1)
    table.knock()
    table.check(DAY + MINUTE, 3)
    yield table

    table = Table("back-with-receipts", "receipts from before a step back", kind.quota("6/minute"))
    first = table.check(30 * SECOND, 2)
    second = table.check(40 * SECOND, 2)
    table.check(35 * SECOND, 1)
    table.refund(36 * SECOND, second, 2)
    table.peek(36 * SECOND)
    table.refund(37 * SECOND, first, 2)
    table.peek(37 * SECOND)
    yield table

    table = Table("jump", "a clock that jumps forward, by a tick too little and exactly", kind.quota("3/minute"))
    table.check(0, 3)
    reset_at = table.reset_at()
    table.peek(reset_at - 1, 3)
    table.peek(reset_at, 3)
    table.check(reset_at, 3)
    table.check(YEAR, 3)
    table.check(30 * YEAR, 3)
    table.check(30 * YEAR, 1)
    yield table


def sizes(kind: Kind) -> Iterator[Table]:
    """
    Odd rates and large numbers.
    """
    table = Table("odd-rate", "a rate that is no whole number of nanoseconds does not drift", kind.quota("3/7s"))
    table.check(0, 3)
    for _ in range(9):
        table.check(table.now)
        table.check(table.retry_at())
    table.check(table.now, 3)
    table.knock(3)
    yield table

    table = Table("odd-seven", "seven a minute, asked for in odd moments", kind.quota("7/minute"))
    for i in range(16):
        table.check(i * 3_333_333_333, 1 + i % 3)
    table.knock(1)
    yield table


def random_tables(quotas: list[Quota], *, seed: int, steps: int = 30, back: bool = True) -> Iterator[Table]:
    """
    Histories by the dice, drawn towards the instants at which answers change.
    """
    for number, quota in enumerate(quotas):
        about = f"a random history, seed {seed + number}"
        table = Table(f"random-{number + 1}", about, quota, start=START + random.Random(seed + number).randrange(MINUTE))
        wander(table, random.Random(seed + number), steps, back=back)
        yield table


def wander(table: Table, dice: random.Random, steps: int, *, back: bool) -> None:
    """
    Adds random rows.
    """
    refundable: list[tuple[int, int]] = []
    for _ in range(steps):
        at = table.now + step(table, dice, back=back)
        cost = dice.choice([1, 1, 1, 2, 2, 3, 5])
        do = dice.random()
        if do < 0.62:
            row = table.check(at, cost)
            if table.said is not None and table.said.allowed:
                refundable.append((row, cost))
        elif do < 0.78:
            table.peek(at, dice.choice([0, 1, cost]))
        elif do < 0.9 and refundable:
            row, cost = refundable.pop(dice.randrange(len(refundable)))
            table.refund(at, row, dice.randint(1, cost))
        else:
            table.debit(at, cost)


def step(table: Table, dice: random.Random, *, back: bool) -> int:
    """
    How far the clock moves: often by nothing, often to where something changes, sometimes back.
    """
    retry = (table.said and table.said.retry_after) or 0
    reset = table.said.reset_after if table.said else 0
    period = table.oracle.rule.period_ns or SECOND
    choices = [0, 0, 0, 1, max(retry - 1, 0), retry, retry, max(reset - 1, 0), reset, period // 7, dice.randrange(period), dice.randrange(period)]
    if back and table.now > 2 * period:
        choices += [-1, -dice.randrange(period)]
    return dice.choice(choices)


# --- The files --------------------------------------------------------------------------------------------------------------------------


def gcra() -> Iterator[Table]:
    """
    A steady rate with a burst.
    """
    table = Table("timeline", "the rows of the header of gcra.rs", "60/minute burst 3")
    for at, cost in [(0, 1), (0, 1), (0, 1), (0, 1), (SECOND // 2, 1), (SECOND, 1), (9 * SECOND, 4)]:
        table.check(at, cost)
    yield table
    yield from common(Kind("gcra"))

    table = Table("burst-above-limit", "a burst larger than the limit", "1/second burst 5")
    table.check(0, 5)
    table.check(0, 5)
    table.knock(5)
    table.check(table.now, 6)
    yield table

    table = Table("burst-0", "a burst of 0 denies everything", "60/minute burst 0")
    table.check(0)
    table.debit(0, 1)
    table.peek(MINUTE, 0)
    yield table

    table = Table("fraction", "7 per minute is no whole number of nanoseconds, and nothing is ever rounded in the state", "7/minute burst 5")
    table.check(0, 5)
    for _ in range(10):
        table.check(table.now)
        table.knock()
    table.peek(table.now + MINUTE, 5)
    yield table

    table = Table("fraction-refund", "a part of a fractional charge comes back", "7/minute burst 5")
    first = table.check(0, 3)
    table.check(0, 2)
    table.refund(10 * SECOND, first, 3)
    table.peek(10 * SECOND, 5)
    table.check(table.retry_at() - 1, 5)
    table.check(table.now + 1, 5)
    yield table

    table = Table("refund-in-parts", "two parts never give back more than is still ahead", "60/minute burst 3")
    first = table.check(0, 3)
    table.check(2 * SECOND, 2)
    table.refund(2 * SECOND, first, 1)
    table.peek(2 * SECOND)
    table.refund(2 * SECOND, first, 1)
    table.peek(2 * SECOND)
    yield table

    table = Table("rate-changed", "the state is a time, so the used share is kept when the rate changes", "7/minute burst 5")
    table.check(0, 5)
    table.load(SECOND, "11/minute burst 5")
    table.check(SECOND, 5)
    table.load(2 * SECOND, "7/minute burst 5")
    table.check(2 * SECOND, 5)
    table.load(3 * SECOND, "14/2m burst 3")
    table.check(3 * SECOND)
    table.knock()
    yield table

    table = Table("rate-changed-refund", "a receipt of another rate is worth nothing", "60/minute burst 6")
    first = table.check(0, 2)
    second = table.check(0, 2)
    table.load(0, "30/minute burst 6")
    table.refund(0, first, 2)
    table.peek(0)
    table.load(0, "60/minute burst 6")
    table.refund(0, second, 2)
    table.peek(0)
    yield table

    table = Table("burst-lowered", "usage above a lowered burst is clamped to burst and debt", "60/minute burst 10")
    table.check(0, 10)
    table.load(0, "60/minute burst 2")
    table.peek(0)
    table.check(0)
    table.load(0, "60/minute burst 10")
    table.check(0)
    table.knock()
    yield table

    table = Table("huge", "2^53 units in about a day", {"limit": HUGE, "period_ns": 3 * 2**45, "algorithm": "gcra"})
    table.check(0, HUGE)
    table.check(0, 1)
    table.knock()
    table.check(table.now, HUGE)
    table.knock(HUGE)
    yield table

    yield from random_tables(["7/minute burst 5", "3/7s gcra", "60/minute burst 4 max_debt 1", "11/13s burst 6 min_interval 1s"], seed=10)


def leaky_bucket() -> Iterator[Table]:
    """
    Shaping: admitted requests are told when to start.
    """
    table = Table("timeline", "the rows of the header of leaky_bucket.rs", "10/second queue 200ms")
    for at in (0, 0, 0, 0, 50 * MILLISECOND, 100 * MILLISECOND):
        table.check(at)
    yield table

    table = Table("cost-n", "a dear request is admitted when its own delay fits, and those behind it wait for all of it", "10/second queue 200ms")
    for at, cost in [(0, 3), (0, 1), (100 * MILLISECOND, 3), (100 * MILLISECOND, 1)]:
        table.check(at, cost)
    table.knock()
    table.check(table.now, 4)
    yield table

    table = Table("limit-0", "a limit of 0 denies everything and never is said", "0/second queue 200ms")
    table.peek(0, 0)
    table.check(0)
    table.debit(1, 1)
    table.check(DAY, HUGE)
    yield table

    table = Table("no-queue", "without a queue a request starts at once or not at all", "10/second leaky_bucket")
    table.check(0)
    table.check(0)
    table.knock()
    table.check(table.now, 2)
    yield table

    table = Table("nodelay", "some start at once although the queue is not empty", "10/second queue 200ms nodelay 2")
    for _ in range(6):
        table.check(0)
    table.knock()
    table.peek(SECOND, 0)
    yield table

    table = Table("max-cost", "a cost above max_cost is never admitted", "10/second queue 200ms max_cost 2")
    table.check(0, 3)
    table.check(0, 2)
    table.check(0, 2)
    table.check(0, 2)
    table.knock(2)
    yield table

    table = Table("fraction", "7 per minute is no whole number of nanoseconds; delays are rounded up", "7/minute queue 20s")
    for _ in range(5):
        table.check(0)
    for _ in range(4):
        table.check(table.now)
        table.knock()
    yield table

    table = Table("queue-between", "a queue that is no multiple of the spacing", "10/second queue 250ms")
    for _ in range(4):
        table.check(0)
    table.knock()
    table.peek(table.reset_at() - 1)
    table.peek(table.now + 1)
    yield table

    table = Table("peek", "asking without taking changes nothing", "10/second queue 200ms")
    table.peek(0, 0)
    table.peek(0, 4)
    table.check(0, 0)
    table.check(0, 2)
    table.peek(0)
    table.peek(0, 3)
    table.check(0, 1)
    table.peek(0, 0)
    yield table

    table = Table("refund", "a waiter that gives up shortens the queue", "10/second queue 200ms")
    table.check(0)
    second = table.check(0)
    table.check(0)
    table.refund(0, second, 1)
    table.peek(0)
    table.check(50 * MILLISECOND)
    table.check(50 * MILLISECOND)
    yield table

    table = Table("refund-late", "what has drained does not come back", "10/second queue 500ms")
    first = table.check(0, 4)
    table.check(300 * MILLISECOND, 2)
    table.refund(350 * MILLISECOND, first, 4)
    table.peek(350 * MILLISECOND)
    table.refund(SECOND, 1, 2)
    table.peek(SECOND)
    yield table

    table = Table("refund-in-parts", "two parts never give back more than is still ahead", "10/second queue 500ms")
    first = table.check(0, 3)
    table.check(200 * MILLISECOND, 2)
    table.refund(200 * MILLISECOND, first, 1)
    table.peek(200 * MILLISECOND)
    table.refund(200 * MILLISECOND, first, 1)
    table.peek(200 * MILLISECOND)
    yield table

    table = Table("debit", "a debit lengthens the queue beyond what admission can, up to a bound", "10/second queue 200ms")
    table.debit(0, 2)
    table.check(0)
    table.debit(0, 4)
    table.check(0)
    table.debit(0, HUGE)
    table.check(0)
    table.knock()
    yield table

    table = Table("debit-none", "without debt a debit stops where admissions do", "10/second queue 200ms max_debt 0")
    table.debit(0, HUGE)
    table.check(0, 0)
    table.check(0)
    table.knock()
    yield table

    table = Table("min-interval", "two requests keep their distance", "10/second queue 1s min_interval 250ms")
    table.check(0)
    table.check(0)
    table.knock()
    table.peek(table.now, 0)
    table.peek(table.now + 250 * MILLISECOND)
    yield table

    table = Table("limit-changed", "the backlog is a time, and is kept", "10/second queue 400ms")
    for _ in range(5):
        table.check(0)
    table.load(0, "20/second queue 400ms")
    table.check(0)
    table.load(100 * MILLISECOND, "3/second queue 400ms")
    table.check(100 * MILLISECOND)
    table.check(100 * MILLISECOND)
    table.knock()
    yield table

    table = Table("limit-closed", "a limit of 0 and back again: the backlog is still there", "10/second queue 400ms")
    table.check(0, 3)
    table.load(0, "0/second queue 400ms")
    table.check(0)
    table.load(100 * MILLISECOND, "10/second queue 400ms")
    table.check(100 * MILLISECOND)
    yield table

    table = Table("back", "after a step back the backlog is the longest that can be, not longer", "10/second queue 200ms max_debt 0")
    table.check(DAY)
    table.check(DAY)
    table.peek(DAY - 50 * MILLISECOND)
    table.check(DAY - 50 * MILLISECOND)
    table.check(0)
    table.knock()
    table.check(DAY)
    yield table

    table = Table("jump", "a clock that jumps forward, by a tick too little and exactly", "10/second queue 200ms")
    table.check(0, 3)
    table.peek(300 * MILLISECOND - 1, 3)
    table.peek(300 * MILLISECOND, 3)
    table.check(30 * YEAR, 3)
    yield table

    quotas: list[Quota] = ["7/minute queue 30s", "10/second queue 350ms nodelay 2", "3/7s queue 10s max_cost 4 max_debt 2"]
    yield from random_tables(quotas, seed=20)


def fixed_window() -> Iterator[Table]:
    """
    One counter per window.
    """
    table = Table("timeline", "the rows of the header of fixed_window.rs", "3/minute fixed_window")
    for at, cost in [(50, 1), (50, 2), (50, 1), (59, 1), (60, 3), (61, 4)]:
        table.check(at * SECOND, cost)
    yield table
    yield from common(Kind("fixed_window"))

    table = Table("boundary", "one tick before the boundary and at it", "2/minute fixed_window")
    table.check(MINUTE - 1, 2)
    table.check(MINUTE - 1)
    table.check(MINUTE, 2)
    table.check(MINUTE)
    yield table

    table = Table("odd-window", "windows are counted from the epoch, not from the first request", "2/7s fixed_window")
    table.check(0, 2)
    table.check(0)
    table.knock()
    table.check(table.now, 2)
    table.knock(2)
    yield table

    table = Table("refund-next-window", "a refund is lost once the window is over", "2/minute fixed_window")
    first = table.check(MINUTE - 1, 2)
    table.check(MINUTE, 1)
    table.refund(MINUTE, first, 2)
    table.peek(MINUTE)
    yield table

    table = Table("huge", "2^53 units a year", f"{HUGE}/365d fixed_window")
    table.check(0, HUGE - 1)
    table.check(0, 2)
    table.check(0, 1)
    table.debit(0, HUGE)
    table.check(0, 1)
    yield table

    midnight = 1_767_308_400 * SECOND  # 2026-01-01T23:00:00Z
    table = Table("berlin-midnight", "a day ends at midnight in its zone", "2/day calendar Europe/Berlin", start=midnight)
    table.check(-1, 2)
    table.check(-1)
    table.check(0, 2)
    table.check(0)
    table.knock()
    yield table

    spring = 1_774_738_800 * SECOND  # 2026-03-28T23:00:00Z: the day has 23 hours
    table = Table("berlin-spring", "the day on which the clocks are put forward has 23 hours", "2/day calendar Europe/Berlin", start=spring)
    table.check(0, 2)
    table.check(0)
    table.knock()
    yield table

    autumn = 1_792_879_200 * SECOND  # 2026-10-24T22:00:00Z: the day has 25 hours
    table = Table("berlin-autumn", "the day on which the clocks are put back has 25 hours", "2/day calendar Europe/Berlin", start=autumn)
    table.check(0, 2)
    table.check(0)
    table.knock()
    yield table

    for unit in ("minute", "hour", "week", "month", "year"):
        table = Table(f"calendar-{unit}", f"one window per {unit} in New York", f"2/{unit} calendar America/New_York", start=START + 5 * DAY + 7)
        table.check(0, 2)
        table.check(0)
        table.knock()
        table.check(table.now, 2)
        yield table

    yield from random_tables(["5/7s fixed_window", "9/minute fixed_window max_debt 3"], seed=30)


def sliding_window() -> Iterator[Table]:
    """
    The bounded log.
    """
    table = Table("timeline", "the rows of the header of sliding_window.rs", "3/minute")
    for at, cost in [(0, 1), (20, 1), (40, 1), (50, 1), (60, 1), (60, 2), (61, 4)]:
        table.check(at * SECOND, cost)
    yield table
    yield from common(Kind("", memory=lambda window: window))

    table = Table("merge", "with two pairs the cheapest neighbours are merged, and the later time is kept", "9/minute entries 2")
    for at in (0, 10, 13, 30, 31, 50):
        table.check(at * SECOND)
    for at in (60, 70, 73, 90, 91, 110):
        table.peek(at * SECOND - 1, 0)
        table.peek(at * SECOND, 0)
    yield table

    table = Table("merge-weight", "counts weigh: a large pair is not moved for a small one", "20/minute entries 3")
    for at, cost in [(0, 9), (5, 1), (12, 1), (20, 2), (21, 1)]:
        table.check(at * SECOND, cost)
    for at in (60, 65, 72, 80, 81):
        table.peek(at * SECOND, 0)
    yield table

    table = Table("merge-tie", "of equally cheap neighbours the oldest are merged", "9/minute entries 2")
    for at in (0, 10, 20):
        table.check(at * SECOND)
    for at in (60, 70, 80):
        table.peek(at * SECOND, 0)
    yield table

    table = Table("merge-one", "a single pair moves to the newest time", "3/minute entries 1")
    table.check(0)
    table.check(30 * SECOND)
    table.check(59 * SECOND)
    table.check(MINUTE)
    table.knock()
    yield table

    table = Table("merge-refund", "a charge is found in the pair that it was merged into", "9/minute entries 2")
    first = table.check(0, 2)
    table.check(SECOND, 2)
    table.check(30 * SECOND, 2)
    table.refund(31 * SECOND, first, 2)
    table.peek(31 * SECOND, 0)
    table.peek(MINUTE, 0)
    table.peek(MINUTE + SECOND, 0)
    yield table

    table = Table("merge-refund-late", "a charge that has left is not taken from the pair that it was merged into", "9/minute entries 2")
    first = table.check(0, 2)
    table.check(SECOND, 2)
    table.check(30 * SECOND, 2)
    table.refund(MINUTE, first, 2)
    table.peek(MINUTE, 0)
    yield table

    table = Table("entries-16", "sixteen pairs are exact", "17/minute")
    for i in range(18):
        table.check(i * SECOND)
    for at in (60, 61, 62):
        table.peek(at * SECOND, 0)
    yield table

    table = Table("entries-changed", "fewer pairs are merged with the next charge", "9/minute entries 3")
    for at in (0, 10, 30):
        table.check(at * SECOND)
    table.load(31 * SECOND, "9/minute entries 1")
    table.peek(31 * SECOND, 0)
    table.check(32 * SECOND)
    table.peek(91 * SECOND, 0)
    yield table

    table = Table("unlimited", "no limit: a value of its own", "unlimited")
    table.check(0, HUGE)
    table.peek(0, HUGE)
    table.debit(0, HUGE)
    table.check(0, 0)
    yield table

    table = Table("huge", "2^53 units in 365 days", f"{HUGE}/365d")
    table.check(0, HUGE - 1)
    table.check(1, 2)
    table.check(1, 1)
    table.debit(2, HUGE)
    table.check(2, 1)
    table.knock()
    yield table

    quotas: list[Quota] = ["5/minute", "12/minute entries 2", "20/7s entries 3", "9/10s entries 4 max_debt 2 min_interval 100ms"]
    yield from random_tables(quotas, seed=40, steps=35)


def sliding_window_log() -> Iterator[Table]:
    """
    One entry per request.
    """
    table = Table("timeline", "the rows of the header of sliding_window_log.rs", "3/minute sliding_window_log")
    for at, cost in [(0, 2), (30, 1), (30, 1), (60, 2), (60, 1)]:
        table.check(at * SECOND, cost)
    yield table
    yield from common(Kind("sliding_window_log", memory=lambda window: window))

    table = Table("same-tick", "requests of one tick are told apart", "4/minute sliding_window_log")
    first = table.check(0)
    second = table.check(0)
    table.check(0, 2)
    table.refund(0, first, 1)
    table.peek(0)
    table.refund(0, second, 1)
    table.peek(0)
    yield table

    table = Table("debit-nothing", "a debit that changes nothing does not delay the reset", "2/minute sliding_window_log max_debt 0")
    table.check(0, 2)
    table.debit(30 * SECOND, 1)
    table.debit(40 * SECOND, 0)
    table.peek(MINUTE, 0)
    yield table

    quotas: list[Quota] = ["5/minute sliding_window_log", "12/7s sliding_window_log", "9/10s sliding_window_log max_debt 2 min_interval 100ms"]
    yield from random_tables(quotas, seed=50, steps=35)


def sliding_window_counter() -> Iterator[Table]:
    """
    Two interpolated counters.
    """
    table = Table("timeline", "the rows of the header of sliding_window_counter.rs", "10/minute sliding_window_counter")
    for at, cost in [(50, 10), (50, 1), (60, 1), (66, 1), (90, 4), (90, 1)]:
        table.check(at * SECOND, cost)
    yield table
    yield from common(Kind("sliding_window_counter"))

    table = Table("interpolation", "the previous window fades tick by tick", "10/minute sliding_window_counter")
    table.check(30 * SECOND, 7)
    for at in (59, 60, 61, 70, 80, 90, 100, 110, 119):
        table.peek(at * SECOND, 5)
    table.check(90 * SECOND, 5)
    table.check(90 * SECOND, 3)
    table.knock(3)
    yield table

    table = Table("fraction", "an estimate with a fraction is not rounded down", "100/minute sliding_window_counter")
    table.check(0, 99)
    table.peek(90 * SECOND, 50)
    table.peek(90 * SECOND, 51)
    table.check(90 * SECOND, 50)
    table.check(90 * SECOND, 1)
    table.knock()
    yield table

    table = Table("refund-rolled", "a charge is found in the window before", "10/minute sliding_window_counter")
    first = table.check(50 * SECOND, 8)
    table.check(75 * SECOND, 2)
    table.refund(80 * SECOND, first, 3)
    table.peek(80 * SECOND)
    table.refund(121 * SECOND, first, 5)
    table.peek(121 * SECOND)
    yield table

    table = Table("huge", "2^53 units in 365 days", f"{HUGE}/365d sliding_window_counter")
    table.check(0, HUGE)
    table.check(YEAR, HUGE // 3)
    table.knock(HUGE // 3)
    table.debit(table.now, HUGE)
    table.check(table.now, 1)
    table.knock()
    yield table

    quotas: list[Quota] = ["5/minute sliding_window_counter", "12/7s sliding_window_counter", "9/10s sliding_window_counter max_debt 2"]
    yield from random_tables(quotas, seed=60, steps=35)


def sliding_window_ring() -> Iterator[Table]:
    """
    A ring of sub-windows.
    """
    table = Table("timeline", "the rows of the header of sliding_window_ring.rs", "6/minute sliding_window_counter buckets 6")
    for at, cost in [(5, 4), (15, 2), (15, 1)]:
        table.check(at * SECOND, cost)
    yield table
    yield from common(Kind("sliding_window_counter buckets 6"))

    table = Table("buckets-2", "the fewest sub-windows", "4/minute sliding_window_counter buckets 2")
    table.check(29 * SECOND, 2)
    table.check(30 * SECOND, 2)
    for cost in (1, 3):
        table.check(table.now, cost)
        table.knock(cost)
    yield table

    table = Table("uneven", "a window that the buckets do not divide is rounded up", "4/10us sliding_window_counter buckets 3")
    table.check(0, 1)
    table.check(3_333, 1)
    table.check(3_334, 1)
    table.check(6_668, 1)
    for cost in (1, 2, 3, 4):
        table.check(table.now, cost)
        table.knock(cost)
    yield table

    table = Table("refund-bucket", "a charge is found in its bucket until that has left", "9/minute sliding_window_counter buckets 6")
    first = table.check(9 * SECOND, 3)
    table.check(12 * SECOND, 3)
    table.refund(50 * SECOND, first, 1)
    table.peek(50 * SECOND)
    table.refund(70 * SECOND - 1, first, 1)
    table.peek(70 * SECOND - 1)
    table.refund(70 * SECOND, first, 1)
    table.peek(70 * SECOND)
    yield table

    table = Table("last-tick", "on its last tick a bucket has left, and a tick back it counts again", "2/minute sliding_window_counter buckets 6")
    table.check(0, 2)
    table.check(70 * SECOND - 2)
    table.peek(70 * SECOND - 1)
    table.check(70 * SECOND - 1, 3)
    table.peek(70 * SECOND - 2)
    table.check(70 * SECOND, 2)
    yield table

    table = Table("huge", "2^53 units in 365 days", f"{HUGE}/365d sliding_window_counter buckets 60")
    table.check(0, HUGE - 1)
    table.check(DAY, 2)
    table.debit(DAY, HUGE)
    table.check(DAY, 1)
    table.knock()
    yield table

    suffix = "sliding_window_counter buckets"
    yield from random_tables([f"5/minute {suffix} 4", f"12/7s {suffix} 3", f"9/10s {suffix} 10 max_debt 2"], seed=70, steps=35)


def concurrency() -> Iterator[Table]:
    """
    Leases on slots.
    """
    table = Table("timeline", "the rows of the header of concurrency.rs", "2 concurrent ttl 30s")
    table.check(0, lease="0a")
    table.check(SECOND, lease="0b")
    table.check(2 * SECOND, lease="0c")
    table.renew(20 * SECOND, "0a")
    table.release(21 * SECOND, "0b")
    table.check(21 * SECOND, lease="0c")
    yield table
    yield from leases()
    yield from slots_changing()
    for number, quota in enumerate(["3 concurrent ttl 10s", "8 concurrent ttl 7s"]):
        table = Table(f"random-{number + 1}", f"a random history, seed {80 + number}", quota)
        wander_with_leases(table, random.Random(80 + number))
        yield table


def leases() -> Iterator[Table]:
    """
    How leases are taken and lost.
    """
    table = Table("expiry", "one tick before a lease expires and at it", "1 concurrent ttl 30s")
    table.check(0, lease="01")
    table.check(30 * SECOND - 1, lease="02")
    table.check(30 * SECOND, lease="02")
    table.renew(30 * SECOND, "01")
    table.release(30 * SECOND, "01")
    yield table

    table = Table("renewal", "a renewed lease outlives its first term, a lost one does not come back", "1 concurrent ttl 30s")
    table.check(0, lease="01")
    table.renew(30 * SECOND - 1, "01")
    table.check(59 * SECOND, lease="02")
    table.renew(60 * SECOND - 1, "01")
    table.peek(60 * SECOND - 1)
    yield table

    table = Table("idempotent", "the same id takes no second slot, keeps its weight and is renewed", "3 concurrent ttl 30s")
    table.check(0, 2, lease="01")
    table.check(SECOND, 2, lease="01")
    table.check(2 * SECOND, 1, lease="01")
    table.check(3 * SECOND, 2, lease="02")
    table.check(3 * SECOND, 1, lease="02")
    table.check(4 * SECOND, 2, lease="01")
    table.check(4 * SECOND, 4, lease="01")
    yield table

    table = Table("release", "a second release finds nothing, and an unknown lease is no error", "2 concurrent")
    table.check(0, 2, lease="ffffffffffffffffffffffffffffffff")
    table.release(SECOND, "ffffffffffffffffffffffffffffffff")
    table.release(SECOND, "ffffffffffffffffffffffffffffffff")
    table.release(SECOND, "01")
    table.renew(SECOND, "01")
    table.peek(SECOND, 2)
    yield table

    table = Table("weights", "leases of several slots, the first to expire first", "5 concurrent ttl 10s")
    table.check(0, 2, lease="01")
    table.check(SECOND, 1, lease="02")
    table.check(2 * SECOND, 2, lease="03")
    table.renew(3 * SECOND, "01")
    for cost in (1, 2, 3, 4, 5, 6):
        table.check(4 * SECOND, cost, lease="04")
    yield table

    table = Table("long-ids", "all 128 bits of an id count", "3 concurrent")
    table.check(0, lease="00000001000000000000000000000007")
    table.check(0, lease="00000002000000000000000000000007")
    table.release(0, "7")
    table.release(0, "00000001000000000000000000000007")
    table.peek(0, 2)
    yield table

    table = Table("two-keys", "the same id under two keys is two leases", "1 concurrent")
    table.check(0, lease="01")
    table.check(0, lease="01", key="b")
    table.release(0, "01")
    table.peek(0)
    table.peek(0, key="b")
    yield table

    table = Table("peek", "asking without taking changes nothing", "2 concurrent ttl 30s")
    table.peek(0, 0)
    table.peek(0, 3)
    table.check(0, 2, lease="01")
    table.peek(SECOND, 0)
    table.peek(SECOND)
    table.peek(30 * SECOND)
    yield table

    table = Table("debit", "slots cannot be owed", "2 concurrent")
    table.debit(0, 2)
    table.check(0, 1, lease="01")
    table.debit(0, HUGE)
    table.peek(0)
    yield table


def slots_changing() -> Iterator[Table]:
    """
    Limits and clocks that change under leases.
    """
    table = Table("limit-0", "a limit of 0 denies everything", "0 concurrent")
    table.check(0, lease="01")
    table.peek(0, 0)
    table.release(0, "01")
    yield table

    table = Table("limit-changed", "leases drain under a lower limit", "3 concurrent ttl 30s")
    for i in (1, 2, 3):
        table.check(i * SECOND, lease=f"0{i}")
    table.load(4 * SECOND, "1 concurrent ttl 30s")
    table.peek(4 * SECOND, 0)
    table.check(4 * SECOND, lease="04")
    table.release(5 * SECOND, "02")
    table.check(5 * SECOND, lease="03")
    table.release(6 * SECOND, "01")
    table.check(6 * SECOND, lease="04")
    table.load(7 * SECOND, "4 concurrent ttl 10s")
    table.renew(7 * SECOND, "03")
    table.check(7 * SECOND, 3, lease="04")
    table.check(7 * SECOND, 3, lease="05")
    yield table

    table = Table("limit-closed", "a limit of 0 and back again: the leases are still held", "3 concurrent ttl 30s")
    table.check(0, 2, lease="01")
    table.load(SECOND, "0 concurrent ttl 30s")
    table.check(SECOND, lease="02")
    table.load(2 * SECOND, "3 concurrent ttl 30s")
    table.peek(2 * SECOND)
    table.release(2 * SECOND, "01")
    yield table

    table = Table("back", "a clock that goes back lets leases last longer", "1 concurrent ttl 30s")
    table.check(MINUTE, lease="01")
    table.check(30 * SECOND, lease="02")
    table.renew(30 * SECOND, "01")
    table.check(MINUTE - 1, lease="02")
    table.check(MINUTE, lease="02")
    yield table

    table = Table("jump", "a clock that jumps forward ends leases", "1 concurrent")
    table.check(0, lease="01")
    table.check(30 * YEAR, lease="02")
    table.renew(30 * YEAR, "01")
    yield table

    table = Table("huge", "the most slots of one key", "100000 concurrent ttl 1d")
    table.check(0, 99_999, lease="01")
    table.check(0, 2, lease="02")
    table.check(0, 1, lease="02")
    table.check(0, HUGE, lease="03")
    yield table


def wander_with_leases(table: Table, dice: random.Random) -> None:
    """
    Adds random rows.
    """
    for _ in range(40):
        at = max(0, table.now + step(table, dice, back=True))
        lease = f"{dice.randint(1, 6):02x}"
        do = dice.choice(["check", "check", "check", "peek", "renew", "release"])
        if do == "check":
            table.check(at, dice.choice([1, 1, 2, 3]), lease=lease)
        elif do == "peek":
            table.peek(at, dice.choice([0, 1, 2]))
        elif do == "renew":
            table.renew(at, lease)
        else:
            table.release(at, lease)


FILES: dict[str, Callable[[], Iterator[Table]]] = {
    "gcra": gcra,
    "leaky_bucket": leaky_bucket,
    "fixed_window": fixed_window,
    "sliding_window": sliding_window,
    "sliding_window_log": sliding_window_log,
    "sliding_window_counter": sliding_window_counter,
    "sliding_window_ring": sliding_window_ring,
    "concurrency": concurrency,
}


def text_of(algorithm: str) -> str:
    """
    A file as JSON with one row per line.
    """
    tables = ",\n".join(table_text(table) for table in FILES[algorithm]())
    return f'{{"algorithm": {json.dumps(algorithm)}, "tables": [\n{tables}\n]}}\n'


def table_text(table: Table) -> str:
    """
    A table, its head on the first line.
    """
    head = json.dumps({"name": table.name, "about": table.about, "quota": table.quota, "start": table.start})
    rows = ",\n".join(f"  {json.dumps(row)}" for row in table.rows)
    return f'{head[:-1]}, "rows": [\n{rows}\n]}}'


def main() -> int:
    """
    Writes or compares the files.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a file differs")
    is_check = parser.parse_args().check
    stale = [name for name in FILES if is_stale(name, write=not is_check)]
    if is_check and stale:
        sys.stderr.write(f"error: out of date: {', '.join(stale)}\nhint: run python tests/make_vectors.py\n")
        return 1
    return 0


def is_stale(algorithm: str, *, write: bool) -> bool:
    """
    Whether a file says something else than the oracle; if so, writes it.
    """
    path, text = FOLDER / f"{algorithm}.json", text_of(algorithm)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    if write:
        path.write_text(text, encoding="utf-8")
    return True


if __name__ == "__main__":
    sys.exit(main())
