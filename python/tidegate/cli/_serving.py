"""
What `tidegate serve` and `tidegate proxy` share: flags from a table of settings, a check, a run in the foreground.
"""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate import rules
from tidegate.errors import RuleError, StartupError
from tidegate.service import log
from tidegate.service.kinds import Flag
from tidegate.service.open_files import allow_connections
from tidegate.service.places import Place
from tidegate.service.problem import SettingsError
from tidegate.service.run import Signals, run_until_told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tidegate.control.control import Control
    from tidegate.service.service import Service
    from tidegate.service.settings import Settings
    from tidegate.service.table import Setting

CONFIG_VARIABLE = "TIDEGATE_CONFIG"
EXIT_PROBLEMS = 1

Config = Annotated[str | None, typer.Option("--config", "-c", metavar="PATH", help=f"A file of settings. \\[env: {CONFIG_VARIABLE}]")]
Check = Annotated[bool, typer.Option("--check", help="Only say whether settings and rules are right.")]
Schema = Annotated[bool, typer.Option("--schema", help="Only print the JSON Schema of files of settings.")]
Show = Annotated[bool, typer.Option("--show", help="Only print every setting, its value and who gave it.")]


def path_of(config: str | None) -> str | None:
    """
    The file of settings.

    Args:
        config: What the option says.

    Returns:
        Its path; `None` if nobody names one.
    """
    return config or os.environ.get(CONFIG_VARIABLE) or None


def obey(
    load: Callable[[], Settings], kind: type[Service], greeting: Callable[[Service], Iterator[str]], *, is_check: bool, is_show: bool
) -> None:
    """
    Checks, shows or runs.

    Args:
        load: Reads the settings.
        kind: What runs.
        greeting: What people are told once it does.
        is_check: Whether it is only checked.
        is_show: Whether the settings are only shown.

    Raises:
        typer.Exit: It ended, with its exit code.
    """
    if is_check:
        check_all(load, kind)
    elif is_show:
        typer.echo("\n".join(load().lines()))
    else:
        raise typer.Exit(run(load(), kind, greeting))


def run(settings: Settings, kind: type[Service], greeting: Callable[[Service], Iterator[str]]) -> int:
    """
    Runs in the foreground until a signal ends it.

    Args:
        settings: The settings.
        kind: What runs.
        greeting: What people are told once it does.

    Returns:
        The exit code.
    """
    with log.logging_to_stderr(settings["log.level"], settings["log.format"]):
        for warning in (*settings.warnings, allow_connections(settings["limits.connections"])):
            if warning is not None:
                log.LOG.warning("%s", warning)
        # Signals are waited for before somebody can know that it runs.
        with Signals() as signals, kind(settings) as service:
            for problem in service.limiter.rule_set.warnings:
                log.LOG.warning("%s", problem)
            if settings["log.format"] == "json":
                # Who collects logs as JSON wants nothing else.
                log.LOG.info("serving %s", said_rules(service.limiter.rule_set), extra={"facts": service.addresses})
                # On standard output, because a log is kept and read by many.
                for line in first_token(service.control):
                    typer.echo(line.strip())
            else:
                for line in greeting(service):
                    typer.echo(line)
            return run_until_told(service, signals)


def check_all(load: Callable[[], Settings], kind: type[Service]) -> None:
    """
    Says whether settings and rules are right.

    Args:
        load: Reads the settings.
        kind: What would run.

    Raises:
        typer.Exit: They are not.
    """
    try:
        settings = load()
        rule_set = rules.load(settings["rules"], merge_domains=settings["merge_domains"])
        kind.check(settings)
        _try_certificates(settings, kind)
    except (SettingsError, RuleError, StartupError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(EXIT_PROBLEMS) from None
    for warning in (*settings.warnings, *rule_set.warnings):
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"settings and rules are right: {said_rules(rule_set)}")


def said_rules(rule_set: rules.RuleSet) -> str:
    """
    How many rules there are, for people.

    Args:
        rule_set: The rules.

    Returns:
        Such as `3 rules`.
    """
    count = len(rule_set.rules)
    domains = len(rule_set.ir.get("domains", ()))
    parts = [f"{number} {word}{'' if number == 1 else 's'}" for number, word in ((count, "rule"), (domains, "descriptor domain")) if number]
    return " and ".join(parts) or "no rules"


def first_token(control: Control | None) -> Iterator[str]:
    """
    The first token of a control plane, if it was just made: from then on only its digest is known.

    Args:
        control: The control plane, if there is one.

    Yields:
        What people are told.
    """
    if control is not None and (secret := control.take_first_token()) is not None:
        yield f"  the first token of the control plane, for an admin, shown this once: {secret}"


def url(settings: Settings, port: str, address: str) -> str:
    """
    A port as clients write it.

    Args:
        settings: The settings.
        port: Its name.
        address: Where it listens.

    Returns:
        An address with a scheme, except for gRPC, whose clients take it without.
    """
    if address.startswith("unix:") or port == "grpc":
        return address
    return f"{scheme(settings, port)}://{address}"


def scheme(settings: Settings, port: str) -> str:
    """
    Whether a port speaks TLS.

    Args:
        settings: The settings.
        port: Its name.

    Returns:
        `http` or `https`.
    """
    return "http" if settings[f"{port}.tls.cert"] is None else "https"


def with_flags(command: Callable[..., None], groups: Mapping[str, tuple[Setting, ...]]) -> None:
    """
    Gives a command a flag for every setting, so that none can be forgotten. Structured ones have flags of their own.

    Args:
        command: The command, which takes them as `**flags`.
        groups: The settings by their headings.
    """
    # Typer reads a function's signature; this one is made from the table.
    own = [
        parameter for parameter in inspect.signature(command, eval_str=True).parameters.values() if parameter.kind is parameter.KEYWORD_ONLY
    ]
    made = [_parameter(setting, title) for title, group in groups.items() for setting in group if not setting.kind.is_structured]
    command.__signature__ = inspect.Signature([*own, *made])  # type: ignore[attr-defined]  # what inspect looks for first
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *made)}


def _try_certificates(settings: Settings, kind: type[Service]) -> None:
    # Whether they can be used says who will use them: for a moment, on ports that nobody knows, and without the store.
    ports = [port for port in settings.ports if settings[f"{port}.tls.cert"] is not None and settings[f"{port}.listen"] is not None]
    if ports:
        places = {f"{port}.listen": Place("127.0.0.1", 0) if port in ports else None for port in settings.ports}
        tried = {**settings.values, **places, "store": "memory://", "watch": False, "workers": 1, "admin.listen": None}
        with kind(replace(settings, values=tried, origins={})):
            pass


def _parameter(setting: Setting, title: str) -> inspect.Parameter:
    is_flag = isinstance(setting.kind, Flag)
    names = f"{setting.flag}/--no-{setting.flag.removeprefix('--')}" if is_flag else setting.flag
    default = f" Default: {setting.default_text}." if setting.default_text else ""
    option = typer.Option(
        names,
        metavar=None if is_flag else setting.kind.metavar,
        help=f"{setting.about}{default} [env: {setting.variable}]".replace("[", "\\["),
        rich_help_panel=title,
        show_default=False,
    )
    kind = bool | None if is_flag else str | None
    return inspect.Parameter(setting.parameter, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option])
