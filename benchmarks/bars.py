"""The bars that Tidegate has set itself, held against one run. A missed bar is a fact to print, not a failure of the run."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import control_report
import integrations_report
import proxy_report
import service_report
from redis_report import fastest_limits, generators, three_to_one

MILLION = 1_000_000
BARRED_ALGORITHMS = ("gcra", "fixed_window", "sliding_window_counter")


@dataclass(frozen=True)
class Bar:
    """One promise: what was measured, and what it should be."""

    what: str
    value: float | None
    """`None` if this machine has not what it takes to measure it."""
    unit: str
    target: float
    at_most: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the run kept it."""
        if self.value is None:
            return False
        return self.value <= self.target if self.at_most else self.value >= self.target

    @property
    def verdict(self) -> str:
        """`met`, `missed` or `not measured`."""
        if self.value is None:
            return "not measured"
        return "met" if self.is_met else "missed"

    @property
    def value_text(self) -> str:
        """What was measured, such as `12.34 x`."""
        return "-" if self.value is None else f"{self.value:,.2f} {self.unit}"

    @property
    def target_text(self) -> str:
        """The bar with its direction, such as `at least 10 x`."""
        return f"{'at most' if self.at_most else 'at least'} {self.target:,g} {self.unit}"


def judge(results: dict[str, Any]) -> list[Bar]:
    """Return every bar that this run can say something about."""
    return [
        *_python(results.get("python") or {}),
        *_rust(results.get("rust") or {}),
        *_rules(results.get("rules") or {}),
        *_tail(results.get("tail") or {}),
        *_memory(results.get("memory") or {}),
        *_redis_speed((results.get("redis") or {}).get("speed") or {}),
        *_redis_server(results.get("redis") or {}),
        *(Bar(*promise) for promise in service_report.promises(results.get("service") or {})),
        *(Bar(*promise) for promise in proxy_report.promises(results.get("proxy") or {})),
        *(Bar(*promise) for promise in control_report.promises(results.get("control") or {})),
        *(Bar(*promise) for promise in integrations_report.promises(results.get("integrations") or {})),
    ]


def _python(section: dict[str, Any]) -> Iterator[Bar]:
    times = {(row["library"], row["scenario"], row["style"]): row["median_ns"] for row in section.get("rows", [])}
    versus = (("check", "limits", 10.0), ("check", "rust-py-rate-limit", 2.0), ("allow", "rust-py-rate-limit", 1.0))
    for style, peer, target in versus:
        for scenario in ("hot key", "random keys"):
            own, other = times.get(("tidegate", scenario, style)), times.get((peer, scenario, style))
            if own and other:
                yield Bar(f"`Limiter.{style}` against `{peer}`, {scenario}", other / own, "x", target)


def _rust(section: dict[str, Any]) -> Iterator[Bar]:
    rates = {(row["scenario"], row["threads"]): row["per_second"] for row in section.get("rows", [])}
    if ("hot key", 1) in rates:
        yield Bar("`gcra` in Rust, one thread, hot key", rates["hot key", 1] / 1e6, "M/s", 10.0)
    # Two threads on one key take turns by the nature of the thing, so each has its own.
    if ("hot key each", 2) in rates:
        gain = rates["hot key each", 2] / rates["hot key each", 1]
        yield Bar("`gcra` in Rust, two threads against one, a hot key each", gain, "x", 1.6)


def _rules(section: dict[str, Any]) -> Iterator[Bar]:
    for row in (section.get("matching") or {}).get("rows", []):
        if row["rules"] == 1_000:
            yield Bar("matching one request among 1,000 rules, in Rust", row["match_ns"] / 1e3, "µs", 1.0, at_most=True)
    for row in section.get("loading", []):
        if row["rules"] == 10_000:
            yield Bar("loading a file of 10,000 rules", row["seconds"], "s", 2.0, at_most=True)
    for row in section.get("checking", []):
        if row["style"] == "check":
            what = f"`RuleLimiter.check` with {row['rules']} rules, {row['scenario']}"
            yield Bar(what, 1e3 / row["median_ns"], "M/s", 0.7)


def _tail(section: dict[str, Any]) -> Iterator[Bar]:
    for row in section.get("rows", []):
        if row["library"] == "tidegate":
            for stage, cuts in row["stages"].items():
                what = f"p99.99 of `check`, {row['keys'] / MILLION:g} million keys, stage {stage}"
                yield Bar(f"{what}, all calls", cuts["all"]["99.99"] / 1e3, "µs", 100.0, at_most=True)
                yield Bar(f"{what}, undisturbed calls", cuts["undisturbed"]["99.99"] / 1e3, "µs", 100.0, at_most=True)


def _memory(section: dict[str, Any]) -> Iterator[Bar]:
    for row in section.get("rows", []):
        if row["library"] == "tidegate" and row["algorithm"] in BARRED_ALGORITHMS and row["checks"] == 1:
            for sample in row["samples"]:
                if sample["keys"] in {MILLION, row["keys"]}:
                    what = f"bytes per key, `{row['algorithm']}`, {sample['keys'] / MILLION:g} million keys"
                    yield Bar(what, sample["rss"], "bytes", 64.0, at_most=True)


def _redis_speed(section: dict[str, Any]) -> Iterator[Bar]:
    if not section:
        return
    tasks, threads = section["async"], section["sync"]
    limits, peers = fastest_limits(tasks), generators(tasks)
    own = {row["note"]: row["per_second"] for row in tasks if row["library"] == "tidegate" and row["quotas"] == 1}
    # The algorithm that one gets without asking, and the one that `limits` is measured with.
    for note in ("sliding_window", "sliding_window_counter"):
        what = f"Redis, `check_async` by {section['tasks']} tasks, `{note}`"
        yield Bar(f"{what}, against `limits`", own[note] / limits, "x", 6.0)
        load = peers[note]
        yield Bar(f"{what}, of {load['library']} with the same script", 100 * own[note] / load["per_second"], "%", 80.0)
    for row in threads:
        if row["library"] == "tidegate" and row["note"] in {"sliding_window", "sliding_window_counter"}:
            what = f"Redis, `check` by {row['threads']} thread{'s' if row['threads'] > 1 else ''}, `{row['note']}`, against `limits`"
            target = 1.4 if row["threads"] == 1 else 5.0
            yield Bar(what, row["per_second"] / fastest_limits(threads, threads=row["threads"]), "x", target)
    # Both by what the server can do at most and by what a caller waits: the bar does not say which.
    waits = {row["note"]: row["cuts_us"]["50"] for row in section["latency"] if row["library"] == "tidegate"}
    for note, (three, one) in three_to_one(tasks).items():
        what = f"Redis, three quotas in one call against one, `{note}`"
        yield Bar(f"{what}, {section['tasks']} tasks", one["per_second"] / three["per_second"], "x", 1.6, at_most=True)
        yield Bar(f"{what}, p50 of one caller", waits[f"{note}, three quotas"] / waits[note], "x", 1.6, at_most=True)


def _redis_server(section: dict[str, Any]) -> Iterator[Bar]:
    trips = [row["round_trips"] for row in (section.get("scripts") or {}).get("rows", []) if row["library"] == "tidegate"]
    if trips:
        yield Bar("Redis, round trips per decision, the most of all algorithms", max(trips), "trips", 1.0, at_most=True)
    for row in (section.get("size") or {}).get("rows", []):
        # With fewer keys the tables of the server are emptier, and a key takes more.
        is_barred = row["server"].startswith("redis70") and row["library"] == "tidegate"
        if is_barred and row["checks"] == 1 and row["keys"] == 100_000:
            what = f"Redis 7.0, bytes per key, `{row['note']}`, {row['keys']:,} keys"
            yield Bar(what, row["bytes"], "bytes", 160.0, at_most=True)
    frozen = section.get("frozen") or {}
    for row in frozen.get("rows", []):
        if row["library"] == "tidegate":
            # Two milliseconds for a kernel that wakes a thread late.
            what = f"Redis, longest wait for a frozen store, {row['note']}"
            yield Bar(what, row["longest_ms"], "ms", frozen["budget_ms"] + 2, at_most=True)
