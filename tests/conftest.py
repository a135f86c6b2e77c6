"""
What several test files need.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from hypothesis import HealthCheck, settings

from tidegate.cli import run
from tidegate.control import polite
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Run = Callable[..., tuple[int, str, str]]

pytest_plugins = ["servers.fixtures"]

# The same cases in each run, so that a change is judged by itself. How long one takes is a matter of the machine: on a clean checkout
# the first text waits for seconds until Hypothesis has its tables.
settings.register_profile(
    "tests", derandomize=True, database=None, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")

OUTPUT = Path(__file__).parents[1] / "test-output"


@pytest.fixture(scope="session", autouse=True)
def _impatient() -> Iterator[None]:
    """
    No control plane gives way in tests: on a busy machine they would wait for everything else that runs there.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(polite, "NICE", 0)
        yield


class Eventually(Protocol):
    """
    Waits for what another thread or process does.
    """

    def __call__(self, condition: Callable[[], bool], within: float = 30.0) -> float:
        """
        Polls a condition, and fails when it does not come true in time; answers how many seconds it took.
        """


@pytest.fixture
def eventually() -> Eventually:
    """
    The one way to wait for something real. Tests of time use a `ManualClock` instead.
    """

    def wait(condition: Callable[[], bool], within: float = 30.0) -> float:
        begin = time.monotonic()
        while not condition():
            assert time.monotonic() - begin < within, f"not within {within} s"
            time.sleep(0.001)
        return time.monotonic() - begin

    return wait


class Measured(Protocol):
    """
    Keeps a number that was measured.
    """

    def __call__(self, name: str, value: float) -> None:
        """
        Adds a line to the output of the tests.
        """


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Measured:
    """
    Numbers that are promised elsewhere and depend on the machine: kept in `test-output/measured.txt` to be looked at, not asserted.
    """

    def keep(name: str, value: float) -> None:
        OUTPUT.mkdir(exist_ok=True)
        with (OUTPUT / "measured.txt").open("a", encoding="utf-8") as file:
            file.write(f"{request.node.nodeid} {name} {value:.3f}\n")

    return keep


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
