"""
The commands `tidegate admin ...`; without one, the control plane on its own. Each is a module of its own.
"""

from __future__ import annotations

import typer

from tidegate.cli._serving import with_flags
from tidegate.cli.admin import token
from tidegate.cli.admin.alone import FLAGS, alone
from tidegate.cli.admin.migrate import migrate

app = typer.Typer(
    epilog="Exit codes: 0 done, 2 it could not start or wrong usage.",
    add_completion=False,
)
with_flags(alone, FLAGS)
app.callback(invoke_without_command=True)(alone)
app.command("migrate")(migrate)
app.add_typer(token.app, name="token")
