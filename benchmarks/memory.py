"""
Bytes per key: the growth of the resident memory of a fresh process, divided by the keys it has seen, beside what the limiter itself claims.

Keys are made one at a time and thrown away, so that only what the library keeps is counted. Samples are taken on the way, because tables
grow in steps and a single count can be lucky.
"""

from pathlib import Path
from typing import Any

import psutil
from child import Advance, part_of, run_child, serve
from peers import PEERS, Call, Calls, Peer, Quota, tidegate_calls

MILLION = 1_000_000

# Algorithm and checks per key: the state of some grows with the requests that it remembers.
BARRED = (("gcra", 1), ("fixed_window", 1), ("sliding_window_counter", 1))
STATED = (
    ("sliding_window", 1),
    ("sliding_window", 20),
    ("sliding_window_log", 1),
    ("sliding_window_log", 20),
    ("leaky_bucket", 1),
    ("concurrency", 1),
    ("concurrency", 5),
)

# Nothing expires while the keys come in: even one unit takes a quarter of an hour to come back.
LASTING = Quota(100, 86_400)


def measure(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return one row per library, algorithm and number of checks, with samples by number of keys."""
    jobs = _jobs(quick=quick)
    rows = []
    for number, job in enumerate(jobs):
        label = f"{job['library']} {job['algorithm'] or ''} {job['keys'] // 1000:,}k keys"
        report = part_of(advance, number, len(jobs), label)
        rows.append(run_child(Path(__file__), job, report))
    return {"rows": rows}


def _jobs(*, quick: bool) -> list[dict[str, Any]]:
    installed = {peer.name for peer in PEERS if peer.version() is not None}
    scale = 10 if quick else 1
    jobs = [
        {"library": "tidegate", "algorithm": algorithm, "checks": checks, "keys": 10 * MILLION // scale // scale}
        for algorithm, checks in (BARRED[:2] if quick else BARRED)
    ]
    if not quick:
        jobs += [
            {"library": "tidegate", "algorithm": algorithm, "checks": checks, "keys": MILLION if checks > 1 else 10 * MILLION}
            for algorithm, checks in STATED
        ]
    jobs += [
        {"library": peer.name, "algorithm": None, "checks": 1, "keys": MILLION // scale // scale if quick else MILLION}
        for peer in PEERS
        if peer.name == "limits" or (peer.name != "tidegate" and not quick)
    ]
    return [job for job in jobs if job["library"] in installed]


def measure_one(*, library: str, algorithm: str | None, checks: int, keys: int, advance: Advance) -> dict[str, Any]:
    """
    Fills one limiter in this process.

    Returns:
        Samples of (keys, bytes per key by the operating system, bytes per key by `stats`).
    """
    calls = _calls(library, algorithm, keys)
    call = calls.allow
    _fill(call, "warm", 0, 1000, checks)
    process = psutil.Process()
    before = process.memory_info().rss
    step = max(1, keys // 20)
    samples = []
    for first in range(0, keys, step):
        last = min(first + step, keys)
        _fill(call, "user", first, last, checks)
        grown = process.memory_info().rss - before
        claimed = calls.stats().bytes / last if calls.stats else None
        samples.append({"keys": last, "rss": grown / last, "claimed": claimed})
        advance("", last / keys)
    stats = calls.stats() if calls.stats else None
    return {
        "library": library,
        "algorithm": algorithm,
        "checks": checks,
        "keys": keys,
        "held": stats and stats.keys,
        "evicted": stats and stats.evicted,
        "samples": samples,
    }


def _calls(library: str, algorithm: str | None, keys: int) -> Calls:
    if algorithm is None:
        return _peer(library).make(LASTING)
    return tidegate_calls(LASTING, algorithm, keys_max=4 * keys)


def _peer(library: str) -> Peer:
    return next(peer for peer in PEERS if peer.name == library)


def _fill(call: Call, prefix: str, first: int, last: int, checks: int) -> None:
    for number in range(first, last):
        key = f"{prefix}:{number}"
        for _turn in range(checks):
            call(key)


if __name__ == "__main__":
    serve(measure_one)
