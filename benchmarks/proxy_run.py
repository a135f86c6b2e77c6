"""The reverse proxy, held against nginx and HAProxy before the same server."""

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import pace
from child import Advance, part_of


def measure(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return the results by part, or the reason why there are none."""
    if importlib.util.find_spec("tidegate") is None:
        return {"skipped": "tidegate is not installed"}
    import proxy_idle  # noqa: PLC0415 - they import what may not be there
    import proxy_speed  # noqa: PLC0415

    parts = {"speed": proxy_speed.speed, "idle": proxy_idle.measure}
    advance("cargo build --release", 0.0)
    pace.build(quick=quick)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        return {
            name: part(quick=quick, folder=Path(folder), advance=part_of(advance, number, len(parts), name))
            for number, (name, part) in enumerate(parts.items())
        }
