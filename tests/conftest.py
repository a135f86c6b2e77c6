"""
What several test files need.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

import pytest

from tidegate.cli import run
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., tuple[int, str, str]]

pytest_plugins = ["servers.fixtures"]


class Eventually(Protocol):
    """
    Waits for what another thread or process does.
    """

    def __call__(self, condition: Callable[[], bool], within: float = 10.0) -> None:
        """
        Polls a condition, and fails when it does not come true in time.
        """


@pytest.fixture
def eventually() -> Eventually:
    """
    The one way to wait for something real. Tests of time use a `ManualClock` instead.
    """

    def wait(condition: Callable[[], bool], within: float = 10.0) -> None:
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline, f"not within {within} s"
            time.sleep(0.001)

    return wait


@pytest.fixture
def clock() -> ManualClock:
    """
    A clock that the test moves.
    """
    return ManualClock()


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Run:
    """
    Runs a command that ends by itself, and answers exit code, output and errors.
    """

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
