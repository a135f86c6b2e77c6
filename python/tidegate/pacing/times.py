"""
Times as servers write them: seconds, dates, instants, lengths. What cannot be read is `None`, never an exception.
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime

SECOND_NS = 1_000_000_000
TOLD_MAX_NS = 10 * 366 * 86_400 * SECOND_NS
"""Ten years. Servers that tell longer times mean nothing by them."""

TEXT_CHARACTERS_MAX = 64
"""No time takes more characters."""

_INSTANT_MIN_S = 1_000_000_000
"""The year 2001. No server makes clients wait for thirty years, so from here on a number is an instant."""

_MILLISECONDS_MIN = 100_000_000_000
"""The year 5138 in seconds, or 1973 in milliseconds."""

_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_NUMBER = re.compile(r"(\d{1,18})(?:\.(\d{1,9})\d{0,9})?", re.ASCII)
_LENGTH = re.compile(
    r"(?:(?P<d>\d{1,6})d)?(?:(?P<h>\d{1,6})h)?(?:(?P<m>\d{1,6})m(?!s))?"
    r"(?:(?P<s>\d{1,9})(?:\.(?P<fraction>\d{1,9}))?s)?(?:(?P<ms>\d{1,9})(?P<part>\.\d{1,9})?ms)?",
    re.ASCII,
)


def number_ns(text: str) -> int | None:
    """
    A number of seconds, such as `5` or `0.25`.

    Args:
        text: What was sent.

    Returns:
        Nanoseconds.
    """
    found = _NUMBER.fullmatch(text)
    return None if found is None else int(found[1]) * SECOND_NS + _fraction_ns(found[2])


def length_ns(text: str) -> int | None:
    """
    A length of time with units, such as `12ms` or `6m0s`.

    Args:
        text: What was sent.

    Returns:
        Nanoseconds.
    """
    found = _LENGTH.fullmatch(text)
    if found is None or not text:
        return None
    days, hours, minutes, seconds, milliseconds = (int(found[unit] or 0) for unit in ("d", "h", "m", "s", "ms"))
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    # A part of a millisecond is a whole one: a wait is rounded up.
    return whole * SECOND_NS + _fraction_ns(found["fraction"]) + (milliseconds + (found["part"] is not None)) * 1_000_000


def date_ns(text: str | None) -> int | None:
    """
    A date of HTTP.

    Args:
        text: What was sent.

    Returns:
        Nanoseconds since 1970.
    """
    if text is None or len(text) > TEXT_CHARACTERS_MAX:
        return None
    try:
        date = parsedate_to_datetime(text)
        # Dates of HTTP are in GMT, whether they say so or not.
        date = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
        return int(date.timestamp()) * SECOND_NS
    except (ValueError, TypeError, OverflowError, IndexError, OSError):
        return None


def retry_after_ns(text: str | None, now_ns: int) -> int | None:
    """
    What `Retry-After` says: whole seconds, or a date.

    Args:
        text: The field.
        now_ns: The server's time, in nanoseconds since 1970.

    Returns:
        The wait.
    """
    if text is None or len(text) > TEXT_CHARACTERS_MAX:
        return None
    text = text.strip()
    if _WHOLE.fullmatch(text):
        return min(int(text) * SECOND_NS, TOLD_MAX_NS)
    date = date_ns(text)
    return None if date is None else _bounded(date - now_ns)


def reset_ns(text: str | None, now_ns: int) -> int | None:
    """
    What a `Reset` field says. Nobody has agreed on it: it is a wait or an instant, in seconds or milliseconds, a length or a date.

    Args:
        text: The field.
        now_ns: The server's time, in nanoseconds since 1970.

    Returns:
        The wait; 0 if it is over.
    """
    if text is None or len(text) > TEXT_CHARACTERS_MAX:
        return None
    text = text.strip()
    seconds_ns = number_ns(text)
    if seconds_ns is None:
        length = length_ns(text)
        date = date_ns(text) if length is None else None
        return _bounded(date - now_ns) if date is not None else None if length is None else _bounded(length)
    if seconds_ns >= _MILLISECONDS_MIN * SECOND_NS:
        return _bounded(seconds_ns // 1000 - now_ns)
    if seconds_ns >= _INSTANT_MIN_S * SECOND_NS:
        return _bounded(seconds_ns - now_ns)
    return _bounded(seconds_ns)


def _fraction_ns(digits: str | None) -> int:
    return int((digits or "").ljust(9, "0"))


def _bounded(wait_ns: int) -> int:
    return max(0, min(wait_ns, TOLD_MAX_NS))
