"""
What holds for every test of the integrations.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from tidegate.integrations._hold import Holds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually


@pytest.fixture(autouse=True)
def _no_slot_leaks(eventually: Eventually) -> Iterator[None]:
    """
    After each test, no request holds a slot any more.
    """
    yield
    # A server that has just ended may have a thread that gives a slot back.
    eventually(lambda: all(len(holds) == 0 for holds in gc.get_objects() if type(holds) is Holds))
