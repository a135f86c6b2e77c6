"""
`tidegate serve`: the engine as a service, in the foreground.
"""

from __future__ import annotations

import inspect
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate import rules
from tidegate.errors import RuleError, StartupError
from tidegate.service import describe, log
from tidegate.service.kinds import Flag
from tidegate.service.open_files import allow_connections
from tidegate.service.places import Place
from tidegate.service.problem import SettingsError
from tidegate.service.run import Signals, run_until_told
from tidegate.service.service import Service
from tidegate.service.settings import PORTS, Settings, load, without_password
from tidegate.service.table import GROUPS, TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.service.table import Setting

CONFIG_VARIABLE = "TIDEGATE_CONFIG"
EXIT_PROBLEMS = 1


def serve(
    *,
    config: Annotated[
        str | None, typer.Option("--config", "-c", metavar="PATH", help=f"A file of settings. [env: {CONFIG_VARIABLE}]")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only say whether settings and rules are right.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Only print the JSON Schema of files of settings.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Only print every setting, its value and who gave it.")] = False,
    **flags: Any,  # noqa: ANN401  # one for each setting, see `_with_flags`
) -> None:
    """
    Answer Envoy over gRPC, and checks and forward-auth over HTTP, by a file of rules.

    tidegate serve --rules rules.yaml

    tidegate serve --config tidegate.yaml --check

    Every setting is a key of the file, an environment variable and a flag; flags win over variables, variables over the file.

    SIGTERM drains and ends, a second one ends at once, SIGHUP loads rules and certificates again.

    Exit code 0: ended as asked, or --check found nothing. 1: requests were cut at the end, or --check found problems.
    2: it could not start.
    """
    if schema:
        typer.echo(json.dumps(describe.json_schema(), indent=2))
        return
    flags = {key: flags[setting.parameter] for key, setting in TABLE.items()}
    path = config or os.environ.get(CONFIG_VARIABLE) or None
    if check:
        _check(path, flags)
        return
    settings = load(path, flags=flags)
    if show:
        typer.echo("\n".join(settings.lines()))
        return
    with log.logging_to_stderr(settings["log.level"], settings["log.format"]):
        code = _run(settings)
    raise typer.Exit(code)


def _run(settings: Settings) -> int:
    for warning in (*settings.warnings, allow_connections(settings["limits.connections"])):
        if warning is not None:
            log.LOG.warning("%s", warning)
    # Signals are waited for before somebody can know that it runs.
    with Signals() as signals, Service(settings) as service:
        for problem in service.limiter.rule_set.warnings:
            log.LOG.warning("%s", problem)
        _greet(service)
        return run_until_told(service, signals)


def _check(path: str | None, flags: dict[str, Any]) -> None:
    try:
        settings = load(path, flags=flags)
        rule_set = rules.load(settings["rules"], merge_domains=settings["merge_domains"])
        _try_certificates(settings)
    except (SettingsError, RuleError, StartupError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(EXIT_PROBLEMS) from None
    for warning in (*settings.warnings, *rule_set.warnings):
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"settings and rules are right: {_said_rules(rule_set)}")


def _try_certificates(settings: Settings) -> None:
    # Whether they can be used says who will use them: for a moment, on ports that nobody knows, and without the store.
    ports = [port for port in PORTS if settings[f"{port}.tls.cert"] is not None and settings[f"{port}.listen"] is not None]
    if ports:
        places = {f"{port}.listen": Place("127.0.0.1", 0) if port in ports else None for port in PORTS}
        tried = {**settings.values, **places, "store": "memory://", "watch": False, "workers": 1}
        with Service(replace(settings, values=tried)):
            pass


def _greet(service: Service) -> None:
    if service.settings["log.format"] == "json":
        # Who collects logs as JSON wants nothing else.
        log.LOG.info("serving %s", _said_rules(service.limiter.rule_set), extra={"facts": service.addresses})
        return
    for line in _greeting(service):
        typer.echo(line)


def _greeting(service: Service) -> Iterator[str]:
    addresses = service.addresses
    settings = service.settings
    yield f"Tidegate serves {_said_rules(service.limiter.rule_set)}, counters on {without_password(settings['store'])}"
    for port, address in addresses.items():
        yield f"  {port:4}  {_url(settings, port, address)}"
    if "http" in addresses:
        yield f"try:  {_curl(settings, addresses['http'])}"
    yield "stop: Ctrl-C, or SIGTERM, which drains first; SIGHUP loads rules and certificates again"


def _said_rules(rule_set: rules.RuleSet) -> str:
    count = len(rule_set.rules)
    domains = len(rule_set.ir.get("domains", ()))
    parts = [f"{number} {word}{'' if number == 1 else 's'}" for number, word in ((count, "rule"), (domains, "descriptor domain")) if number]
    return " and ".join(parts) or "no rules"


def _url(settings: Settings, port: str, address: str) -> str:
    # Clients of gRPC take an address without a scheme.
    if address.startswith("unix:") or port == "grpc":
        return address
    return f"{_scheme(settings)}://{address}"


def _scheme(settings: Settings) -> str:
    return "http" if settings["http.tls.cert"] is None else "https"


def _curl(settings: Settings, address: str) -> str:
    words = ["curl", "-s"]
    url = _url(settings, "http", address)
    if address.startswith("unix:"):
        words += ["--unix-socket", address.removeprefix("unix:")]
        url = f"{_scheme(settings)}://localhost"
    if settings["http.token"] is not None:
        words += ["-H", '"Authorization: Bearer $TOKEN"']
    body = '{"client_id": "abc", "method": "GET", "endpoint": "/hello"}'
    # Not `--json`, which only newer ones know.
    return " ".join((*words, f"{url}/api/v1/rate-limit/check", "-H", "'content-type: application/json'", "-d", f"'{body}'"))


def _with_flags() -> None:
    # Typer reads a function's signature; this one is made from the table, so that no setting can be forgotten.
    own = [
        parameter for parameter in inspect.signature(serve, eval_str=True).parameters.values() if parameter.kind is parameter.KEYWORD_ONLY
    ]
    made = [_parameter(setting, title) for title, group in GROUPS.items() for setting in group]
    serve.__signature__ = inspect.Signature([*own, *made])  # type: ignore[attr-defined]  # what inspect looks for first
    serve.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *made)}


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


_with_flags()
