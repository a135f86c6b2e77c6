"""
Runs scenarios, each on a limiter and a clock of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate._sleep import now_ns
from tidegate.errors import TidegateError
from tidegate.rule_limiter import RuleLimiter
from tidegate.rules.scenario.descriptors import Count, facts_of
from tidegate.rules.scenario.facts import ANSWERS, FACTS, describe
from tidegate.rules.scenario.model import Advance, Ask, Scenario, Step
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from tidegate import Decision
    from tidegate.rules import RuleSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """
    One fact that is not as expected.

    Args:
        fact: Its name.
        expected: What was expected, for people.
        actual: What was decided, for people.
    """

    fact: str
    expected: str
    actual: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """
    The first step of a scenario that went another way.

    Args:
        line: Where the step is written.
        step: Its number, from 1.
        what: What it does, in words.
        at_ns: How long after the beginning of the scenario.
        differences: What is not as expected; empty if the step could not be done.
        note: The whole decision in words, or why there is none.
    """

    line: int
    step: int
    what: str
    at_ns: int
    differences: tuple[Difference, ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    How a scenario went.

    Args:
        scenario: The scenario.
        failure: Where it failed; `None` if it passed.
        took_ns: How long it took in real time.
    """

    scenario: Scenario
    failure: Failure | None
    took_ns: int

    @property
    def passed(self) -> bool:
        """Whether everything was as expected."""
        return self.failure is None


def run(scenario: Scenario, rule_set: RuleSet) -> Outcome:
    """
    Runs a scenario up to its first failure.

    Args:
        scenario: The scenario.
        rule_set: The rules that it is about.

    Returns:
        How it went.
    """
    began_ns = now_ns()
    clock = ManualClock(scenario.start)
    limiter = RuleLimiter(rule_set, clock=clock)
    start_ns, failure = clock.time_ns(), None
    for number, step in enumerate(scenario.steps, 1):
        try:
            wrong = _step(step, limiter, clock)
        except TidegateError as error:
            wrong = ((), str(error))
        if wrong is not None:
            what = "advance" if isinstance(step, Advance) else str(step)
            at_ns = clock.time_ns() - start_ns
            failure = Failure(line=step.line, step=number, what=what, at_ns=at_ns, differences=wrong[0], note=wrong[1])
            break
    limiter.close()
    return Outcome(scenario=scenario, failure=failure, took_ns=now_ns() - began_ns)


def _step(step: Step, limiter: RuleLimiter, clock: ManualClock) -> tuple[tuple[Difference, ...], str] | None:
    if isinstance(step, Advance):
        clock.advance_ns(step.nanoseconds)
        return None
    if isinstance(step, Count):
        return _count(step, limiter)
    for turn in range(1, step.times + 1):
        decision = limiter.check(step.attributes, step.cost)
        differences = _differences(step, decision, is_last=turn == step.times)
        if differences:
            which = f"request {turn} of {step.times}: " if step.times > 1 else ""
            return differences, f"{which}{describe(decision)}"
    return None


def _count(step: Count, limiter: RuleLimiter) -> tuple[tuple[Difference, ...], str] | None:
    for turn in range(1, step.times + 1):
        actual = facts_of(limiter.check_descriptors(step.domain, step.asked(), step.hits_addend))
        names = [name for name in step.expected if turn == step.times or name == "code"]
        differences = tuple(
            Difference(fact=name, expected=str(step.expected[name]), actual=str(actual.get(name, "none")))
            for name in names
            if actual.get(name) != step.expected[name]
        )
        if differences:
            which = f"request {turn} of {step.times}: " if step.times > 1 else ""
            return differences, which + "; ".join(f"{name} {value}" for name, value in actual.items())
    return None


def _differences(step: Ask, decision: Decision, *, is_last: bool) -> tuple[Difference, ...]:
    # The answer is expected of each request, the rest of the last: what is left differs from one to the next.
    names = [name for name in step.expected if is_last or name in ANSWERS]
    return tuple(
        Difference(
            fact="answer" if name in ANSWERS else name,
            expected=FACTS[name].show(step.expected[name]),
            actual=FACTS[name].show(FACTS[name].actual(decision)),
        )
        for name in names
        if FACTS[name].actual(decision) != step.expected[name]
    )
