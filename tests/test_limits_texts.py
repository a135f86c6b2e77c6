"""
Limit strings of the library `limits`, which people bring along.
"""

from __future__ import annotations

import pytest

from tidegate import Limiter, Quota
from tidegate.errors import QuotaError
from tidegate.testing import ManualClock

DAY = 86_400


@pytest.mark.parametrize(
    ("text", "quotas"),
    [
        ("5 per minute", [(5, 60)]),
        ("10 per 2 hours", [(10, 7200)]),
        ("1 per second", [(1, 1)]),
        ("1/1second", [(1, 1)]),
        ("100/day;10/minute", [(100, DAY), (10, 60)]),
        ("100 per 1 hour, 2000 per day", [(100, 3600), (2000, DAY)]),
        ("5/second|9/hour", [(5, 1), (9, 3600)]),
        ("5 PER 3 Days | 1/day; 7 per minutes", [(5, 3 * DAY), (1, DAY), (7, 60)]),
    ],
)
def test_texts_mean_the_same(text: str, quotas: list[tuple[int, int]]) -> None:
    """
    With every separator, and words in the singular and the plural.
    """
    assert tuple(Quota(*quota) for quota in quotas) == Limiter(text).quotas


@pytest.mark.parametrize(
    ("text", "days", "days_there"),
    [("9 per month", 31, 30), ("9/2 months", 62, 60), ("9 per year", 366, 360), ("9/3years", 3 * 366, 3 * 360)],
)
def test_months_and_years_are_never_shorter_than_there(text: str, days: int, days_there: int) -> None:
    """
    They are the longest of their kind, so that no month sees more than its limit; a longer window admits no more than a shorter one.
    """
    clock = ManualClock()
    limiter = Limiter(text, clock=clock)

    assert f"9/{days}d" == str(limiter.quotas[0])
    assert limiter.check("key", 9)
    clock.advance(days_there * DAY)
    assert not limiter.allow("key")
    clock.advance((days - days_there) * DAY)
    assert limiter.allow("key", 9)


@pytest.mark.parametrize(
    ("text", "code"), [("5/s queue 1 month", "month-needs-calendar"), ("5/s|", "empty-member"), ("5||6/s", "empty-member")]
)
def test_what_is_wrong_stays_wrong(text: str, code: str) -> None:
    """
    A month is no length of time but as a period, and a bar stands between quotas.
    """
    with pytest.raises(QuotaError) as error:
        Limiter(text)

    assert code == error.value.code
