"""
The tables of `testdata/descriptors`: files of the reference service, requests, and what is answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidegate import RuleLimiter
from tidegate.errors import UsageError
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from tests.envoy_tables import START, Case, cases, descriptor, written
    from tidegate.rules import Problem
else:  # Tests are scripts in a folder, not a package.
    from envoy_tables import START, Case, cases, descriptor, written


@pytest.mark.parametrize("case", cases())
def test_every_case_loads_and_answers_as_its_table_says(case: Case) -> None:
    """
    The problems of the files are those of the table, and then every request is answered as it says.
    """
    rule_set, problems = case.load()

    assert list(case.problems) == sorted((_place(problem) for problem in problems), key=_order)
    for said in case.says:
        assert any(said in f"{problem}" for problem in problems), said
    if not any(problem.is_error for problem in problems):
        play(case, RuleLimiter(rule_set, clock=(clock := ManualClock(START))), clock)


def play(case: Case, limiter: RuleLimiter, clock: ManualClock) -> None:
    """
    Acts out the steps of a case.
    """
    for number, step in enumerate(case.steps):
        if "at" in step:
            clock.advance_ns(round(step["at"] * 1_000_000_000) - clock.time_ns())
        ask = [descriptor(given) for given in step["ask"]]
        modes = {"shadow_mode": step.get("shadow", False), "quota_mode": step.get("quota", False)}
        domain, hits = step.get("domain", "d"), step.get("hits", 0)
        if step["say"].startswith("error: "):
            with pytest.raises(UsageError, match=step["say"].removeprefix("error: ")):
                limiter.check_descriptors(domain, ask, hits, **modes)
            continue

        answer = limiter.check_descriptors(domain, ask, hits, **modes)

        assert step["status"] == [written(status) for status in answer["statuses"]], f"step {number}"
        assert step["say"] == answer["overall_code"], f"step {number}"
        if "metadata" in step:
            assert step["metadata"] == answer["metadata"]


def test_every_case_says_something() -> None:
    """
    A case without steps and without problems would pass whatever happens.
    """
    for parameter in cases():
        case = parameter.values[0]

        assert case.steps or case.problems, case.name


def _place(problem: Problem) -> str:
    return f"{problem.line}:{problem.column} {problem.code}{'' if problem.is_error else ' (warning)'}"


def _order(place: str) -> tuple[int, int, str]:
    line, _, rest = place.partition(":")
    column, _, code = rest.partition(" ")
    return int(line), int(column), code
