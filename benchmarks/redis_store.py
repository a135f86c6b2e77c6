"""Tidegate on a shared store: speed, work of the server, size there, and how callers fare when it freezes. Each in its own process."""

from typing import Any

import redis_frozen
import redis_scripts
import redis_size
import redis_speed
from child import Advance, part_of, run_child

PARTS = {"speed": redis_speed, "scripts": redis_scripts, "size": redis_size, "frozen": redis_frozen}


def measure(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return the results by part, or the reason why there are none."""
    try:
        import limits  # noqa: F401, PLC0415 - only to see whether they are there

        import tidegate  # noqa: F401, PLC0415
    except ImportError as missing:
        return {"skipped": f"not installed: {missing.name}"}
    return {
        name: run_child(part.FILE, {"quick": quick}, part_of(advance, number, len(PARTS)))
        for number, (name, part) in enumerate(PARTS.items())
    }
