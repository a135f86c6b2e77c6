"""
`tidegate rules import`: the reference service's files as rules of our own.
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import Annotated

import typer

from tidegate.errors import RuleError
from tidegate.rules import envoy
from tidegate.rules.importer import import_domains


def import_(
    file: Annotated[Path, typer.Argument(help="A file of the reference service, or a directory of them.")],
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where the rules are written; by default they are printed.")] = None,
    merge_domains: Annotated[bool, typer.Option("--merge-domains", help="Several files may describe one domain.")] = False,
    ignore_dot_files: Annotated[bool, typer.Option("--ignore-dot-files", help="Leave out files whose names begin with a dot.")] = False,
) -> None:
    """
    Turn a file of the reference rate limit service into rules.

    What rules cannot express stands as a comment beside them, and on stderr.
    The file can also be loaded as it is: importing is for those who want to go on with rules.

    Exit code 0: written. 2: the file cannot be read.
    """
    domains, problems = envoy.load_path(file, merge_domains=merge_domains, ignore_dot_files=ignore_dot_files)
    if any(problem.is_error for problem in problems):
        raise RuleError.from_problems(problems)
    for problem in problems:
        typer.echo(str(problem), err=True)
    imported = import_domains(domains)
    for note in imported.lost:
        typer.echo(f"not expressed: {note}", err=True)
    if output is None:
        typer.echo(imported.to_yaml(), nl=False)
    else:
        output.write_text(imported.to_yaml(), encoding="utf-8")
        typer.echo(f"{len(imported.rules)} rules written to {output}", err=True)
