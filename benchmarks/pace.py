"""
Load at a steady pace, by `crates/server/examples/pace`: what h2load measures at a given rate is mostly its own bursts.

It spins where it has a core for itself, and sleeps between calls where it shares one.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import cargo_example
import stalls
from service_load import Load, LoadFailed, Request, pinned

NAME = "pace"
LAG_MAX_US = 200.0
"""A generator that is later than that with one call in a hundred has measured itself, or a machine that stood still."""
STOOD_MAX = 0.005
"""
A machine whose core stands still for more of the time than that has a p99 of its own: while a server at half load makes up for a stall,
about as many calls are late again as were in it.
"""
TRIES = 6


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
        Loads for so long, with one body after the other; several times, until the generator itself was in time and the machine let it be.

        Which run counts is decided by what the machine did, never by what the server did.

        Raises:
            LoadFailed: Not every call was answered well. No other run makes up for that.
        """
        file = folder / "bodies"
        file.write_bytes(b"".join(len(body).to_bytes(4, "big") + body for body in bodies))
        words = self.words(request, str(file) if bodies else "", f"{rate:.0f}")
        tried: list[Load] = []
        while len(tried) < TRIES and not (tried and _unrest(tried[-1]) <= 1.0):
            tried.append(_run(words, cores))
        return min(tried, key=_unrest)


def _unrest(load: Load) -> float:
    """Return how much the machine took part in a run; more than 1 is too much."""
    return max(load.lag_us["99"] / LAG_MAX_US, (load.stood or 0.0) / STOOD_MAX)


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
    return Load(said["per_second"], said["calls"], said["cuts_us"], lag_us=said["lag_us"], stood=machine.stood)
