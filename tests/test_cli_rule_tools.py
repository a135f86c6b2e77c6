"""
`tidegate rules explain`, `test` and `diff`.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

if TYPE_CHECKING:
    from tests.conftest import Run

EXAMPLES = Path(__file__).parent.parent / "examples" / "rules"
RULES = str(EXAMPLES / "rules.yaml")

FAILING = """rules: rules.yaml
scenarios:
  - name: good
    steps: [{advance: 1s}]
  - name: login is <slow> & safe
    steps:
      - request: {path: /login, ip: 1.1.1.1}
        expect: {allowed: true, remaining: 7}
  - name: worse
    steps: [{request: {path: /login, ip: 1.1.1.1}, cost: 3, expect: {allowed: true, retry_after: 5}}]
"""


@pytest.fixture
def cli(cli: Run) -> Run:
    """
    Runs a command on rules.
    """
    return partial(cli, "rules")


@pytest.fixture
def failing(tmp_path: Path) -> str:
    """
    A file of scenarios of which some fail.
    """
    (tmp_path / "rules.yaml").write_text("version: 1\nrules: [{name: login, match: {path: /login}, per: ip, quotas: 2/minute}]")
    path = tmp_path / "scenarios.yaml"
    path.write_text(FAILING)
    return str(path)


# --- explain ----------------------------------------------------------------------------------------------------------------------------


def test_explain(cli: Run) -> None:
    """The request as it is seen, each rule, and who binds."""
    code, output, errors = cli("explain", RULES, "method=put", "path=//api/v1/orders/", "api_key=abc")

    assert (0, "") == (code, errors)
    assert (
        output
        == """the request, as the rules see it
  method            PUT
  path              /api/v1/orders
  client            api_key:abc
  api_key           abc
  header:x-api-key  abc

   rule          outcome   mode     key                 plan     quotas               cost  why
   health        no match  enforce  -                   -        -                    -     method is "PUT", and the rule asks for: GET
   per_client    applies   enforce  client=api_key:abc  default  100/minute           1     -
>  write_orders  applies   enforce  client=api_key:abc  default  2/second, 20/minute  1     -
   login         no match  enforce  -                   -        -                    -     method is "PUT", and the rule asks for: POST
   uploads       no match  enforce  -                   -        -                    -     method is "PUT", and the rule asks for: POST
   search        no match  shadow   -                   -        -                    -     path is "/api/v1/orders", and the rule asks for: /search

write_orders binds with 2/second: allowed, 1 left after it
"""  # noqa: E501  # as wide as it is
    )


def test_explain_stop_and_shadow(cli: Run) -> None:
    """What is not looked at any more, and who would deny in shadow."""
    stopped = cli("explain", RULES, "method=GET", "path=/healthz")[1]
    assert "stops: no later rule is looked at" in stopped
    assert 5 == stopped.count("the rule health before it stops")
    assert stopped.endswith("health lets it pass: allowed\n")

    assert "in shadow, these would deny it: search\n" in cli("explain", RULES, "path=/search", "api_key=a", "--cost", "4")[1]


def test_explain_nothing(cli: Run, tmp_path: Path) -> None:
    """No request and no rules are no reason to fail."""
    (tmp_path / "rules.yaml").write_text("version: 1\nrules: []")
    code, output, _ = cli("explain", str(tmp_path / "rules.yaml"))

    assert 0 == code
    assert "the request, as the rules see it\n  nothing that a rule asks for\n\nno rule applies: allowed\n" == output


def test_explain_as_json(cli: Run) -> None:
    """For programs."""
    told = json.loads(cli("explain", RULES, "path=/login", "method=POST", "ip=203.0.113.7", "--json")[1])

    assert "login" == told["binding"]["rule"]
    assert {"rule", "outcome", "why", "mode", "key", "plan", "quotas", "cost", "stops"} == told["verdicts"][0].keys()


def test_explain_on_a_terminal(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table with lines, in which brackets of a request are shown as they are."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "250")
    output = cli("explain", RULES, "path=/[bold]", "api_key=[red]abc")[1]

    assert "│" in output
    assert "client=api_key:[red]abc" in output


def test_explain_mistakes(cli: Run, tmp_path: Path) -> None:
    """As for `check`."""
    assert 2 == cli("explain", RULES, "nonsense")[0]
    assert 2 == cli("explain", str(tmp_path / "none.yaml"))[0]


# --- test -------------------------------------------------------------------------------------------------------------------------------


def test_scenarios_pass(cli: Run) -> None:
    """A dot for each, and a sum."""
    path = EXAMPLES / "scenarios.yaml"
    code, output, errors = cli("test", str(path))

    assert (0, "") == (code, errors)
    assert output.startswith(f"{path} ........\n\n8 passed in ")


def test_scenarios_fail(cli: Run, failing: str) -> None:
    """With the place of the step, and expected beside actual."""
    code, output, _ = cli("test", failing)

    assert 1 == code
    assert output.startswith(
        f"""{failing} .FF

FAILED {failing}:7: login is <slow> & safe
  step 1 at 0.0 s: request /login ip=1.1.1.1
               expected  actual
    remaining  7         1
    decision: rule login; rules login; shadowed none; limit 2; remaining 1; retry_after 0.0 s

FAILED {failing}:10: worse
  step 1 at 0.0 s: request /login ip=1.1.1.1 cost 3
                 expected  actual
    answer       allowed   denied
    retry_after  5.0 s     never
    decision: rule login; rules login; shadowed none; limit 2; remaining 2; retry_after never

2 failed, 1 passed in """
    )


def test_scenarios_by_name(cli: Run, failing: str) -> None:
    """In any case; verbose shows a line for each."""
    code, output, _ = cli("test", failing, "-k", "GOOD", "-v")

    assert 0 == code
    assert output.startswith(f"{failing}:3: good passed\n\n1 passed in ")
    code, _, errors = cli("test", failing, "-k", "nobody")
    assert 2 == code
    assert "no scenario has 'nobody' in its name" in errors


def test_scenarios_of_several_files(cli: Run, failing: str) -> None:
    """Each is read once."""
    code, output, _ = cli("test", str(EXAMPLES / "scenarios.yaml"), failing, failing)

    assert 1 == code
    assert "2 failed, 9 passed" in output


def test_scenarios_as_json(cli: Run, failing: str) -> None:
    """For programs."""
    code, output, _ = cli("test", failing, "--format", "json")
    told = json.loads(output)

    assert 1 == code
    assert (1, 2, ["good", "login is <slow> & safe", "worse"]) == (
        told["passed"],
        told["failed"],
        [scenario["name"] for scenario in told["scenarios"]],
    )
    assert [{"fact": "remaining", "expected": "7", "actual": "1"}] == told["scenarios"][1]["failure"]["differences"]


def test_scenarios_as_junit(cli: Run, failing: str) -> None:
    """For build servers, with what XML cannot carry replaced."""
    path = Path(failing)
    path.write_text(path.read_text().replace("name: worse", 'name: "wor\\x01se"'))
    code, output, _ = cli("test", failing, "--format", "junit")
    root = ET.fromstring(output)
    (suite,) = root

    assert 1 == code
    assert ("testsuites", "3", "2") == (root.tag, suite.attrib["tests"], suite.attrib["failures"])
    assert ["good", "login is <slow> & safe", "wor\N{REPLACEMENT CHARACTER}se"] == [case.attrib["name"] for case in suite]
    (failure,) = suite[1]
    assert "remaining: expected 7, was 1" == failure.attrib["message"]
    assert f"{failing}:7" in (failure.text or "")


def test_scenarios_that_cannot_be_read(cli: Run, failing: str, tmp_path: Path) -> None:
    """All problems of all files, and nothing is run."""
    Path(failing).write_text(FAILING.replace("expect", "expct").replace("1s", "soon"))
    code, output, errors = cli("test", failing, str(tmp_path / "none.yaml"), str(EXAMPLES / "scenarios.yaml"))

    assert (2, "") == (code, output)
    assert f"{failing}:8:9: error[unknown-key]" in errors
    assert f"{failing}:4:23: error[bad-duration]" in errors
    assert "none.yaml:1:1: error[file-missing]" in errors
    assert 2 == cli("test", str(tmp_path))[0]
    assert 2 == cli("test")[0]


# --- diff -------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """
    Two files that differ.
    """
    texts = [
        "version: 1\nrules: [{name: write_orders, per: client, quotas: 10/second}, {name: login, per: ip, quotas: 5/minute, mode: shadow}]",
        "version: 1\nrules: [{name: write_orders, per: client, quotas: 20/second}, {name: login, per: ip, quotas: 5/hour}]",
    ]
    paths = [tmp_path / name for name in ("old.yaml", "new.yaml")]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return str(paths[0]), str(paths[1])


def test_diff(cli: Run, pair: tuple[str, str]) -> None:
    """In words, with a sum and exit code 1."""
    code, output, _ = cli("diff", *pair)

    assert 1 == code
    assert (
        output
        == """write_orders: 10/second becomes 20/second (looser)
login: 5/minute becomes 5/hour (tighter)
  its counters start afresh, because the window changes; with `transition: safe` the old quota is asked too, for 60.0 s, so that nobody gets both
login: now enforced, was shadow (tighter)

3 changes: 1 looser, 2 tighter
"""  # noqa: E501  # as wide as it is
    )


def test_diff_without_changes(cli: Run) -> None:
    """Exit code 0."""
    assert (0, "no changes\n", "") == cli("diff", RULES, RULES)
    assert (0, "[]\n", "") == cli("diff", RULES, RULES, "--json")


def test_diff_as_json(cli: Run, pair: tuple[str, str]) -> None:
    """One object per change."""
    code, output, _ = cli("diff", *pair, "--json")

    assert 1 == code
    assert [("write_orders", "quotas", "looser"), ("login", "quotas", "tighter"), ("login", "mode", "tighter")] == [
        (change["about"], change["what"], change["effect"]) for change in json.loads(output)
    ]


def test_diff_of_wrong_rules(cli: Run, pair: tuple[str, str], tmp_path: Path) -> None:
    """Exit code 2, so that a build tells it from changes."""
    Path(pair[1]).write_text("version: 2")

    assert 2 == cli("diff", *pair)[0]
    assert 2 == cli("diff", pair[0])[0]
    assert 2 == cli("diff", pair[0], str(tmp_path / "none.yaml"))[0]
