"""
What responses say about limits, in every form, and what is made of nonsense.
"""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

import http_sf
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tidegate import Limiter
from tidegate.pacing import Limit, Told, read, structured
from tidegate.pacing.times import SECOND_NS, TOLD_MAX_NS, reset_ns, retry_after_ns
from tidegate.testing import ManualClock

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""

NOW = 1_790_000_000
NOW_NS = NOW * SECOND_NS
X = "x-ratelimit-remaining"


def told(**fields: str) -> Told:
    """
    What fields say, with underscores for hyphens in their names.
    """
    return read({name.replace("_", "-"): value for name, value in fields.items()}.get, NOW_NS)


def limit(name: str, remaining: int | None, reset: float | None, quota: int | None = None, window: int | None = None) -> Limit:
    """
    A limit with its times in seconds.
    """
    reset_time = None if reset is None else round(reset * SECOND_NS)
    return Limit(name, remaining, reset_time, quota, None if window is None else window * SECOND_NS)


@pytest.mark.parametrize(
    ("fields", "limits"),
    [
        ({"ratelimit": '"a";r=5;t=30', "ratelimit_policy": '"a";q=100;w=60'}, [limit("a", 5, 30, 100, 60)]),
        (
            {"ratelimit": '"day";r=12', "ratelimit_policy": '"s";q=9;w=1, "day";q=50'},
            [limit("s", None, None, 9, 1), limit("day", 12, None, 50)],
        ),
        ({"ratelimit": '"a";a=5;w=30;c=2'}, [limit("a", 5, 30)]),
        ({"ratelimit": '"a";r=999;pk=:dHJpYWwxMjEzMjM=:'}, [limit("a", 999, None)]),
        ({"ratelimit": '"slots";r=0', "ratelimit_policy": '"slots";q=5;qu="concurrent-requests"'}, []),
        ({"ratelimit": '"a";r=7;t=1', "ratelimit_policy": '"a";q=5;w=9'}, [limit("a", 5, 1, 5, 9)]),
        ({"ratelimit": "limit=100, remaining=50, reset=5", "ratelimit_policy": "100;w=10"}, [limit("ratelimit", 50, 5, 100, 10)]),
        (
            {"ratelimit_limit": "100, 100;w=10, 1000;w=60", "ratelimit_remaining": "5", "ratelimit_reset": "3"},
            [limit("ratelimit-remaining", 5, 3, 100, 10)],
        ),
        (
            {"x_ratelimit_limit": '10, 10;w=1;name="per-ip"', "x_ratelimit_remaining": "5", "x_ratelimit_reset": "1"},
            [limit(X, 5, 1, 10, 1)],
        ),
        ({"x_ratelimit_remaining": "0", "x_ratelimit_reset": str(NOW + 9)}, [limit(X, 0, 9)]),
        ({"x_ratelimit_remaining": "0", "x_ratelimit_reset": f"{NOW + 9}.5"}, [limit(X, 0, 9.5)]),
        ({"x_ratelimit_remaining": "0", "x_ratelimit_reset": f"{NOW + 9}250"}, [limit(X, 0, 9.25)]),
        ({"x_ratelimit_remaining": "0", "x_ratelimit_reset": str(NOW + 99), "x_ratelimit_reset_after": "1.5"}, [limit(X, 0, 1.5)]),
        ({"x_rate_limit_remaining": "0", "x_rate_limit_reset": "5"}, [limit("x-rate-limit-remaining", 0, 5)]),
        (
            {
                "x_ratelimit_remaining_requests": "0",
                "x_ratelimit_reset_requests": "6m0s",
                "x_ratelimit_remaining_tokens": "9",
                "x_ratelimit_reset_tokens": "12ms",
            },
            [limit(f"{X}-requests", 0, 360), limit(f"{X}-tokens", 9, 0.012)],
        ),
        ({"ratelimit": '"a";r=1', "x_ratelimit_remaining": "9"}, [limit("a", 1, None)]),
        ({"ratelimit": "nonsense", "x_ratelimit_remaining": "9"}, [limit(X, 9, None)]),
        ({"x_ratelimit_remaining": "-1", "x_ratelimit_reset": "5"}, []),
        ({"ratelimit": '"a";r=-1;t=5'}, []),
        ({"ratelimit": '"a";r=1;t=5', "age": "7"}, []),
        ({}, []),
    ],
)
def test_each_form_is_read(fields: dict[str, str], limits: list[Limit]) -> None:
    """
    The newest that says something counts.
    """
    assert limits == list(told(**fields).limits)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        (" 7 ", 7),
        (formatdate(NOW + 30, usegmt=True), 30),
        (formatdate(NOW - 30, usegmt=True), 0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0),
        ("9" * 18, TOLD_MAX_NS / SECOND_NS),
        ("9" * 30, None),
        ("-1", None),
        ("1.5", None),
        ("1s", None),
        ("soon", None),
        ("", None),
        ("\u0665", None),
        ("Wed, 32 Oct 2026 07:28:00 GMT", None),
        ("x" * 10_000, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float | None) -> None:
    """
    And nothing else.
    """
    expected = None if seconds is None else round(seconds * SECOND_NS)

    assert expected == retry_after_ns(text, NOW_NS)


def test_dates_are_compared_with_the_date_of_the_server() -> None:
    """
    However wrong its clock is, or ours.
    """
    there = NOW + 86_400
    fields = {"retry_after": formatdate(there + 30, usegmt=True), X.replace("-", "_"): "0", "x_ratelimit_reset": str(there + 20)}

    assert 30 * SECOND_NS == told(date=formatdate(there, usegmt=True), **fields).retry_after_ns
    assert 20 * SECOND_NS == told(date=formatdate(there, usegmt=True), **fields).limits[0].reset_ns
    assert (86_400 + 30) * SECOND_NS == told(date="garbage", **fields).retry_after_ns


def test_retry_after_takes_precedence() -> None:
    """
    Over the times of limits; without it the longest of those that are used up counts.
    """
    limits = '"a";r=0;t=30, "b";r=0;t=40, "c";r=1;t=50'

    assert 40 * SECOND_NS == told(ratelimit=limits).wait_ns
    assert 5 * SECOND_NS == told(ratelimit=limits, retry_after="5").wait_ns
    assert told(ratelimit='"c";r=1;t=50').wait_ns is None


@pytest.mark.parametrize("quotas", ["10/second, 200/minute", "100/minute burst 20", "5/day calendar", "5 concurrent, 3/minute"])
def test_what_tidegate_says_is_understood(quotas: str) -> None:
    """
    In both directions.
    """
    decision = Limiter(quotas, clock=ManualClock()).check("key")
    fields = {name.lower(): value for name, value in decision.headers().items()}
    found = {limit.name: limit for limit in read(fields.get, NOW_NS).limits}

    for status in decision.quotas:
        if status.algorithm != "concurrency":
            assert status.limit == found[status.name].quota
    assert any(limit.remaining == decision.remaining for limit in found.values())


# --- Nonsense ---------------------------------------------------------------------------------------------------------------------------

NAMES = [
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimit-reset-after",
    "retry-after",
    "date",
    "age",
]
pieces = st.sampled_from(
    [
        '"a"',
        ";r=",
        ";t=",
        ";q=",
        ";w=",
        ", ",
        "limit=",
        "remaining=",
        "reset=",
        "0",
        "1",
        "-",
        ".",
        "9" * 15,
        "9" * 20,
        ":",
        "?1",
        "m",
        "ms",
        "\0",
    ]
)
# As servers can send them.
texts = st.binary(max_size=40).map(lambda sent: sent.decode("latin-1"))
values = st.one_of(texts, st.lists(pieces, max_size=8).map("".join), st.integers().map(str), st.floats().map(str))


@unhurried
@given(fields=st.dictionaries(st.sampled_from(NAMES), values), now=st.integers(0, 2**63))
@example(fields={"retry-after": "Mon, 01 Jan 0000 00:00:00 -9999"}, now=0)
@example(fields={"date": "Thu, 01 Jan 1970 00:00:00 +99999999", "retry-after": "1"}, now=0)
def test_whatever_is_sent_is_read_without_an_error_and_within_bounds(fields: dict[str, str], now: int) -> None:
    """
    Every wait is from 0 to ten years, and every number can be counted with.
    """
    found = read(fields.get, now)

    waits = [found.retry_after_ns, found.wait_ns]
    for limit in found.limits:
        waits += [limit.reset_ns, limit.window_ns]
        assert limit.remaining is None or 0 <= limit.remaining <= 10**15
        assert limit.quota is None or 0 <= limit.quota <= 10**15
        assert limit.quota is None or limit.remaining is None or limit.remaining <= limit.quota
    assert all(wait is None or 0 <= wait <= TOLD_MAX_NS for wait in waits)


@unhurried
@given(text=texts, now=st.integers(0, 2**63))
def test_a_reset_is_within_bounds(text: str, now: int) -> None:
    """
    Whatever it is.
    """
    wait = reset_ns(text, now)

    assert wait is None or 0 <= wait <= TOLD_MAX_NS


@unhurried
@given(text=st.one_of(texts, st.lists(pieces, max_size=12).map("".join)))
@example(text='"a";r=1,"b"')
@example(text='"a" ;r=1')
@example(text='"a"; r=1')
@example(text='"a";r=1,')
@example(text='"a";r= 1')
@example(text='"a\\"b\\\\";r=1;r=2')
@example(text="1.")
@example(text="1234567890123.0")
@example(text="1, 2")
def test_lists_are_read_as_the_standard_says(text: str) -> None:
    """
    Compared with a library for structured fields, for the types that rate limits use.
    """
    found = structured.items(text)

    try:
        expected: Any = http_sf.parse(text.encode("ascii"), tltype="list")
    except (ValueError, UnicodeError):
        assert [] == found
        return
    if found:
        assert [(item.value, dict(item.parameters)) for item in found] == [_plain(item) for item in expected]


def _plain(item: object) -> tuple[object, dict[str, object]]:
    """
    An item of the library as ours: tokens are texts.
    """
    assert isinstance(item, tuple)
    value, parameters = item
    return _value(value), {name: _value(found) for name, found in parameters.items()}


def _value(value: object) -> object:
    return str(value) if isinstance(value, http_sf.Token) else value
