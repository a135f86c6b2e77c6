"""The integrations, each held against others that do the same for the same framework."""

import importlib
import importlib.util
from typing import Any

from child import Advance, part_of

NEEDED = ("tidegate", "fastapi", "uvicorn")
PARTS = {"asgi": "integrations_asgi", "http": "integrations_http", "stalls": "integrations_stalls", "flask": "integrations_flask"}
"""By what is measured, the module whose `measure_all` does it; one that is not there is left out."""


def measure(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return the results by part, or the reason why there are none."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        return {"skipped": f"not installed: {', '.join(absent)}"}
    parts = {name: module for name, module in PARTS.items() if importlib.util.find_spec(module)}
    results: dict[str, Any] = {}
    for number, (name, module) in enumerate(parts.items()):
        results[name] = importlib.import_module(module).measure_all(quick=quick, advance=part_of(advance, number, len(parts), name))
    return results
