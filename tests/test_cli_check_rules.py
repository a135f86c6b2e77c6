"""
`tidegate check --rules`: what rules answer to a request on the command line.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tidegate.cli import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

RULES = """
version: 1
identity: [{header: x-api-key}, {ip: {}}]
rules:
  - {name: health, match: {path: /health}, stop: true, priority: 10}
  - {name: orders, match: {method: POST, path: "/orders/**"}, per: client, quotas: 2/minute, tiers: {pro: 3/minute}}
  - {name: plans, match: {headers: {x-plan: pro}, query: {page: "1"}}, per: client, quotas: 9/minute}
  - {name: sized, match: {path: /sized}, per: global, quotas: 10/minute, cost: size}
  - {name: trial, match: {path: /trial}, per: global, quotas: 1/minute, mode: shadow}
"""


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """
    Runs `tidegate check --rules`, and answers exit code, output and errors.
    """
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(["check", "--rules", str(path), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_request_is_answered(ask: Run) -> None:
    """The table names the rule that binds."""
    code, output, errors = ask("method=POST", "path=/orders/7", "api_key=abc", "header:x-plan=pro", "query:page=1")

    assert (0, "") == (code, errors)
    assert output == (
        "answer   remaining  retry after  reset after  rule    binding quota\n"
        "allowed  1          -            60.0 s       orders  2/minute\n"
    )  # fmt: skip


def test_requests_are_simulated(ask: Run) -> None:
    """Until one is denied, which is the exit code."""
    code, output, _ = ask("method=post", "path=/orders", "ip=203.0.113.7", "--times", "3", "--every", "1s")

    assert 1 == code
    assert output.splitlines()[1:] == [
        "0.0 s  allowed  1          -            60.0 s       orders  2/minute",
        "1.0 s  allowed  0          -            60.0 s       orders  2/minute",
        "2.0 s  denied   0          58.0 s       59.0 s       orders  2/minute",
        "2 of 3 allowed",
    ]


def test_shadow_denials_have_a_column(ask: Run) -> None:
    """Only if there are some."""
    code, output, _ = ask("path=/trial", "--times", "2")

    assert 0 == code
    assert output.splitlines()[0].endswith("would deny in shadow")
    assert ["-", "trial"] == [line.split()[-1] for line in output.splitlines()[1:3]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["path=/elsewhere"], "no rule applies: allowed"),
        ([], "no rule applies: allowed"),
        (["path=/health"], "no enforced rule decides, only health: allowed"),
        (["path=/trial"], "no enforced rule decides, only trial: allowed"),
    ],
    ids=["other", "nothing", "stop", "shadow"],
)
def test_nobody_decides(ask: Run, words: list[str], sentence: str) -> None:
    """Said plainly."""
    assert (0, f"{sentence}\n", "") == ask(*words)


def test_the_cost_is_that_of_the_rules_unless_another_is_given(ask: Run) -> None:
    """As for `check` of the library."""
    assert " 6 " in ask("path=/sized", "size=4")[1].splitlines()[1]
    assert " 3 " in ask("path=/sized", "size=4", "--cost", "7")[1].splitlines()[1]
    code, output, _ = ask("path=/sized", "size=11")
    assert 1 == code
    assert "never" in output


def test_json_lines(ask: Run) -> None:
    """With the request, all rules that apply, and those in shadow that would deny."""
    code, output, _ = ask("method=POST", "path=/orders", "api_key=abc", "tier=pro", "--json", "--times", "2", "--every", "1s")
    first, second = map(json.loads, output.splitlines())

    assert 0 == code
    assert {"method": "POST", "path": "/orders", "tier": "pro", "headers": {"x-api-key": "abc"}} == first["attributes"]
    assert ("orders", ["orders"], [], "3/minute", 2) == tuple(first[name] for name in ("rule", "rules", "shadowed", "quota", "remaining"))
    assert (1.0, 1) == (second["at"], second["remaining"])
    nothing = json.loads(ask("path=/elsewhere", "--json")[1])
    assert (True, None, [], None, None) == tuple(nothing[name] for name in ("allowed", "rule", "rules", "quota", "remaining"))


def test_a_value_may_hold_anything(ask: Run) -> None:
    """Only the first sign of equality divides."""
    told = json.loads(ask("path=/a?b=c", "header:X-Odd==:=", "query:a:b=c", "empty=", "--json")[1])

    assert {"path": "/a?b=c", "headers": {"x-odd": "=:="}, "query": {"a:b": "c"}, "empty": ""} == told["attributes"]


def test_a_directory_of_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the library takes one."""
    (tmp_path / "a.yaml").write_text("version: 1\nrules: [{name: a, per: global, quotas: 1/s}]")

    assert 0 == run(["check", "--rules", str(tmp_path)])
    assert "1/second" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (["POST"], "'POST' is no attribute", "name=value"),
        (["=POST"], "'=POST' is no attribute", "name=value"),
        (["headers:a=b"], "'headers:a' is no name", "header:name=value"),
        (["header:=b"], "'header:' is no name", "header:name=value"),
        (["path=/a", "path=/b"], "'path' is given twice", "keep one"),
        (["header:X-A=1", "header:x-a=2"], "'header:x-a' is given twice", "keep one"),
        (["api_key=1", "header:x-api-key=2"], "'header:x-api-key' is given twice", "keep one"),
        (["-q", "5/m"], "--quota and --rules", "keep one"),
        (["--every", "1s"], "--every needs --times", "--times 10"),
        (["path=/sized", "--cost", "-1"], "cost", ""),
    ],
)
def test_mistakes(ask: Run, words: list[str], error: str, hint: str) -> None:
    """What is wrong and what to do, on stderr, with exit code 2."""
    code, output, errors = ask(*words)

    assert (2, "") == (code, output)
    assert error in errors
    assert hint in errors.partition("hint: ")[2]


def test_wrong_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All problems, with their places."""
    path = tmp_path / "rules.yaml"
    path.write_text("version: 1\nrules: [{name: a, per: global, quotas: 1/sec ond}, {name: b}]")

    assert 2 == run(["check", "--rules", str(path)])
    errors = capsys.readouterr().err
    assert f"{path}:2:" in errors
    assert {"error[bad-quota]", "error[missing-key]"} <= set(errors.replace(":", "").split())


def test_brackets_are_no_mark_up(ask: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the table is drawn by a library that knows `[red]`."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    code, output, _ = ask("method=POST", "path=/orders", "api_key=[red]abc[/red]")

    assert 0 == code
    assert "orders" in output
