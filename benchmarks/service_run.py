"""The service under load from outside, held against others under the same load. Everything runs in processes of its own."""

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import pace
import service_load
from child import Advance, part_of

NEEDED = ("tidegate", "grpc", "fastapi", "uvicorn", "limits")


def measure(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return the results by part, or the reason why there are none."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        return {"skipped": f"not installed: {', '.join(absent)}"}
    import service_grpc  # noqa: PLC0415 - they import what may not be there
    import service_http  # noqa: PLC0415
    import service_memory  # noqa: PLC0415

    parts = {
        "grpc": service_grpc.memory,
        "redis": service_grpc.redis,
        "http": service_http.speed,
        "steady": service_http.steady,
        "memory": service_memory.measure,
    }
    advance("cargo build --release", 0.0)
    pace.build(quick=quick)
    results: dict[str, Any] = {"generators": service_load.versions()}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        for number, (name, part) in enumerate(parts.items()):
            results[name] = part(quick=quick, folder=Path(folder), advance=part_of(advance, number, len(parts), name))
    return results
