"""
`tidegate admin migrate`: brings the tables to what this version needs.
"""

from __future__ import annotations

import typer

from tidegate.cli.admin import _open


def migrate(*, config: _open.Config = None, admin_database: _open.Address = None) -> None:
    """
    Bring the tables of the database to what this version needs.

    `tidegate serve` and `tidegate admin` do it by themselves when they start; this is for those who want to do it before.

    It is done wholly or, if it is interrupted, not at all; of several processes one does it.
    """
    with _open.opened(config, admin_database) as database:
        steps = database.migrate()
        for step in steps:
            typer.echo(step)
        if not steps:
            typer.echo(f"nothing to do: {database.shown} is what this version needs")
