"""
What the service logs: lines for people, or JSON for programs, on standard error.
"""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = logging.getLogger("tidegate")


class _Text(logging.Formatter):
    """
    Lines for people.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        return f"{_time(record)} {record.levelname.lower():7} {record.getMessage()}{_traceback(self, record)}"


class _Json(logging.Formatter):
    """
    One JSON object a line, with the `facts` that a record may carry.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        message = f"{record.getMessage()}{_traceback(self, record)}"
        said = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name, "message": message}
        return json.dumps({**said, **getattr(record, "facts", {})}, ensure_ascii=False)


@contextmanager
def logging_to_stderr(level: str, form: str) -> Iterator[None]:
    """
    Logs while a block runs.

    Args:
        level: What is logged: `debug`, `info`, `warning` or `error`.
        form: `text` or `json`.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if form == "json" else _Text())
    before = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(level.upper())
    try:
        yield
    finally:
        LOG.setLevel(before)
        LOG.removeHandler(handler)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return f"\n{formatter.formatException(record.exc_info)}" if record.exc_info else ""
