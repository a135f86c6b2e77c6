"""
Numbers and times as people read them: with a unit, short, and in UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup, escape

_CODE: Final = re.compile(r"`([^`]+)`")

NOTHING = "\u2013"
"""What stands where a value is not known."""

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_SPANS = ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute"), (1, "second"))
_SHORT = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_WHOLE_BELOW = 10_000
_TENTHS_BELOW = 10
_MS_US = 1_000.0
_S_US = 1_000_000.0


def count(number: float) -> str:
    """
    How many: `1,204`, and from ten thousand on `12.3 k`, so that columns stay narrow.
    """
    if abs(number) < _WHOLE_BELOW:
        return f"{number:,.0f}" if number == int(number) or abs(number) >= _TENTHS_BELOW else f"{number:.1f}"
    # What rounds up to a thousand belongs to the next unit: 999,950 is 1.0 M.
    size, letter = next((unit for unit in _SHORT if abs(number) >= unit[0] * 0.99995), _SHORT[-1])
    return f"{number / size:,.1f} {letter}"


def micros(value: float | None) -> str:
    """
    A latency that was measured in microseconds.
    """
    if value is None:
        return NOTHING
    if value < _MS_US:
        return f"{value:.0f} µs"
    if value < _S_US:
        return f"{value / _MS_US:.1f} ms"
    return f"{value / _S_US:.1f} s"


def share(part: float, whole: float) -> str:
    """
    A part of a whole in percent. What is small but there never reads as nothing, and what is not all never as all.
    """
    if whole <= 0:
        return "0 %"
    percent = 100 * part / whole
    if 0 < percent < 0.1:  # noqa: PLR2004  # a tenth is the smallest that is shown
        return "< 0.1 %"
    if 99.9 < percent < 100:  # noqa: PLR2004  # as above
        return "> 99.9 %"
    return f"{percent:.0f} %" if percent in {0.0, 100.0} else f"{percent:.1f} %"


def span(seconds: float) -> str:
    """
    A duration by its largest unit: `3 minutes`.
    """
    size, name = next((unit for unit in _SPANS if abs(seconds) >= unit[0]), _SPANS[-1])
    number = int(abs(seconds) // size)
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def ago(then: datetime, now: datetime) -> str:
    """
    A time as seen from now: `3 minutes ago`, `in 2 hours`, `now`.
    """
    seconds = (now - then).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(seconds)}"


def stamp(then: datetime) -> str:
    """
    A time in full: `2026-11-16 21:40:05 UTC`.
    """
    return then.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def plural(number: int, noun: str) -> str:
    """
    `1 rule`, `2 rules`.
    """
    return f"{count(number)} {noun}" if number == 1 else f"{count(number)} {noun}s"


def told(text: str) -> Markup:
    """
    A sentence of ours: what stands between backticks is set as code, everything in it is shown as it is.
    """
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704  # escaped here
