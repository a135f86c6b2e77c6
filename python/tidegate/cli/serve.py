"""
`tidegate serve`: the engine as a service, in the foreground.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from tidegate.cli import _serving
from tidegate.cli._serving import said_rules, scheme, url
from tidegate.service import describe
from tidegate.service.service import Service
from tidegate.service.settings import Settings, load, without_password
from tidegate.service.table import GROUPS, TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator


def serve(
    *,
    config: _serving.Config = None,
    check: _serving.Check = False,
    schema: _serving.Schema = False,
    show: _serving.Show = False,
    **flags: Any,  # noqa: ANN401  # one for each setting, see `with_flags`
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
    read = partial(load, _serving.path_of(config), flags=flags)
    _serving.obey(read, Service, _greeting, is_check=check, is_show=show)


def _greeting(service: Service) -> Iterator[str]:
    addresses = service.addresses
    settings = service.settings
    yield f"Tidegate serves {said_rules(service.limiter.rule_set)}, counters on {without_password(settings['store'])}"
    for port, address in addresses.items():
        yield f"  {port:5}  {url(settings, port, address)}"
    yield from _serving.first_token(service.control)
    if "http" in addresses:
        yield f"try:  {_curl(settings, addresses['http'])}"
    yield "stop: Ctrl-C, or SIGTERM, which drains first; SIGHUP loads rules and certificates again"


def _curl(settings: Settings, address: str) -> str:
    words = ["curl", "-s"]
    address_of = url(settings, "http", address)
    if address.startswith("unix:"):
        words += ["--unix-socket", address.removeprefix("unix:")]
        address_of = f"{scheme(settings, 'http')}://localhost"
    if settings["http.token"] is not None:
        words += ["-H", '"Authorization: Bearer $TOKEN"']
    body = '{"client_id": "abc", "method": "GET", "endpoint": "/hello"}'
    # Not `--json`, which only newer ones know.
    return " ".join((*words, f"{address_of}/api/v1/rate-limit/check", "-H", "'content-type: application/json'", "-d", f"'{body}'"))


_serving.with_flags(serve, GROUPS)
