"""
Numbers and times as people read them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.dashboard import words

NOW = datetime(2026, 11, 16, 21, 40, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (0.04, "0.0"),
        (3.25, "3.2"),
        (12.4, "12"),
        (1204, "1,204"),
        (9999, "9,999"),
        (12_345, "12.3 k"),
        (999_949, "999.9 k"),
        (999_950, "1.0 M"),
        (3_200_000, "3.2 M"),
        (4e12, "4.0 T"),
        (7e15, "7,000.0 T"),
    ],
)
def test_counts_are_short(number: float, text: str) -> None:
    """
    Columns stay narrow, and small numbers exact.
    """
    assert text == words.count(number)


@pytest.mark.parametrize(("value", "text"), [(None, "\u2013"), (43.4, "43 µs"), (999.4, "999 µs"), (1500, "1.5 ms"), (2_500_000, "2.5 s")])
def test_latencies_have_a_unit(value: float | None, text: str) -> None:
    """
    A number alone is no latency.
    """
    assert text == words.micros(value)


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 0, "0 %"), (0, 5, "0 %"), (5, 5, "100 %"), (1, 100_000, "< 0.1 %"), (99_999, 100_000, "> 99.9 %"), (1, 16, "6.2 %")],
)
def test_a_share_never_hides_what_is_there(part: float, whole: float, text: str) -> None:
    """
    One denial in a hundred thousand is not none.
    """
    assert text == words.share(part, whole)


@pytest.mark.parametrize(
    ("back", "text"),
    [
        (timedelta(0), "now"),
        (timedelta(seconds=1), "1 second ago"),
        (timedelta(minutes=3, seconds=59), "3 minutes ago"),
        (timedelta(hours=-2), "in 2 hours"),
        (timedelta(days=40), "40 days ago"),
    ],
)
def test_times_are_told_as_seen_from_now(back: timedelta, text: str) -> None:
    """
    In the largest unit that fits.
    """
    assert text == words.ago(NOW - back, NOW)


def test_times_in_full_are_in_utc() -> None:
    """
    Whatever zone they came in.
    """
    assert words.stamp(NOW) == "2026-11-16 21:40:05 UTC"


@pytest.mark.parametrize(("number", "text"), [(0, "0 rules"), (1, "1 rule"), (2, "2 rules")])
def test_nouns_follow_their_numbers(number: int, text: str) -> None:
    """
    One rule, two rules.
    """
    assert text == words.plural(number, "rule")


def test_what_is_told_is_shown_as_it_is() -> None:
    """
    Only code is set apart, also where it is hostile.
    """
    assert "set <code>store</code> to &lt;b&gt;`" == words.told("set `store` to <b>`")
    assert "<code>&lt;script&gt;</code>" == words.told("`<script>`")
