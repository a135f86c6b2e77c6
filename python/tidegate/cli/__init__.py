"""
The command `tidegate`. Each command is a module of its own, and a line in `COMMANDS`; each group of commands is a line in `GROUPS`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate import __version__
from tidegate.cli import admin, rules, store
from tidegate.cli.check import check
from tidegate.cli.proxy import proxy
from tidegate.cli.serve import serve
from tidegate.cli.simulate import simulate
from tidegate.cli.top import top
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMMANDS: dict[str, Callable[..., None]] = {"check": check, "proxy": proxy, "serve": serve, "simulate": simulate, "top": top}
GROUPS: dict[str, typer.Typer] = {"admin": admin.app, "rules": rules.app, "store": store.app}

EXIT_USAGE = 2


@dataclass(slots=True)
class Settings:
    """
    What stands before the command.

    Args:
        debug: Whether errors show where they come from.
    """

    debug: bool = False


app = typer.Typer(
    name="tidegate",
    help="Decides for every request whether it may pass.",
    epilog="Exit codes: 0 allowed or done, 1 denied, 2 wrong usage.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


def main() -> None:
    """
    The entry point.
    """
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """
    Runs one command.

    Args:
        arguments: What stands behind `tidegate`.

    Returns:
        The exit code.
    """
    settings = Settings()
    try:
        return app(list(arguments) or ["--help"], prog_name="tidegate", standalone_mode=False, obj=settings) or 0
    except typer.TyperException as error:
        return _report(settings, error, f"{error.format_message()}\nhint: see {_path(error)} --help")
    except TidegateError as error:
        return _report(settings, error, str(error))


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"tidegate {__version__}")
        raise typer.Exit


@app.callback()
def before(
    context: typer.Context,
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)] = False,  # noqa: ARG001  # the callback has answered it
) -> None:
    """
    Options that stand before the command.
    """
    context.obj.debug = debug


def _report(settings: Settings, error: Exception, message: str) -> int:
    if settings.debug:
        raise error
    typer.echo(f"error: {message}", err=True)
    return EXIT_USAGE


def _path(error: typer.TyperException) -> str:
    # Only some of the errors know which command they belong to.
    context = getattr(error, "ctx", None)
    return context.command_path if context else "tidegate"
