"""
How long the machine itself stood still.

On each core a witness, `pace stalls`, sleeps for a millisecond at a time and goes before everybody else (`SCHED_FIFO`, which takes root).
It wakes late only where the core did nothing for anybody: no server could have answered there.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from service_load import pinned


@dataclass
class Watched:
    """What witnesses have seen."""

    stood: float | None = None
    """For which share of the time the core stood still that did so most; `None` without root, where nobody can watch."""
    stalls_s: list[tuple[float, float]] = field(default_factory=list)
    """From when until when a core stood still, by the monotonic clock."""


@contextmanager
def watched(program: Path, cores: Sequence[int]) -> Iterator[Watched]:
    """Watches these cores during this block; afterwards it is known what they did."""
    seen = Watched()
    children: list[subprocess.Popen[str]] = []
    # Who must not go first is no witness.
    with suppress(PermissionError):
        for core in cores:
            with pinned((core,)):
                child = subprocess.Popen([str(program), "stalls"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            children.append(child)
            os.sched_setscheduler(child.pid, os.SCHED_FIFO, os.sched_param(2))
        seen.stood = 0.0
    try:
        yield seen
    finally:
        said = [json.loads(child.communicate()[0]) for child in children]
        if seen.stood is not None:
            seen.stood = max((one["stood_s"] / max(one["seconds"], 1e-9) for one in said), default=0.0)
            seen.stalls_s = sorted((begin, end) for one in said for begin, end in one["stalls_s"])
