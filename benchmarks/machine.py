"""Where a run took place: nobody can read a number without it."""

import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
from peers import PEERS


def describe() -> dict[str, Any]:
    """Return date, processor, cores, memory, load, and the versions of everything that takes part."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 2),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "rustc": _rustc(),
        "packages": {name: version for name in _names() if (version := _version(name))},
    }


def of_subject(results: dict[str, Any], subject: str) -> dict[str, Any]:
    """Return the facts of the run in which a subject was measured last."""
    facts: dict[str, Any] = results.get("machines", {}).get(subject, results["machine"])
    return facts


def wait_until_quiet(at_most_s: float = 0.5) -> None:
    """Waits for a moment in which nobody else works here, for what needs both cores and takes no longer than such a moment."""
    ends = time.monotonic() + at_most_s
    while time.monotonic() < ends and psutil.cpu_percent(interval=0.05) > 10:
        pass


def _names() -> list[str]:
    # `limits` works with either client on a shared store.
    return [*(peer.name for peer in PEERS), "redis", "valkey"]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _rustc() -> str | None:
    try:
        return subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
