"""
Scenarios: what can be expected, how failures read, what is wrong with a file of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate.errors import RuleError
from tidegate.rules.scenario import Advance, Ask, Outcome, read_suite, run

if TYPE_CHECKING:
    from collections.abc import Callable

    Write = Callable[[str], Path]

EXAMPLES = Path(__file__).parent.parent / "examples" / "rules"

RULES = """
version: 1
rules:
  - {name: login, match: {path: /login}, per: ip, quotas: 2/minute}
  - {name: sized, match: {path: /sized}, per: global, quotas: 10/minute, cost: size}
  - {name: trial, match: {path: /trial}, per: global, quotas: 0/minute, mode: shadow}
  - {name: free, match: {path: /free}, per: global, quotas: unlimited}
  - {name: daily, match: {path: /daily}, per: global, quotas: 1/day calendar}
"""

HEAD = "rules: rules.yaml\nscenarios:\n"
STEP = f"{HEAD}- name: a\n  steps:\n  - "


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """
    Writes a file of scenarios beside the rules.
    """
    (tmp_path / "rules.yaml").write_text(RULES)

    def put(steps: str) -> Path:
        path = tmp_path / "scenarios.yaml"
        path.write_text(f"{HEAD}  - name: one\n    steps:\n{steps}")
        return path

    return put


def outcome_of(path: Path) -> Outcome:
    """
    How the only scenario of a file went.
    """
    suite = read_suite(path)
    (scenario,) = suite.scenarios
    return run(scenario, suite.rule_set)


@pytest.mark.parametrize("scenario", read_suite(EXAMPLES / "scenarios.yaml").scenarios, ids=lambda scenario: scenario.name)
def test_the_examples_pass(scenario: object) -> None:
    """What the examples promise is true."""
    suite = read_suite(EXAMPLES / "scenarios.yaml")
    (found,) = [one for one in suite.scenarios if one == scenario]

    assert run(found, suite.rule_set).failure is None


@pytest.mark.parametrize(
    "steps",
    [
        "      - {request: {path: /login, ip: 1.1.1.1}, expect: allowed}",
        "      - {request: {path: /login, ip: 1.1.1.1}, times: 2}\n      - {request: {path: /login, ip: 1.1.1.1}, expect: denied}",
        "      - {request: {path: /login, ip: 1.1.1.1}, times: 2, expect: {allowed: true, remaining: 0, limit: 2, retry_after: 0}}",
        "      - {request: {path: /login, ip: 1.1.1.1}, cost: 3, expect: {allowed: false, retry_after: never}}",
        """
      - {request: {path: /login, ip: 1.1.1.1}, cost: 2}
      - {advance: 10}
      - {request: {path: /login, ip: 1.1.1.1}, expect: {denied: true, retry_after: 50s, rule: login, rules: [login]}}
        """,
        "      - {request: {path: /trial}, expect: {allowed: true, rule: null, rules: [trial], shadowed: [trial]}}",
        "      - {request: {path: /other}, expect: {denied: false, rule: ~, rules: [], shadowed: [], limit: unlimited}}",
        "      - {request: {path: /free}, expect: {rule: free, remaining: unlimited, limit: unlimited}}",
        """
      - {request: {path: /sized, size: 7}, expect: {remaining: 3}}
      - {advance: 0.5}
      - {request: {path: /sized, size: '7'}, expect: {denied: true, retry_after: 59.5}}
        """,
        "      - {advance: 1h}",
    ],
)  # fmt: skip
def test_what_can_be_expected(write: Write, steps: str) -> None:
    """Each fact, in each of its forms."""
    assert outcome_of(write(steps)).failure is None


def test_a_failure_shows_expected_and_actual(write: Write) -> None:
    """All facts that differ, the step with its line, and the whole decision."""
    steps = "      - advance: 1500ms\n      - request: {method: GET, path: /login, ip: 1.1.1.1, headers: {a: b}, query: {c: d}}\n"
    outcome = outcome_of(write(f"{steps}        cost: 2\n        expect: {{denied: true, remaining: 5, limit: 2, rule: other}}\n"))
    failure = outcome.failure

    assert not outcome.passed
    assert failure is not None
    assert (6, 2, 1_500_000_000) == (failure.line, failure.step, failure.at_ns)
    assert "request GET /login ip=1.1.1.1 header:a=b query:c=d cost 2" == failure.what
    assert [("answer", "denied", "allowed"), ("remaining", "5", "0"), ("rule", "other", "login")] == [
        (one.fact, one.expected, one.actual) for one in failure.differences
    ]
    assert "rule login; rules login; shadowed none; limit 2; remaining 0; retry_after 0.0 s" == failure.note


def test_a_repeated_request_must_be_answered_alike_each_time(write: Write) -> None:
    """The answer is expected of each, the rest of the last."""
    failure = outcome_of(write("      - {request: {path: /login, ip: 1.1.1.1}, times: 5, expect: {allowed: true, remaining: 0}}")).failure

    assert failure is not None
    assert failure.note.startswith("request 3 of 5: ")
    assert ["answer"] == [one.fact for one in failure.differences]


def test_the_first_failure_ends_a_scenario(write: Write) -> None:
    """What follows would only repeat it."""
    step = "      - {request: {path: /login, ip: 1.1.1.1}, expect: denied}\n"
    failure = outcome_of(write(step * 3)).failure

    assert failure is not None
    assert 1 == failure.step


def test_a_step_that_cannot_be_done_is_a_failure(write: Write) -> None:
    """With the reason, and no traceback."""
    many = ", ".join(f"a{number}: b" for number in range(1001))
    failure = outcome_of(write(f"      - {{request: {{{many}}}, expect: allowed}}")).failure

    assert failure is not None
    assert () == failure.differences
    assert "at most" in failure.note


def test_each_scenario_begins_with_nothing_used(tmp_path: Path, write: Write) -> None:
    """They do not see each other's counters."""
    path = write("      - {request: {path: /login, ip: 1.1.1.1}, expect: {remaining: 1}}\n")
    path.write_text(path.read_text() + path.read_text().partition("scenarios:\n")[2].replace("one", "two"))
    suite = read_suite(path)

    assert ["one", "two"] == [scenario.name for scenario in suite.scenarios]
    assert all(run(scenario, suite.rule_set).passed for scenario in suite.scenarios)


def test_a_scenario_can_begin_at_a_time(write: Write) -> None:
    """Calendars care."""
    path = write(
        "      - {request: {path: /daily}, expect: allowed}\n"
        "      - {request: {path: /daily}, expect: {denied: true, retry_after: 30m}}\n"
    )  # fmt: skip
    path.write_text(path.read_text().replace("    steps:", "    at: 2026-03-01T23:30:00Z\n    steps:"))

    assert outcome_of(path).failure is None


def test_requests_carry_texts(write: Write) -> None:
    """Numbers and words that YAML takes for something else are what the client sent."""
    suite = read_suite(write("      - request: {size: 012, debug: on, path: '/a b', query: {page: 1}}\n      - advance: 1ms\n"))
    ask, advance = suite.scenarios[0].steps

    assert isinstance(ask, Ask)
    assert isinstance(advance, Advance)
    assert {"size": "012", "debug": "on", "path": "/a b", "query": {"page": "1"}} == ask.attributes
    assert 1_000_000 == advance.nanoseconds


@pytest.mark.parametrize(
    ("text", "line", "code", "message"),
    [
        ("rules: rules.yaml\nscenarios: []", 2, "empty-list", "empty"),
        ("rules: rules.yaml\nscenarios: 1", 2, "wrong-type", "`scenarios` is a list"),
        ("rules: rules.yaml", 1, "missing-key", "`scenarios`"),
        ("scenarios: [{name: a, steps: [{advance: 1s}]}]", 1, "missing-key", "`rules`"),
        ("- a", 1, "wrong-type", "a file of scenarios is a mapping"),
        ("", 1, "empty-file", "empty"),
        ("rules: [", 1, "syntax", ""),
        ("rules: none.yaml\nscenarios: []", 1, "include-missing", "`none.yaml`"),
        ("rules: rules.yaml\nscenario: []", 2, "unknown-key", "`scenario`"),
        (HEAD + "- steps: [{advance: 1s}]", 3, "missing-key", "`name`"),
        (HEAD + "- name: a", 3, "missing-key", "`steps`"),
        (HEAD + "- {name: a, steps: [{advance: 1s}]}\n- {name: a, steps: [{advance: 1s}]}", 4, "duplicate-name", "`a`"),
        (HEAD + "- {name: a, at: noon, steps: [{advance: 1s}]}", 3, "wrong-type", "`noon`"),
        (HEAD + "- {name: a, at: 2026-01-01T00:00:00, steps: [{advance: 1s}]}", 3, "wrong-type", "with its zone"),
        (HEAD + "- {name: a, at: 1812-01-01T00:00:00Z, steps: [{advance: 1s}]}", 3, "wrong-type", "1812"),
        (STEP + "{}", 5, "wrong-type", "exactly one"),
        (STEP + "{request: {}, advance: 1s}", 5, "wrong-type", "request and advance"),
        (STEP + "{advance: 1s, expect: allowed}", 5, "unknown-key", "`expect`"),
        (STEP + "{advance: -1s}", 5, "bad-duration", "`-1s`"),
        (STEP + "{advance: [1s]}", 5, "bad-duration", "a list"),
        (STEP + "{request: /login}", 5, "wrong-type", "`request` is a mapping"),
        (STEP + "{request: {path: [a]}}", 5, "wrong-type", "a list"),
        (STEP + "{request: {path: }}", 5, "missing-value", "no value"),
        (STEP + "{request: {headers: a}}", 5, "wrong-type", "`headers` is a mapping"),
        (STEP + "{request: {}, times: 0}", 5, "out-of-range", "0"),
        (STEP + "{request: {}, cost: many}", 5, "not-a-whole-number", "many"),
        (STEP + "{request: {}, expect: alowed}", 5, "unknown-choice", "`alowed`"),
        (STEP + "{request: {}, expect: [allowed]}", 5, "wrong-type", "`expect`"),
        (STEP + "{request: {}, expect: {ruel: a}}", 5, "unknown-key", "`ruel`"),
        (STEP + "{request: {}, expect: {allowed: yes}}", 5, "not-a-boolean", "yes"),
        (STEP + "{request: {}, expect: {remaining: few}}", 5, "not-a-whole-number", "few"),
        (STEP + "{request: {}, expect: {retry_after: soon}}", 5, "bad-duration", "`soon`"),
        (STEP + "{request: {}, expect: {allowed: true, denied: false}}", 5, "wrong-type", "same"),
    ],
)  # fmt: skip
def test_mistakes_have_a_place(tmp_path: Path, text: str, line: int, code: str, message: str) -> None:
    """File, line, code, and what is wrong."""
    (tmp_path / "rules.yaml").write_text(RULES)
    path = tmp_path / "scenarios.yaml"
    path.write_text(text)
    with pytest.raises(RuleError) as caught:
        read_suite(path)
    (problem, *_) = [one for one in caught.value.problems if one.code == code]

    assert (str(path), line) == (problem.file, problem.line)
    assert message in problem.message
    assert problem.hint


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    """Those of the rules too."""
    (tmp_path / "rules.yaml").write_text(RULES.replace("quotas", "quotsa", 1))
    path = tmp_path / "scenarios.yaml"
    path.write_text(HEAD + "- {name: a, steps: [{advance: soon}, {request: 1}]}\n")
    with pytest.raises(RuleError) as caught:
        read_suite(path)

    assert {"rules.yaml", "scenarios.yaml"} == {Path(problem.file).name for problem in caught.value.problems}
    assert {"bad-duration", "wrong-type", "unknown-key"} <= {problem.code for problem in caught.value.problems}


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    """And so is a directory."""
    with pytest.raises(RuleError, match="file-missing"):
        read_suite(tmp_path / "none.yaml")
    with pytest.raises(RuleError, match="is a directory"):
        read_suite(tmp_path)


# --- Descriptors ------------------------------------------------------------------------------------------------------------------------

SHOP = """
domain: shop
descriptors:
  - {key: tenant, value: acme, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: ip, rate_limit: {unit: second, requests_per_unit: 100}}
"""


def count_outcome(tmp_path: Path, step: str) -> Outcome:
    """
    How a scenario with one step on descriptors went.
    """
    (tmp_path / "shop.yaml").write_text(SHOP)
    path = tmp_path / "scenarios.yaml"
    path.write_text(f"rules: shop.yaml\nscenarios: [{{name: a, steps: [{{domain: shop, {step}}}]}}]")
    return outcome_of(path)


@pytest.mark.parametrize(
    "step",
    [
        "descriptors: [{tenant: acme}], times: 3, expect: OK",
        "descriptors: [{tenant: acme}], hits_addend: 4, expect: OVER_LIMIT",
        "descriptors: [[[tenant, acme]], {ip: 1.1.1.1}], hits_addend: 4, expect: {code: OVER_LIMIT, statuses: [OVER_LIMIT, OK]}",
        "descriptors: [{tenant: acme}], times: 2, expect: {code: OK, statuses: [{code: OK, limit_remaining: 1, duration_until_reset: 60}]}",
        "descriptors: [{tenant: other}], expect: {statuses: [OK]}",
    ],
)
def test_what_can_be_expected_of_descriptors(tmp_path: Path, step: str) -> None:
    """The overall code, and facts of each status."""
    assert count_outcome(tmp_path, step).failure is None


def test_a_failure_with_descriptors(tmp_path: Path) -> None:
    """The code is expected of each request, the statuses of the last."""
    step = "descriptors: [{tenant: acme, path: /a}, {tenant: acme}], times: 5, expect: {code: OK, statuses: [OK, {limit_remaining: 7}, OK]}"
    failure = count_outcome(tmp_path, step).failure

    assert failure is not None
    assert "descriptors shop (tenant=acme, path=/a) (tenant=acme)" == failure.what
    assert failure.note.startswith("request 4 of 5: code OVER_LIMIT; statuses[0].code OK")
    assert [("code", "OK", "OVER_LIMIT")] == [(one.fact, one.expected, one.actual) for one in failure.differences]

    failure = count_outcome(tmp_path, step.replace("times: 5", "times: 1")).failure
    assert failure is not None
    assert [("statuses[1].limit_remaining", "7", "2"), ("statuses[2].code", "OK", "none")] == [
        (one.fact, one.expected, one.actual) for one in failure.differences
    ]


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("descriptors: [{a: b}]", "missing-key"),
        ("domain: a, descriptors: []", "empty-list"),
        ("domain: a, descriptors: {a: b}", "wrong-type"),
        ("domain: a, descriptors: [a]", "wrong-type"),
        ("domain: a, descriptors: [[a, b]]", "wrong-type"),
        ("domain: a, descriptors: [[[a, b, c]]]", "wrong-type"),
        ("domain: a, descriptors: [{a: [b]}]", "wrong-type"),
        ("domain: a, descriptors: [{a: b}], hits_addend: x", "not-a-whole-number"),
        ("domain: a, descriptors: [{a: b}], cost: 1", "unknown-key"),
        ("domain: a, descriptors: [{a: b}], expect: allowed", "unknown-choice"),
        ("domain: a, descriptors: [{a: b}], expect: {status: OK}", "unknown-key"),
        ("domain: a, descriptors: [{a: b}], expect: {statuses: OK}", "wrong-type"),
        ("domain: a, descriptors: [{a: b}], expect: {statuses: [{left: 1}]}", "unknown-key"),
    ],
)
def test_mistakes_in_descriptors_have_a_place(write: Write, step: str, code: str) -> None:
    """As those in requests."""
    with pytest.raises(RuleError) as caught:
        read_suite(write(f"      - {{{step}}}"))

    assert (code, 5) in {(problem.code, problem.line) for problem in caught.value.problems}
