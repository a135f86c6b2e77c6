"""
`tidegate rules lint`: everything that is wrong with files of rules, before they are deployed.
"""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated

import typer

from tidegate import rules
from tidegate.cli.rules._problems import as_github, as_json, as_text, count
from tidegate.errors import RuleError

EXIT_PROBLEMS = 1
STDIN = "-"


class Format(Enum):
    """
    How problems are told.
    """

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


def lint(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Files or directories, each a rule set; - reads one from the input.")
    ],
    *,
    output: Annotated[Format, typer.Option("--format", help="For people, for programs, or as annotations of a build.")] = Format.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Take warnings for errors.")] = False,
    merge_domains: Annotated[bool, typer.Option("--merge-domains", help="Join files of one domain instead of refusing them.")] = False,
) -> None:
    """
    List everything that is wrong with files of rules.

    Exit code 0: nothing but warnings. 1: there are errors, or with --strict warnings. 2: wrong usage.
    """
    problems: dict[rules.Problem, None] = {}
    texts: dict[str, str] = {}
    total = 0
    for path in paths:
        text = sys.stdin.read() if path == STDIN else None
        name = "<stdin>" if path == STDIN else path
        if text is not None:
            texts[name] = text
        try:
            rule_set = rules.load(name, text=text, merge_domains=merge_domains)
        except RuleError as error:
            problems.update(dict.fromkeys(error.problems))
        else:
            problems.update(dict.fromkeys(rule_set.warnings))
            total += len(rule_set.rules)
    show = {Format.TEXT: as_text, Format.JSON: as_json, Format.GITHUB: as_github}[output]
    typer.echo(show(list(problems), texts), nl=False)
    if output is Format.TEXT:
        typer.echo(count(list(problems)) if problems else f"no problems in {total} rules", err=bool(problems))
    if any(problem.is_error or strict for problem in problems):
        raise typer.Exit(EXIT_PROBLEMS)
