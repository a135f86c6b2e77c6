"""Rules: how long a request takes to find its own, how long a file takes to load, and what is left of that in Python."""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import cargo_example
from child import Advance, part_of

METHODS = ("GET", "POST", "PUT", "DELETE")
CHECKED_RULES = 20


def measure(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return matching by number of rules (in Rust), loading times, and checks of whole requests from Python."""
    matching = cargo_example.measure("bench_rules", "tidegate-core", quick=quick, advance=part_of(advance, 0, 3))
    return {
        "matching": matching,
        "loading": [_load(rules, part_of(advance, 1, 3)) for rules in ((100,) if quick else (100, 1_000, 10_000))],
        "checking": _check(20_000 if quick else 300_000, 3 if quick else 11, part_of(advance, 2, 3)),
    }


def _document(rules: int, quota: str) -> str:
    """Return a file in which each rule but the last is for one method and path."""
    lines = ["version: 1", "identity:", "  - header: x-api-key", "  - ip: {}", "rules:"]
    for number in range(rules - 1):
        lines += [
            f"  - name: rule_{number}",
            f"    match: {{method: {METHODS[number % 4]}, path: /api/v{number % 3}/resource{number // 12}/*/part{number % 12}}}",
            "    per: client",
            f"    quotas: {quota}",
        ]
    lines += ["  - name: per_client", "    per: client", f"    quotas: {quota}"]
    return "\n".join(lines) + "\n"


def _load(rules: int, advance: Advance) -> dict[str, Any]:
    from tidegate import Limiter  # noqa: PLC0415  # peers are measured without it too

    advance(f"loading {rules:,} rules", 0.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rules.yaml")
        path.write_text(_document(rules, "100/minute"), encoding="utf-8")
        seconds = []
        for _ in range(3):
            started = time.perf_counter()
            Limiter.from_rules(path).close()
            seconds.append(time.perf_counter() - started)
    return {"rules": rules, "seconds": statistics.median(seconds)}


def _check(checks: int, rounds: int, advance: Advance) -> list[dict[str, Any]]:
    from tidegate import Limiter  # noqa: PLC0415  # peers are measured without it too

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rules.yaml")
        # So large that nobody is denied.
        path.write_text(_document(CHECKED_RULES, "100000000/minute gcra"), encoding="utf-8")
        limiter = Limiter.from_rules(path)
    requests = {
        "one rule applies": {"method": "GET", "path": "/somewhere/else", "headers": {"x-api-key": "key-4711"}},
        "two rules apply": {"method": "POST", "path": "/api/v1/resource0/4711/part1", "headers": {"x-api-key": "key-4711"}},
    }
    styles = {"check": limiter.check, "allow": limiter.allow}
    times: dict[tuple[str, str], list[float]] = {}
    for turn in range(rounds):
        advance(f"checks, round {turn + 1} of {rounds}", turn / rounds)
        for scenario, attributes in requests.items():
            for style, call in styles.items():
                started = time.perf_counter()
                for _ in range(checks):
                    call(attributes)
                times.setdefault((scenario, style), []).append((time.perf_counter() - started) / checks * 1e9)
    return [
        {"scenario": scenario, "style": style, "rules": CHECKED_RULES, "median_ns": statistics.median(samples)}
        for (scenario, style), samples in times.items()
    ]
