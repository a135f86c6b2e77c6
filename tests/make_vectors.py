"""
Writes the truth tables in `testdata/vectors`, one file per algorithm: the stories of `stories.py` with what the oracle says to each step.

    python tests/make_vectors.py            writes the files
    python tests/make_vectors.py --check    fails if a file differs from what would be written

The package is not asked anything here.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.oracle import SECOND, START, Answer, Oracle, Taken
    from tests.stories import RANDOM, STORIES, Quota, Story

    Row: TypeAlias = dict[str, Any]
else:  # Tests are scripts in a folder, not a package.
    from oracle import SECOND, START, Oracle
    from stories import RANDOM, STORIES, Story

FOLDER = Path(__file__).parent.parent / "testdata" / "vectors"
UNITS = {"": 1, "ms": SECOND // 1000, "s": SECOND, "m": 60 * SECOND, "h": 3_600 * SECOND, "d": 86_400 * SECOND, "y": 365 * 86_400 * SECOND}


@dataclass
class Table:
    """
    A story that is told to the oracle while it is written down.
    """

    name: str
    about: str
    quota: Quota
    start: int = START
    rows: list[Row] = field(default_factory=list)
    taken: dict[int, Taken] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    now: int = 0
    said: Answer | None = None

    def __post_init__(self) -> None:
        self.oracle = Oracle(self.quota)

    # The steps of a story.

    def tell(self, step: str) -> None:
        """
        Acts out one step.
        """
        time, *words = step.split()
        if time == "knock":
            return self.knock(int(words[0]) if words else 1)
        at, verb = self.instant(time), words.pop(0)
        if verb == "load":
            return self.load(at, " ".join(words))
        if verb in ("renew", "release"):
            return self.lease(at, verb, words[0])
        if verb == "refund":
            return self.refund(at, self.names[words[0]], int(words[1]))
        cost = int(words.pop(0)) if words and words[0].isdigit() else 1
        given = dict(zip(words[::2], words[1::2], strict=True))
        if verb == "check":
            self.names[given.get("as", "")] = self.check(at, cost, key=given.get("by", "a"), lease=given.get("lease"))
            return None
        return self.ask(at, verb, cost, key=given.get("by", "a"))

    def instant(self, time: str) -> int:
        """
        Reads a time such as `1m-1` or `retry-1`.
        """
        first, *rest = re.split(r"(?=[+-])", time)
        return self.named(first) + sum(ticks(part) for part in rest)

    def named(self, time: str) -> int:
        """
        An instant that is known by a name, or a time.
        """
        if time == "now":
            return self.now
        if time not in ("retry", "reset"):
            return ticks(time)
        assert self.said is not None
        wait = self.said.retry_after if time == "retry" else self.said.reset_after
        assert wait is not None
        return self.now + wait

    # What a row can be.

    def check(self, at: int, cost: int, *, key: str = "a", lease: str | None = None) -> int:
        """
        Adds a check; the result is the number of its row.
        """
        taken = self.oracle.check(self.start + at, key, cost, lease)
        self.taken[len(self.rows)] = taken
        self.add(at, "check", taken.answer, key=key, cost=cost, **({"lease": lease} if lease else {}))
        return len(self.rows) - 1

    def ask(self, at: int, verb: str, cost: int, *, key: str = "a") -> None:
        """
        Adds a peek or a debit.
        """
        answer = {"peek": self.oracle.peek, "debit": self.oracle.debit}[verb](self.start + at, key, cost)
        self.add(at, verb, answer, key=key, cost=cost)

    def refund(self, at: int, of: int, cost: int) -> None:
        """
        Adds a refund of the check in row `of`.
        """
        key = self.rows[of]["key"]
        self.oracle.refund(self.start + at, key, self.taken[of], cost)
        self.add(at, "refund", None, key=key, of=of, cost=cost)

    def lease(self, at: int, verb: str, lease: str) -> None:
        """
        Adds a renewal or a release.
        """
        held = {"renew": self.oracle.renew, "release": self.oracle.release}[verb](self.start + at, "a", lease)
        self.add(at, verb, None, key="a", lease=lease, expect={"held": held})

    def load(self, at: int, quota: str) -> None:
        """
        Changes the limit.
        """
        self.oracle.load(quota)
        self.add(at, "load", None, quota=quota)

    def knock(self, cost: int) -> None:
        """
        After a denial: asks one tick before the promised instant, and at it.
        """
        if self.said is not None and not self.said.allowed:
            at = self.named("retry")
            self.check(at - 1, cost)
            self.check(at, cost)

    def add(self, at: int, verb: str, answer: Answer | None, **rest: Any) -> None:  # noqa: ANN401  # a row of JSON
        """
        Writes a row down.
        """
        self.now = at
        row: Row = {"at": at, "do": verb, **rest}
        if answer is not None:
            self.said = answer
            row["expect"] = asdict(answer)
        self.rows.append(row)


def ticks(time: str) -> int:
    """
    Reads a time such as `200ms` or `-1`.
    """
    found = re.fullmatch(r"([+-]?\d+)([a-z]*)", time)
    assert found, time
    return int(found[1]) * UNITS[found[2]]


def table_of(story: Story) -> Table:
    """
    Tells a story.
    """
    table = Table(story.name, story.about, " ".join(story.quota.split()) if isinstance(story.quota, str) else story.quota, story.start)
    for step in story.steps.split(";"):
        if step.strip():
            table.tell(step)
    return table


# --- Histories by the dice --------------------------------------------------------------------------------------------------------------


def random_tables(algorithm: str) -> Iterator[Table]:
    """
    Random histories, drawn towards the instants at which answers change.
    """
    for number, quota in enumerate(RANDOM[algorithm], start=1):
        seed = f"{algorithm} {number}"
        dice = random.Random(seed)
        table = Table(f"random-{number}", f"a history by the dice, seed {seed!r}", quota, start=START + dice.randrange(60 * SECOND))
        for _ in range(35):
            (stumble_with_leases if algorithm == "concurrency" else stumble)(table, dice)
        yield table


def stumble(table: Table, dice: random.Random) -> None:
    """
    Adds a random row.
    """
    at, cost = table.now + stride(table, dice), dice.choice([1, 1, 1, 2, 2, 3, 5])
    refundable = [
        row for row, taken in table.taken.items() if taken.answer.allowed and taken.given_back == 0 and table.rows[row]["cost"] > 0
    ]
    verb = dice.choices(["check", "peek", "refund", "debit"], [60, 15, 15, 10])[0]
    if verb == "refund" and refundable:
        row = dice.choice(refundable)
        table.refund(at, row, dice.randint(1, table.rows[row]["cost"]))
    elif verb in ("peek", "debit"):
        table.ask(at, verb, dice.choice([0, 1, cost]))
    else:
        table.check(at, cost)


def stumble_with_leases(table: Table, dice: random.Random) -> None:
    """
    Adds a random row about leases.
    """
    at, lease = max(0, table.now + stride(table, dice)), f"{dice.randint(1, 6):02x}"
    verb = dice.choice(["check", "check", "check", "peek", "renew", "release"])
    if verb == "check":
        table.check(at, dice.choice([1, 1, 2, 3]), lease=lease)
    elif verb == "peek":
        table.ask(at, verb, dice.choice([0, 1, 2]))
    else:
        table.lease(at, verb, lease)


def stride(table: Table, dice: random.Random) -> int:
    """
    How far the clock moves: often by nothing, often to where something changes, sometimes back.
    """
    retry = (table.said and table.said.retry_after) or 0
    reset = table.said.reset_after if table.said else 0
    period = table.oracle.rule.period_ns or 10 * SECOND
    strides = [
        0,
        0,
        0,
        1,
        max(retry - 1, 0),
        retry,
        retry,
        max(reset - 1, 0),
        reset,
        period // 7,
        dice.randrange(period),
        dice.randrange(period),
    ]
    # Only after a charge: what a denial has settled a store need not remember, and after a step back that makes a difference.
    is_charged = bool(table.rows) and table.rows[-1]["do"] in ("check", "debit") and table.rows[-1]["cost"] > 0
    may_go_back = is_charged and table.said is not None and table.said.allowed and table.now > 2 * period
    return dice.choice([*strides, -1, -dice.randrange(period)] if may_go_back else strides)


# --- The files --------------------------------------------------------------------------------------------------------------------------


def text_of(algorithm: str) -> str:
    """
    A file as JSON with one row per line.
    """
    tables = [*map(table_of, STORIES[algorithm]), *random_tables(algorithm)]
    body = ",\n".join(map(table_text, tables))
    return f'{{"algorithm": {json.dumps(algorithm)}, "tables": [\n{body}\n]}}\n'


def table_text(table: Table) -> str:
    """
    A table, its head on the first line.
    """
    head = json.dumps({"name": table.name, "about": table.about, "quota": table.quota, "start": table.start})
    rows = ",\n".join(f"  {json.dumps(row)}" for row in table.rows)
    return f'{head[:-1]}, "rows": [\n{rows}\n]}}'


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


def main() -> int:
    """
    Writes or compares the files.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a file differs")
    is_check = parser.parse_args().check
    stale = [algorithm for algorithm in STORIES if is_stale(algorithm, write=not is_check)]
    if is_check and stale:
        sys.stderr.write(f"error: out of date: {', '.join(stale)}\nhint: run python tests/make_vectors.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
