"""The memory store in Rust without Python: `crates/store/examples/bench_gcra.rs`."""

from typing import Any

import cargo_example
from child import Advance


def measure(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return one row per scenario and number of threads."""
    return cargo_example.measure("bench_gcra", "tidegate-store", quick=quick, advance=advance)
