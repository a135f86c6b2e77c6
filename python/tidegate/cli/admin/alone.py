"""
`tidegate admin`: the control plane on its own, in the foreground.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from tidegate.cli import _serving
from tidegate.cli.admin import _open
from tidegate.control.settings import ControlChecking
from tidegate.service import load, log
from tidegate.service.run import Signals, run_until_told
from tidegate.service.table import GROUPS

if TYPE_CHECKING:
    from tidegate.service.settings import Settings

_OF_THE_DATA_PLANE: Final = frozenset({"HTTP", "gRPC", "Threads", "Limits", "Headers"})
FLAGS: Final = {title: group for title, group in GROUPS.items() if title not in _OF_THE_DATA_PLANE}
"""The settings that matter to it. It takes the whole file of a service."""


def alone(
    *,
    context: typer.Context,
    config: _serving.Config = None,
    show: _serving.Show = False,
    **flags: Any,  # noqa: ANN401  # one for each setting, see `with_flags`
) -> None:
    """
    Run the control plane on its own: rules, quotas, usage, audit, and a dashboard.

    tidegate admin --admin-database postgresql://tidegate@db/tidegate

    `tidegate serve` has one beside it already; on its own it is for fleets whose instances have `admin.listen` off and the same database.

    Settings, files and variables are those of `tidegate serve`.
    """
    if context.invoked_subcommand is not None:
        return
    texts = {setting.key: flags[setting.parameter] for group in FLAGS.values() for setting in group}
    settings = load(_serving.path_of(config), flags=texts, checking=ControlChecking)
    if show:
        typer.echo("\n".join(settings.lines()))
        return
    raise typer.Exit(_run(settings))


def _run(settings: Settings) -> int:
    with _open.needing_extra():
        from tidegate.control.control import Control  # noqa: PLC0415  # an extra
    with log.logging_to_stderr(settings["log.level"], settings["log.format"]):
        for warning in settings.warnings:
            log.LOG.warning("%s", warning)
        with Signals() as signals, Control(settings) as control:
            address = _serving.url(settings, "admin", control.address or "")
            if settings["log.format"] == "json":
                log.LOG.info("the control plane listens", extra={"facts": {"admin": address}})
            else:
                typer.echo(f"Tidegate's control plane, database {control.database.shown}\n  admin  {address}")
            for line in _serving.first_token(control):
                typer.echo(line)
            if settings["log.format"] != "json":
                typer.echo("stop: Ctrl-C or SIGTERM; SIGHUP loads certificates again")
            return run_until_told(control, signals)
