"""
`tidegate rules diff`: what changes between two files of rules, in words.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tidegate import rules
from tidegate.rules.diff import diff as diff_rules

EXIT_CHANGES = 1


def diff(
    old: Annotated[str, typer.Argument(help="The file or directory of rules in force.")],
    new: Annotated[str, typer.Argument(help="The one that is to follow.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list with one object per change.")] = False,
) -> None:
    """
    Show what changes between two files of rules, in words: what becomes looser or tighter, and which counters start afresh.

    Secrets are never shown.

    Exit code 0: they decide alike. 1: there are changes. 2: wrong usage, or wrong rules.
    """
    changes = diff_rules(rules.load(old), rules.load(new))
    if as_json:
        typer.echo(json.dumps([change.to_dict() for change in changes], indent=2, ensure_ascii=False))
    elif not changes:
        typer.echo("no changes")
    else:
        for change in changes:
            typer.echo(str(change))
            if change.note:
                typer.echo(f"  {change.note}")
        effects = [change.effect for change in changes]
        typer.echo(f"\n{_count(len(changes), 'change')}: {effects.count('looser')} looser, {effects.count('tighter')} tighter")
    if changes:
        raise typer.Exit(EXIT_CHANGES)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
