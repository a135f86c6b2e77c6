"""
What holds for every test of the integrations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidegate.integrations._hold import Holds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tidegate.integrations._decider import Decider


@pytest.fixture(autouse=True)
def _no_slot_leaks(monkeypatch: pytest.MonkeyPatch, eventually: Eventually) -> Iterator[None]:
    """
    After each test, no request of a guard that it made holds a slot any more.
    """
    made: list[Holds] = []
    begin = Holds.__init__

    def begin_noted(holds: Holds, limiter: Decider) -> None:
        begin(holds, limiter)
        made.append(holds)

    monkeypatch.setattr(Holds, "__init__", begin_noted)
    yield
    # A server that has just ended may have a thread that gives a slot back.
    eventually(lambda: all(len(holds) == 0 for holds in made))
