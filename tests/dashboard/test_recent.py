"""
What all who look share.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.dashboard.recent import LASTS, Recent

NOW = datetime(2026, 11, 16, 21, 40, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("later", "reads"),
    [(timedelta(0), 1), (LASTS - timedelta(milliseconds=1), 1), (LASTS, 2), (timedelta(seconds=-1), 2)],
    ids=["at once", "soon", "later", "the clock went back"],
)
def test_a_value_is_read_again_when_it_is_too_old(later: timedelta, reads: int) -> None:
    """
    And not before.
    """
    recent, read = Recent(), []
    recent.get("x", NOW, lambda: read.append(1))
    recent.get("x", NOW + later, lambda: read.append(1))

    assert len(read) == reads


def test_a_value_may_be_made_of_others_and_last_shorter() -> None:
    """
    A page that is drawn each second from sums that last longer.
    """
    recent, read = Recent(), []

    def add() -> int:
        read.append("sum")
        return 7

    def draw() -> int:
        read.append("page")
        return recent.get("sum", NOW, add)

    for seconds in (0, 0.5, 1):
        assert recent.get("page", NOW + timedelta(seconds=seconds), draw, timedelta(seconds=1)) == 7

    assert read == ["page", "sum", "page"]


def test_values_have_names() -> None:
    """
    One is not taken for another.
    """
    recent = Recent()

    assert [recent.get(name, NOW, name.upper) for name in ("a", "b", "a")] == ["A", "B", "A"]


def test_what_failed_is_not_kept() -> None:
    """
    The next one tries again.
    """
    recent = Recent()
    with pytest.raises(ZeroDivisionError):
        recent.get("x", NOW, lambda: 1 // 0)

    assert recent.get("x", NOW, lambda: 7) == 7


def test_many_who_come_at_once_read_once() -> None:
    """
    A database that is slow is not asked ten times for the same.
    """
    recent, read = Recent(), []
    start = threading.Barrier(10)

    def look() -> None:
        start.wait()
        recent.get("x", NOW, lambda: read.append(1))

    threads = [threading.Thread(target=look) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(read) == 1
