"""
The commands `tidegate store ...`. Each is a module of its own, and a line in `COMMANDS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tidegate.cli.store.health import health

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS: dict[str, Callable[..., None]] = {"health": health}

app = typer.Typer(
    help="Look at a store that processes share.",
    epilog="Exit codes: 0 good, 1 degraded or down, 2 wrong usage.",
    add_completion=False,
)


@app.callback()
def before() -> None:
    """
    Look at a store that processes share.
    """


for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
