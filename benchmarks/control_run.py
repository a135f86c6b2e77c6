"""What the control plane costs decisions: people who look, quotas of many customers, and events."""

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

from child import Advance, part_of

NEEDED = ("tidegate", "sqlalchemy", "uvicorn", "fastapi")


def measure(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return the results by part, or the reason why there are none."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        return {"skipped": f"not installed: {', '.join(absent)}"}
    import control_dashboards  # noqa: PLC0415 - they import what may not be there
    import control_events  # noqa: PLC0415
    import control_members  # noqa: PLC0415

    parts = {"dashboards": control_dashboards.measure, "members": control_members.measure, "events": control_events.measure}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        return {
            name: part(quick=quick, folder=Path(folder), advance=part_of(advance, number, len(parts), name))
            for number, (name, part) in enumerate(parts.items())
        }
