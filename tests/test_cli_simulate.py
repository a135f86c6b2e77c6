"""
`tidegate simulate`: requests of before, decided by rules.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    """
    Rules, tighter rules, and twelve requests of one client in a minute.
    """
    text = "version: 1\nrules: [{{name: login, match: {{headers: {{x-plan: free}}}}, per: client, quotas: {quotas}}}]\n"
    (tmp_path / "rules.yaml").write_text(text.format(quotas="10/minute"))
    (tmp_path / "tighter.yaml").write_text(text.format(quotas="5/minute"))
    requests = [
        {"at": f"2026-01-01T00:00:{second:02}Z", "attributes": {"client": "x", "header:x-plan": "free"}, "weight": 2}
        for second in range(12)
    ]
    (tmp_path / "requests.jsonl").write_text("\n".join(map(json.dumps, requests)) + "\n\n")
    return str(tmp_path / "rules.yaml"), str(tmp_path / "tighter.yaml"), str(tmp_path / "requests.jsonl")


def test_two_sets_of_rules_side_by_side(cli: Run, files: tuple[str, str, str]) -> None:
    """What each of them allows and denies of the same traffic."""
    now, then, requests = files
    code, output, _ = cli("simulate", now, requests, "--against", then)

    assert 0 == code
    assert ["login", "20", "4", "0", "10", "14", "0"] in [line.split() for line in output.splitlines()]
    assert "12 requests, which stand for 24" in output


def test_the_same_for_programs(cli: Run, files: tuple[str, str, str]) -> None:
    """One object, with numbers."""
    code, output, _ = cli("simulate", files[0], files[2], "--json")
    found = json.loads(output)

    assert (0, {"now"}) == (code, found.keys())
    assert {"allowed": 20, "denied": 4, "shadow_denied": 0} == found["now"]["total"] == found["now"]["rules"]["login"]


@pytest.mark.parametrize(
    "line", ["{", "[]", "{}", '{"at": "soon", "attributes": {}}', '{"at": 1, "attributes": []}', '{"at": 1, "attributes": {"path": [1]}}']
)
def test_a_line_that_is_no_request_is_named(cli: Run, files: tuple[str, str, str], tmp_path: Path, line: str) -> None:
    """With its number, and an example."""
    (tmp_path / "bad.jsonl").write_text('{"at": 1, "attributes": {}}\n' + line + "\n")
    code, _, errors = cli("simulate", files[0], str(tmp_path / "bad.jsonl"))

    assert 2 == code
    assert errors.startswith("error: ")
    assert "bad.jsonl:2" in errors or "path" in errors


def test_a_file_that_is_not_there(cli: Run, files: tuple[str, str, str]) -> None:
    """It is said so, without a traceback."""
    code, _, errors = cli("simulate", files[0], "nowhere.jsonl")

    assert (2, True) == (code, errors.startswith("error: the requests cannot be read"))
