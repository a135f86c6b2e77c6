"""
`tidegate rules test`: scenarios with the decisions that are expected, on a simulated clock.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.rules._report import as_json, as_junit, as_text
from tidegate.errors import RuleError, UsageError
from tidegate.rules.scenario import read_suite, run

if TYPE_CHECKING:
    from tidegate.rules import Problem
    from tidegate.rules.scenario import Outcome, Scenario, Suite

EXIT_FAILED = 1


class Format(Enum):
    """
    How results are told.
    """

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"


def run_scenarios(
    paths: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files of scenarios.")],
    *,
    chosen: Annotated[str | None, typer.Option("-k", metavar="WORDS", help="Only scenarios whose name contains this.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="A line for each scenario instead of a dot.")] = False,
    output: Annotated[Format, typer.Option("--format", help="For people, for programs, or for build servers.")] = Format.TEXT,
) -> None:
    """
    Run scenarios: requests, the decisions that are expected, and time that passes at once.

    tidegate rules test scenarios.yaml -k login

    Exit code 0: all passed. 1: some failed. 2: wrong usage, or files that cannot be read.
    """
    suites = _read(paths)
    selected = [(suite, [one for one in suite.scenarios if _is_chosen(one, chosen)]) for suite in suites]
    if not any(scenarios for _, scenarios in selected):
        raise UsageError(f"no scenario has {chosen!r} in its name\nhint: leave -k away to run all")
    is_text = output is Format.TEXT
    outcomes = [outcome for suite, scenarios in selected for outcome in _run(suite, scenarios, is_verbose=verbose, is_shown=is_text)]
    typer.echo({Format.TEXT: as_text, Format.JSON: as_json, Format.JUNIT: as_junit}[output](outcomes), nl=False)
    if not all(outcome.passed for outcome in outcomes):
        raise typer.Exit(EXIT_FAILED)


def _read(paths: list[str]) -> list[Suite]:
    suites: list[Suite] = []
    problems: dict[Problem, None] = {}
    for path in dict.fromkeys(paths):
        try:
            suites.append(read_suite(path))
        except RuleError as error:
            if not error.problems:
                raise
            problems.update(dict.fromkeys(error.problems))
    if problems:
        raise RuleError("\n".join(("the scenarios cannot be run", *map(str, problems))), problems=tuple(problems))
    return suites


def _is_chosen(scenario: Scenario, words: str | None) -> bool:
    return words is None or words.casefold() in scenario.name.casefold()


def _run(suite: Suite, scenarios: list[Scenario], *, is_verbose: bool, is_shown: bool) -> list[Outcome]:
    outcomes = []
    if is_shown and not is_verbose and scenarios:
        typer.echo(f"{suite.path} ", nl=False)
    for scenario in scenarios:
        outcome = run(scenario, suite.rule_set)
        outcomes.append(outcome)
        if is_shown and is_verbose:
            typer.echo(f"{suite.path}:{scenario.line}: {scenario.name} {'passed' if outcome.passed else 'FAILED'}")
        elif is_shown:
            typer.echo("." if outcome.passed else "F", nl=False)
    if is_shown and not is_verbose and scenarios:
        typer.echo("")
    return outcomes
