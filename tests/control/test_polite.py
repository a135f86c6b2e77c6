"""
Threads of the control plane let decisions go first.
"""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tidegate.control import polite


def priority() -> int:
    """
    How far this thread stands back.
    """
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a priority of their own on Linux only")
def test_a_thread_gives_way_with_those_that_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no other: the threads that decide keep theirs."""
    before = priority()
    monkeypatch.setattr(polite, "NICE", 15)

    def work() -> list[int]:
        polite.give_way()
        with ThreadPoolExecutor(1) as pool:
            return [priority(), pool.submit(priority).result()]

    with ThreadPoolExecutor(1) as pool:
        assert [15, 15] == pool.submit(work).result()
    assert before == priority()
