"""
What health checks ask for and expect: two kinds of settings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tidegate.service.kinds import Kind, Text, Wrong

_PATH = re.compile(r"/[\x21\x24-\x7e]{0,1023}")
_STATUSES = re.compile(r"(?P<low>[1-5][0-9]{2})(?:-(?P<high>[1-5][0-9]{2}))?")


@dataclass(frozen=True, slots=True)
class CheckPath(Text):
    """
    A path, perhaps with a query.
    """

    metavar = "PATH"

    def read(self, text: str) -> str:
        """See `Kind`."""
        if not _PATH.fullmatch(text):
            raise Wrong("bad-path", f"`{text:.80}` is no path", "write a path such as /healthz")
        return text


@dataclass(frozen=True, slots=True)
class Statuses(Kind):
    """
    Statuses of HTTP: `200`, `200-299`, or several with commas.
    """

    metavar = "STATUSES"
    is_text = False

    def read(self, text: str) -> tuple[tuple[int, int], ...]:
        """See `Kind`."""
        ranges = []
        for part in text.split(","):
            found = _STATUSES.fullmatch(part.strip())
            if found is None or int(found["high"] or found["low"]) < int(found["low"]):
                raise Wrong("bad-status", f"`{part.strip():.40}` is no status", "write 200, 200-299 or 200-299,404")
            ranges.append((int(found["low"]), int(found["high"] or found["low"])))
        return tuple(ranges)

    def schema(self) -> dict[str, Any]:
        """See `Kind`."""
        return {"anyOf": [{"type": "integer", "minimum": 100, "maximum": 599}, {"type": "string", "minLength": 3}]}

    def show(self, value: Any) -> str:  # noqa: ANN401  # see `Kind`
        """See `Kind`."""
        return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in value)
