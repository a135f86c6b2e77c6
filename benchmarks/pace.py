"""
Load at a steady pace, by `crates/server/examples/pace`: what h2load measures at a given rate is mostly its own bursts.

It spins where it has a core for itself, and sleeps between calls where it shares one.
"""

import json
import os
import subprocess
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from urllib.parse import urlsplit

import cargo_example
import stalls
from service_load import Load, LoadFailed, Request, pinned

NAME = "pace"
SETTLED_S = 0.1
"""For so long after a stall a server may still be making up for it."""
AHEAD_S = 0.02
"""For so long after a call was due no core may stand still, whenever it was answered: else a slow server would lose more of its calls."""
CALM_S = 1.0
"""Calls of so many seconds that the machine did not delay are enough to tell one in a hundred."""
ROUNDS_MAX = 30
"""On a machine that is hardly ever calm, so many runs are made."""


@dataclass(frozen=True)
class Pace:
    """The load of pace: each call is made when it is due, whatever became of the ones before."""

    connections: int
    seconds: float
    is_http2: bool = False
    sleeps: bool = False
    serves: str = ""
    """Where it is the server behind a proxy too; empty is nowhere."""

    def words(self, request: Request, bodies: str, rate: str) -> list[str]:
        """Return the command; `bodies` is a file, or nothing."""
        where = urlsplit(request.url)
        path = f"{where.path or '/'}?{where.query}".removesuffix("?")
        words = [NAME, "http2" if self.is_http2 else "http1", where.netloc, path, "--rate", rate]
        words += ["--seconds", f"{self.seconds:g}", "--connections", str(self.connections)]
        words += ["--bodies", bodies] if bodies else []
        words += [word for name, value in request.headers.items() for word in ("--header", f"{name}: {value}")]
        words += ["--serve", self.serves] if self.serves else []
        return [*words, *(["--sleep"] if self.sleeps else [])]

    def run(self, request: Request, bodies: Sequence[bytes], folder: Path, cores: Sequence[int], rate: float) -> Load:
        """
        Loads for so long, with one body after the other.

        Raises:
            LoadFailed: Not every call was answered well. No other run makes up for that.
        """
        file = folder / "bodies"
        file.write_bytes(b"".join(len(body).to_bytes(4, "big") + body for body in bodies))
        return _run(self.words(request, str(file) if bodies else "", f"{rate:.0f}"), cores)


def build(*, quick: bool) -> None:
    """Builds the generator, unless it is a quick run, which takes what was built before. Without it there is no half load."""
    cargo_example.build(NAME, "tidegate-server", quick=quick)


def is_built() -> bool:
    """Whether there is a generator."""
    return _program().exists()


def _program() -> Path:
    return cargo_example.EXAMPLES / NAME


def _run(words: list[str], cores: Sequence[int]) -> Load:
    with stalls.watched(_program(), sorted(os.sched_getaffinity(0))) as machine, pinned(cores):
        done = subprocess.run([str(_program()), *words[1:]], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LoadFailed(f"{' '.join(words)} ended with {done.returncode}\n{done.stderr}")
    said = json.loads(done.stdout)
    if said["errors"] or said["unanswered"] or not said["calls"]:
        raise LoadFailed(f"{' '.join(words)}\n{done.stdout}")
    return Load(
        said["per_second"],
        said["calls"],
        said["cuts_us"],
        lag_us=said["lag_us"],
        stood=machine.stood,
        waits_us=array("L", (wait for _, wait in said["each_us"])),
        calm_us=array("L", _calm(said["each_us"], said["begun_s"], machine.stalls_s)),
    )


def _calm(each_us: list[tuple[int, int]], begun_s: float, stalls_s: list[tuple[float, float]]) -> Iterator[int]:
    """
    Yield the latencies of the calls around whose moment no core stood still.

    Which calls count is decided by when they were due and by what the machine did, never by what the server did: one that takes longer
    than `AHEAD_S` counts, also if it met a stall later.
    """
    # Of all stalls that begin before a moment, the one that ends last.
    begins, ends = [begin for begin, _ in stalls_s], list(accumulate((end for _, end in stalls_s), max))
    for due_us, wait_us in each_us:
        due_s = begun_s + due_us / 1e6
        before = bisect_left(begins, due_s + AHEAD_S)
        if not before or ends[before - 1] < due_s - SETTLED_S:
            yield wait_us
