"""
Servers whose wall clock can be stepped.

libfaketime answers for the C library when a server asks for the time, and reads a file at every question: a step is in force at once.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from pathlib import Path

from .binaries import Missing


class Clock:
    """
    How far the clock of one server is from the true time.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.offset_s = 0.0
        self._write()

    def step(self, seconds: float) -> None:
        """
        Moves the clock by so much; back, if negative.
        """
        self.offset_s += seconds
        self._write()

    def environment(self) -> dict[str, str]:
        """
        What the server must be started with.

        Raises:
            Missing: libfaketime is not installed.
        """
        return {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            # Only the wall clock steps. Both spellings: the name has changed between versions.
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def _write(self) -> None:
        # Replaced as a whole: the server never reads half a number.
        new = self._file.with_suffix(".new")
        new.write_text(f"{self.offset_s:+.6f}\n")
        new.replace(self._file)


@functools.cache
def library() -> Path:
    """
    Where libfaketime is.

    Raises:
        Missing: Nowhere.
    """
    places = [*Path("/usr/lib").glob("*/faketime/libfaketime.so.1")]
    spec = importlib.util.find_spec("libfaketime")
    # The wheel claims to be for every platform, and carries what was built on one.
    if spec and spec.origin and os.uname().machine == "x86_64":
        places.insert(0, Path(spec.origin).parent / "vendor/libfaketime/src/libfaketime.so.1")
    for place in places:
        if place.exists():
            return place
    raise Missing("libfaketime is not installed: run `make setup` (Debian: apt-get install faketime)")
