"""
The truth tables of `testdata/vectors` through the public API, field by field and tick by tick.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from tidegate import Limiter
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from tidegate import Decision, QuotaStatus

    Row: TypeAlias = dict[str, Any]

ROOT = Path(__file__).parent.parent
FILES = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "testdata" / "vectors").glob("*.json"))}
TABLES = [pytest.param(table, id=f"{name}-{table['name']}") for name, file in FILES.items() for table in file["tables"]]
ALGORITHMS = [
    "concurrency",
    "fixed_window",
    "gcra",
    "leaky_bucket",
    "sliding_window",
    "sliding_window_counter",
    "sliding_window_log",
    "sliding_window_ring",
]


@dataclass
class Player:
    """
    A limiter that acts out the rows of a table.
    """

    table: dict[str, Any]

    def __post_init__(self) -> None:
        self.clock = ManualClock()
        self.clock.advance_ns(self.table["start"] - self.clock.time_ns())
        self.limiter = Limiter(quota_of(self.table["quota"]), clock=self.clock)
        self.decisions: dict[int, Decision] = {}

    def play(self, number: int, row: Row) -> dict[str, Any] | None:
        """
        Does what a row says; returns what its `expect` describes.
        """
        self.clock.advance_ns(self.table["start"] + row["at"] - self.clock.time_ns())
        limiter, key = self.limiter, row.get("key", "")
        match row["do"]:
            case "check":
                self.decisions[number] = limiter.check(key, row["cost"], lease=row.get("lease"))
                return fields(self.decisions[number])
            case "peek":
                return fields(limiter.peek(key, row["cost"]))
            case "debit":
                return fields(limiter.debit(key, row["cost"]))
            case "refund":
                limiter.refund(key, self.decisions[row["of"]], row["cost"])
            case "renew":
                return {"held": limiter.renew(key, row["lease"])}
            case "release":
                return {"held": limiter.release(key, row["lease"])}
            case "load":
                limiter.load(quota_of(row["quota"]))
            case unknown:
                pytest.fail(f"unknown row: {unknown}")
        return None


def quota_of(quota: str | dict[str, Any]) -> str | dict[str, Any]:
    """
    The object form with the names that the library gives to durations.
    """
    if isinstance(quota, str):
        return quota
    return {name.removesuffix("_ns"): f"{value}ns" if name.endswith("_ns") else value for name, value in quota.items()}


def fields(decision: Decision | QuotaStatus) -> dict[str, Any]:
    """
    Every field of an answer, durations exact.
    """
    return {
        "allowed": decision.allowed,
        "limit": decision.limit,
        "remaining": decision.remaining,
        "retry_after": decision.retry_after_ns,
        "reset_after": decision.reset_after_ns,
        "delay": decision.delay_ns,
    }


@pytest.mark.parametrize("table", TABLES)
def test_every_row_is_answered_exactly(table: dict[str, Any]) -> None:
    """
    The library answers each row of each table as the oracle did.
    """
    player = Player(table)
    for number, row in enumerate(table["rows"]):
        actual = player.play(number, row)

        assert row.get("expect") == actual, f"row {number}: {row}"


@pytest.mark.parametrize("table", TABLES)
def test_the_only_quota_says_what_the_decision_says(table: dict[str, Any]) -> None:
    """
    With one quota, the status of that quota and the decision agree, and a decision is true when it is allowed.
    """
    player = Player(table)
    for number, row in enumerate(table["rows"]):
        player.play(number, row)
    for decision in player.decisions.values():
        assert decision.quota is not None
        assert (decision.allowed, fields(decision)) == (bool(decision), fields(decision.quota))
        assert [fields(decision)] == [fields(status) for status in decision.quotas]


def test_there_is_a_file_for_every_algorithm() -> None:
    """
    No algorithm is without a table, and no file without an algorithm.
    """
    assert ALGORITHMS == sorted(FILES)
    assert ALGORITHMS == sorted(file["algorithm"] for file in FILES.values())


def test_the_tables_are_what_the_oracle_says() -> None:
    """
    The files are those that `make_vectors.py` writes, so nobody has edited a number by hand.
    """
    done = subprocess.run([sys.executable, str(ROOT / "tests" / "make_vectors.py"), "--check"], capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)


# --- The timelines in the documentation of the algorithms -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """
    A line of a timeline, such as `t=0.5s  cost 1 → denied, retry after 0.5 s`.
    """

    at_ns: int
    asked: str
    said: str

    @classmethod
    def read(cls, text: str) -> Line:
        """
        Splits a line; a `release` says nothing.
        """
        found = re.fullmatch(r"t=([\d.]+)s\s+(\w+ \w+)(?:\s+→ (.+))?", text)
        assert found, text
        return cls(nanoseconds(found[1]), found[2], found[3] or "")


def nanoseconds(seconds: str) -> int:
    """
    A decimal number of seconds, exactly.
    """
    whole, _, fraction = seconds.partition(".")
    return int(whole) * 10**9 + int(fraction.ljust(9, "0"))


def timeline_of(algorithm: str) -> tuple[str, list[Line]]:
    """
    The quota and the lines of the timeline in the header of an algorithm's file.
    """
    source = (ROOT / "crates/core/src/algorithm" / f"{algorithm}.rs").read_text(encoding="utf-8")
    header = [line[3:].strip() for line in source.splitlines() if line.startswith("//!")]
    quotas = [
        found[1] for line in header if (found := re.match(r"\*\*Timeline\*\* of `([^`]+)`, from `testdata/vectors/" + algorithm, line))
    ]
    assert len(quotas) == 1, header
    return quotas[0], [Line.read(line) for line in header if line.startswith("t=")]


def asked_by(row: Row) -> str:
    """
    What a row asks, in the words of a timeline: leases 0a, 0b and 0c are called A, B and C.
    """
    if "lease" not in row:
        return f"cost {row['cost']}"
    verb = {"check": "acquire"}.get(row["do"], row["do"])
    return f"{verb} {row['lease'][1:].upper()}"


def said_by(row: Row, ttl_ns: int) -> list[str]:
    """
    What a row answers, as the parts that a line of a timeline may consist of.
    """
    expect = row["expect"]
    if row["do"] == "release":
        return [""]
    if row["do"] == "renew":
        return [f"held until {seconds(row['at'] + ttl_ns)}"]
    if expect["allowed"]:
        delay = f"starts in {seconds(expect['delay'])}" if expect["delay"] else "starts at once"
        return ["allowed", f"{expect['remaining']} left", delay]
    if expect["retry_after"] is None:
        return ["denied", f"never: the limit is {expect['limit']}", f"never: the burst is {expect['limit']}"]
    wait = seconds(expect["retry_after"])
    return ["denied", f"retry after {wait}", f"a slot expires in {wait}"]


def seconds(duration_ns: int) -> str:
    """
    A duration as the timelines write it.
    """
    whole, fraction = divmod(duration_ns, 10**9)
    return f"{whole}.{fraction:09}".rstrip("0").rstrip(".") + " s"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_timeline_in_the_header_is_the_first_table(algorithm: str) -> None:
    """
    The timeline that documents an algorithm is the first table of its file, line by line.
    """
    quota, lines = timeline_of(algorithm)
    table = FILES[algorithm]["tables"][0]

    assert ("timeline", quota) == (table["name"], table["quota"])
    assert [(line.at_ns, line.asked) for line in lines] == [(row["at"], asked_by(row)) for row in table["rows"]]
    for line, row in zip(lines, table["rows"], strict=True):
        parts = said_by(row, ttl_ns=30 * 10**9)
        # What follows a colon is an explanation, except after "never", where it is the limit.
        said = line.said if "never" in line.said else line.said.partition(":")[0]

        assert set(said.split(", ")) <= set(parts), line
        assert parts[0] in line.said, line
