"""
The commands `tidegate rules ...`. Each is a module of its own, and a line in `COMMANDS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tidegate.cli.rules.diff import diff
from tidegate.cli.rules.errors import errors
from tidegate.cli.rules.explain import explain
from tidegate.cli.rules.fmt import fmt
from tidegate.cli.rules.import_ import import_
from tidegate.cli.rules.lint import lint
from tidegate.cli.rules.schema import schema
from tidegate.cli.rules.test import run_scenarios

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS: dict[str, Callable[..., None]] = {
    "lint": lint,
    "explain": explain,
    "test": run_scenarios,
    "diff": diff,
    "fmt": fmt,
    "import": import_,
    "schema": schema,
    "errors": errors,
}

app = typer.Typer(
    help="Check, explain and format files of rules.",
    epilog="Exit codes: 0 good, 1 problems found, 2 wrong usage.",
    add_completion=False,
)
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
