"""
Load at a steady pace, by `crates/server/examples/pace.rs`: what h2load measures at half load is mostly its own bursts.

It never sleeps, so it needs a core that nobody else uses.
"""

import json
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from cargo_example import EXAMPLES, ROOT
from service_lanes import GENERATOR, Setup
from service_load import H2load, Load, LoadFailed, Request, pinned, program


@dataclass(frozen=True)
class Pace:
    """The load of pace: HTTP/2, or HTTP/1.1 where `streams` is 0."""

    connections: int
    streams: int
    seconds: float

    def run(self, request: Request, folder: Path, cores: tuple[int, ...], *, rate: float) -> Load:
        """
        Loads for so long.

        Raises:
            LoadFailed: Not every call was answered with 200.
        """
        where = urlsplit(request.url)
        path = f"{where.path or '/'}?{where.query}".removesuffix("?")
        (folder / "body").write_bytes(request.body)
        words = [str(EXAMPLES / "pace"), "h2" if self.streams else "h1", where.netloc, path, f"{rate:.0f}", f"{self.seconds:g}"]
        words += [str(self.connections), str(max(1, self.streams)), str(folder / "body") if request.body else "-"]
        words += [f"{name}:{value}" for name, value in request.headers.items()]
        with pinned(cores):
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LoadFailed(done.stdout + done.stderr)
        said = json.loads(done.stdout)
        if said["bad"]:
            raise LoadFailed(f"{said['bad']} of {said['calls']} calls were not answered with 200")
        return Load(said["per_second"], said["calls"], said["cuts_us"])


def half_load(connections: int, streams: int, setup: Setup) -> Pace | H2load | None:
    """Return the generator for half load, `None` if there is none."""
    # Where it has no core for itself it would take from what it measures.
    if setup.cores == GENERATOR and _is_built(is_quick=setup.plan.rounds == 1):
        return Pace(connections, streams, setup.plan.half_s)
    return H2load(connections, streams, setup.plan.half_s) if program("h2load") else None


@cache
def _is_built(*, is_quick: bool) -> bool:
    if not is_quick and shutil.which("cargo"):
        command = ("cargo", "build", "--release", "--quiet", "--example", "pace", "-p", "tidegate-server")
        subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    return (EXAMPLES / "pace").exists()
