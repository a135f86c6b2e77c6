"""
What a response says about limits, in whichever form: `RateLimit` of every draft, `X-RateLimit-*`, `Retry-After`.

| form | sent by |
| --- | --- |
| `RateLimit: "name";r=5;t=30` with `RateLimit-Policy: "name";q=100;w=60` | drafts from 08 on, Tidegate |
| `RateLimit: limit=100, remaining=5, reset=30` | draft 07 |
| `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` | drafts up to 06 |
| `X-RateLimit-*` or `X-Rate-Limit-*`, also with `-Reset-After`, or with `-Requests` and `-Tokens` behind the name | everybody else |

The first form that says something counts. What cannot be read counts as not sent, and a server that sends nonsense is believed nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.pacing import structured
from tidegate.pacing.times import SECOND_NS, TOLD_MAX_NS, date_ns, reset_ns, retry_after_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Field = Callable[[str], str | None]
    """Finds a field of a response by its name, in lower case; several lines of it are joined by commas."""

LIMITS_MAX = 16
"""The most limits that are read from one response."""

UNITS_MAX = 10**15
"""The largest number that a structured field can hold."""

_REQUESTS = ("requests", "request")
_COUNT = re.compile(r"(\d{1,18})(?:\.0+)?", re.ASCII)
_WINDOW = re.compile(r";\s*w=(\d{1,15})", re.ASCII)
_LEGACY = ("x-ratelimit-{}", "x-rate-limit-{}", "x-ratelimit-{}-requests", "x-ratelimit-{}-tokens")


@dataclass(frozen=True, slots=True)
class Limit:
    """
    What a server says about one of its limits.

    Args:
        name: Its name; limits of older forms get the name of the form.
        remaining: How many requests it has left, at the time of the response.
        reset_ns: For how long these have to last.
        quota: How many there are in a window.
        window_ns: The window.
    """

    name: str
    remaining: int | None = None
    reset_ns: int | None = None
    quota: int | None = None
    window_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """
    What a response says about limits.

    Args:
        limits: One for each limit that it mentions.
        retry_after_ns: The wait that it asks for.
    """

    limits: tuple[Limit, ...] = ()
    retry_after_ns: int | None = None

    @property
    def wait_ns(self) -> int | None:
        """The wait that a refused client should keep: `Retry-After`, or else until the limits that are used up have something left."""
        if self.retry_after_ns is not None:
            return self.retry_after_ns
        resets = [limit.reset_ns for limit in self.limits if limit.remaining == 0 and limit.reset_ns is not None]
        return max(resets, default=None)


def read(field: Field, now_ns: int) -> Told:
    """
    Reads the fields of a response.

    Args:
        field: Finds a field.
        now_ns: The time here, in nanoseconds since 1970. Instants are compared with the server's `Date` if there is one, so that it does
            not matter how wrong either clock is.

    Returns:
        What they say.
    """
    there_ns = date_ns(field("date"))
    there_ns = now_ns if there_ns is None else there_ns
    retry = retry_after_ns(field("retry-after"), there_ns)
    # What a cache kept says how it was, not how it is.
    if (field("age") or "0").strip() not in ("", "0"):
        return Told(retry_after_ns=retry)
    found = _current(field) or _dictionary(field) or list(_numbered(field, there_ns))
    return Told(tuple(found[:LIMITS_MAX]), retry)


def _current(field: Field) -> list[Limit]:
    policies = [item for item in structured.items(field("ratelimit-policy")) if type(item.value) is str]
    states = [item for item in structured.items(field("ratelimit")) if type(item.value) is str]
    # Other units are bytes, or slots in flight: how many of them a request takes, nobody says.
    other = {item.value for item in policies if item.parameters.get("qu", "requests") not in _REQUESTS}
    found: dict[str, Limit] = {}
    for item in policies[:LIMITS_MAX]:
        quota = item.number("q")
        if item.value not in other and quota is not None:
            found[str(item.value)] = Limit(str(item.value), quota=quota, window_ns=_seconds(item.number("w")))
    for item in states[:LIMITS_MAX]:
        # The draft that follows renames both parameters.
        remaining, name = item.number("r", "a"), str(item.value)
        if item.value in other or remaining is None:
            continue
        policy = found.get(name, Limit(name))
        reset = _seconds(item.number("t", "w"))
        found[name] = Limit(name, _at_most(remaining, policy.quota), reset, policy.quota, policy.window_ns)
    return list(found.values())


def _dictionary(field: Field) -> list[Limit]:
    parts = structured.dictionary(field("ratelimit"))
    remaining, reset, quota = (_whole(parts.get(name)) for name in ("remaining", "reset", "limit"))
    if remaining is None:
        return []
    return [Limit("ratelimit", _at_most(remaining, quota), _seconds(reset), quota, _window_ns(field("ratelimit-policy"), quota))]


def _numbered(field: Field, there_ns: int) -> Iterator[Limit]:
    for form in ("ratelimit-{}", *_LEGACY):
        remaining = _count(field(form.format("remaining")))
        if remaining is None:
            continue
        limit = field(form.format("limit"))
        quota = _count(limit.split(",")[0].split(";")[0]) if limit else None
        after = reset_ns(field(form.format("reset-after")), there_ns)
        reset = reset_ns(field(form.format("reset")), there_ns) if after is None else after
        window = _window_ns(field("ratelimit-policy") or limit, quota)
        yield Limit(form.format("remaining"), _at_most(remaining, quota), reset, quota, window)
        # Servers that know several of the older names say the same under each; those with a unit behind it are different limits.
        if not form.endswith(("-requests", "-tokens")):
            return


def _window_ns(text: str | None, quota: int | None) -> int | None:
    """
    The window of the policy that has this quota, as in `100, 100;w=60`.
    """
    if text is None or quota is None or len(text) > structured.FIELD_CHARACTERS_MAX:
        return None
    for part in text.split(",")[:LIMITS_MAX]:
        window = _WINDOW.search(part)
        if window is not None and _count(part.split(";")[0]) == quota:
            return _seconds(int(window[1]))
    return None


def _seconds(seconds: int | None) -> int | None:
    return None if seconds is None else min(seconds * SECOND_NS, TOLD_MAX_NS)


def _count(text: str | None) -> int | None:
    """
    A number of requests; what is negative or no number at all was not sent.
    """
    found = _COUNT.fullmatch(text.strip()) if text and len(text) < structured.FIELD_CHARACTERS_MAX else None
    return min(int(found[1]), UNITS_MAX) if found else None


def _whole(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _at_most(remaining: int, quota: int | None) -> int:
    return remaining if quota is None else min(remaining, quota)
