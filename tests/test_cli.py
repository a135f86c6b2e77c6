"""
The command line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import tidegate
from tidegate.cli import COMMANDS, run
from tidegate.errors import QuotaError

if TYPE_CHECKING:
    from tests.conftest import Run


def test_version(cli: Run) -> None:
    """The version of the package, and nothing else."""
    assert (0, f"tidegate {tidegate.__version__}\n", "") == cli("--version")


@pytest.mark.parametrize("arguments", [(), ("--help",)], ids=["nothing", "help"])
def test_help_lists_the_commands_and_exit_codes(cli: Run, arguments: tuple[str, ...]) -> None:
    """Who asks nothing gets the help too."""
    code, output, _ = cli(*arguments)

    assert 0 == code
    assert all(f" {command} " in output for command in COMMANDS)
    assert "Exit codes: 0 allowed or done, 1 denied, 2 wrong usage." in " ".join(output.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(cli: Run, command: str) -> None:
    """Every command explains itself and its exit codes."""
    code, output, _ = cli(command, "--help")

    assert 0 == code
    assert f"tidegate {command}" in output
    assert "Exit code 0" in output


def test_check_answers_one_decision(cli: Run) -> None:
    """Plain columns where the output is no terminal."""
    code, output, errors = cli("check", "user:42", "--quota", "5/minute")

    assert (0, "") == (code, errors)
    assert output == (
        "answer   remaining  retry after  reset after  binding quota\n"
        "allowed  4          -            60.0 s       5/minute\n"
    )  # fmt: skip


def test_check_simulates_a_timeline(cli: Run) -> None:
    """Many requests on a clock that nobody waits for."""
    code, output, _ = cli("check", "k", "-q", "2/10s", "--times", "4", "--every", "4s")

    assert 1 == code
    assert output == (
        "time    answer   remaining  retry after  reset after  binding quota\n"
        "0.0 s   allowed  1          -            10.0 s       2/10s\n"
        "4.0 s   allowed  0          -            10.0 s       2/10s\n"
        "8.0 s   denied   0          2.0 s        6.0 s        2/10s\n"
        "12.0 s  allowed  0          -            10.0 s       2/10s\n"
        "3 of 4 allowed\n"
    )


def test_check_shows_when_a_queued_request_starts(cli: Run) -> None:
    """A `leaky_bucket` has one more column."""
    code, output, _ = cli("check", "k", "-q", "2/s queue 5s", "--times", "2")

    assert 0 == code
    assert "start after" in output
    assert "0.5 s" in output.splitlines()[2]


def test_check_says_never(cli: Run) -> None:
    """A cost above the capacity has no waiting time."""
    code, output, _ = cli("check", "k", "-q", "5/minute", "--cost", "6")

    assert 1 == code
    assert "never" in output


def test_check_takes_several_quotas(cli: Run) -> None:
    """Texts with commas and repeated options, and the binding quota is named."""
    code, output, _ = cli("check", "k", "-q", "10/s, 5/minute", "-q", "1/hour")

    assert 0 == code
    assert output.splitlines()[1].endswith("1/hour")


def test_check_prints_json_lines(cli: Run) -> None:
    """One object per decision, for programs."""
    code, output, _ = cli("check", "k", "-q", "1/minute", "--times", "2", "--every", "500ms", "--json")
    first, second = map(json.loads, output.splitlines())

    assert 1 == code
    assert (True, 0, 0.0) == (first["allowed"], first["remaining"], first["at"])
    assert (False, 59.5, 0.5) == (second["allowed"], second["retry_after"], second["at"])


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        pytest.param(["check", "k", "-q", "5/minuet"], "minuet", "minute", id="quota"),
        pytest.param(["check", "k"], "--quota", "tidegate check --help", id="no-quota"),
        pytest.param(["check", "-q", "5/m"], "'key'", "tidegate check --help", id="no-key"),
        pytest.param(["check", "k", "-q", "5/m", "--times", "0"], "--times", "tidegate check --help", id="times"),
        pytest.param(["check", "k", "-q", "5/m", "--times", "2", "--every", "soon"], "--every is no duration", "10s", id="every"),
        pytest.param(["check", "k", "-q", "5/m", "--every", "1s"], "--every needs --times", "--times 10", id="every-alone"),
        pytest.param(["check", "k", "-q", "5/m", "--cost", "-1"], "cost", "", id="cost"),
        pytest.param(["check", "", "-q", "5/m"], "key", "", id="empty-key"),
        pytest.param(["chekc"], "chekc", "tidegate --help", id="command"),
        pytest.param(["--nonsense"], "--nonsense", "tidegate --help", id="option"),
    ],
)
def test_mistakes_get_an_error_and_a_hint(cli: Run, arguments: list[str], error: str, hint: str) -> None:
    """What is wrong and what to do, on stderr, with exit code 2."""
    code, output, errors = cli(*arguments)

    assert (2, "") == (code, output)
    assert errors.startswith("error: ")
    assert error in errors
    assert hint in errors.partition("hint: ")[2]


def test_debug_shows_where_an_error_comes_from() -> None:
    """Only then is there a traceback."""
    with pytest.raises(QuotaError):
        run(["--debug", "check", "k", "-q", "5/minuet"])


@pytest.mark.parametrize("arguments", [["-m", "tidegate"], ["-c", "from tidegate.cli import main; main()"]], ids=["module", "script"])
def test_ways_to_start(arguments: list[str]) -> None:
    """As a module and through the entry point."""
    command = [sys.executable, *arguments, "check", "k", "-q", "0/minute"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert (1, "") == (result.returncode, result.stderr)
