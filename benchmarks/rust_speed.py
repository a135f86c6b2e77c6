"""The memory store in Rust without Python: runs `crates/store/examples/bench_gcra.rs` and reads its JSON lines."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from child import Advance

ROOT = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/examples/bench_gcra"
BUILD = ("cargo", "build", "--release", "--quiet", "--example", "bench_gcra", "-p", "tidegate-store")


def measure(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """
    Builds the example, unless it is a quick run, which takes what was built before.

    Returns:
        One row per scenario and number of threads, or the reason why there is none.
    """
    if not quick:
        if shutil.which("cargo") is None:
            return {"rows": [], "skipped": "cargo is not installed"}
        advance("cargo build --release", 0.05)
        built = subprocess.run(BUILD, cwd=ROOT, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            return {"rows": [], "skipped": "cargo build failed: " + (built.stderr.strip().splitlines() or ["?"])[-1]}
    if not BINARY.exists():
        return {"rows": [], "skipped": f"not built: {' '.join(BUILD)}"}
    return {"rows": _run(quick=quick, advance=advance)}


def _run(*, quick: bool, advance: Advance) -> list[dict[str, Any]]:
    rows = []
    with subprocess.Popen([str(BINARY), *(["--quick"] if quick else [])], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            message = json.loads(line)
            if "share" in message:
                advance(message["text"], 0.1 + 0.9 * message["share"])
            else:
                rows.append(message)
    return rows
