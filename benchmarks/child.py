"""
A measurement in a process of its own, so that nothing that ran before is in its memory or its caches.

The child prints JSON lines: `{"share": 0.4, "text": "..."}` while it works and `{"result": ...}` at the end.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Advance = Callable[[str, float], None]


def part_of(advance: Advance, number: int, parts: int, label: str = "") -> Advance:
    """Return what a part of a measurement calls, so that its share becomes a share of the whole."""

    def report(text: str, share: float) -> None:
        advance(" ".join(filter(None, (label, text))), (number + share) / parts)

    return report


class ChildError(RuntimeError):
    """A measurement failed; the text is what it wrote to stderr."""


def run_child(script: Path, arguments: dict[str, Any], advance: Advance) -> dict[str, Any]:
    """
    Runs `script` with `arguments` as JSON.

    Returns:
        Its result.

    Raises:
        ChildError: It failed.
    """
    command = [sys.executable, str(script), json.dumps(arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        result: dict[str, Any] | None = None
        assert child.stdout is not None
        assert child.stderr is not None
        for line in child.stdout:
            message = json.loads(line)
            if "result" in message:
                result = message["result"]
            else:
                advance(message["text"], message["share"])
        errors = child.stderr.read()
    if child.returncode != 0 or result is None:
        raise ChildError(f"{script.name} {arguments}: {errors.strip() or 'no result'}")
    return result


def serve(measure: Callable[..., Any]) -> None:
    """Calls `measure` with the arguments of the command line and reports to the parent."""

    def advance(text: str, share: float) -> None:
        _say({"text": text, "share": share})

    _say({"result": measure(**json.loads(sys.argv[1]), advance=advance)})


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
