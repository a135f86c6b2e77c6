"""
`tidegate rules errors`: the catalogue of mistakes.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from tidegate.errors import UsageError
from tidegate.rules.catalogue import CATALOGUE
from tidegate.rules.names import meant


def errors(
    code: Annotated[str | None, typer.Argument(help="Only this one.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object by code.")] = False,
) -> None:
    """
    Explain the codes of problems, each with an example and its mended form.

    Exit code 0: always. 2: there is no such code.
    """
    if code is not None and code not in CATALOGUE:
        raise UsageError(f"there is no problem `{code:.80}`\nhint: {meant(code, CATALOGUE)}")
    chosen = CATALOGUE if code is None else {code: CATALOGUE[code]}
    if as_json:
        typer.echo(json.dumps({name: asdict(entry) for name, entry in chosen.items()}, indent=2, ensure_ascii=False))
        return
    for name, entry in chosen.items():
        kind = "warning" if entry.is_warning else "error"
        typer.echo(f"{kind}[{name}]: {entry.about}\n  wrong: {entry.wrong}\n  right: {entry.right}")
