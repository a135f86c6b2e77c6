"""Benchmarks that are written in Rust: builds a release example and reads its JSON lines."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from child import Advance

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/examples"


def measure(name: str, package: str, *, quick: bool, advance: Advance) -> dict[str, Any]:
    """
    Builds and runs an example, unless it is a quick run, which takes what was built before.

    Returns:
        Its rows, or the reason why there are none.
    """
    if not quick:
        advance("cargo build --release", 0.05)
    reason = build(name, package, quick=quick)
    return {"rows": [], "skipped": reason} if reason else {"rows": _run(EXAMPLES / name, quick=quick, advance=advance)}


def build(name: str, package: str, *, quick: bool) -> str:
    """
    Builds an example, unless it is a quick run, which takes what was built before.

    Returns:
        The reason why there is none; nothing if there is one.
    """
    command = ("cargo", "build", "--release", "--quiet", "--example", name, "-p", package)
    if not quick:
        if shutil.which("cargo") is None:
            return "cargo is not installed"
        built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            return "cargo build failed: " + (built.stderr.strip().splitlines() or ["?"])[-1]
    return "" if (EXAMPLES / name).exists() else f"not built: {' '.join(command)}"


def _run(binary: Path, *, quick: bool, advance: Advance) -> list[dict[str, Any]]:
    rows = []
    with subprocess.Popen([str(binary), *(["--quick"] if quick else [])], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            message = json.loads(line)
            if "share" in message:
                advance(message["text"], 0.1 + 0.9 * message["share"])
            else:
                rows.append(message)
    return rows
