"""
`tidegate proxy`: rate limiting in front of servers, in the foreground.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import _serving
from tidegate.cli._serving import said_rules, url
from tidegate.proxy.proxy import Proxy
from tidegate.proxy.settings import load
from tidegate.proxy.table import GROUPS, TABLE
from tidegate.service import describe
from tidegate.service.settings import without_password

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.service.service import Service


def proxy(
    *,
    upstream: Annotated[
        list[str] | None,
        typer.Option("--upstream", metavar="URL", help="A server to forward to; once for each. \\[env: TIDEGATE_UPSTREAMS]"),
    ] = None,
    config: _serving.Config = None,
    check: _serving.Check = False,
    schema: _serving.Schema = False,
    show: _serving.Show = False,
    **flags: Any,  # noqa: ANN401  # one for each setting, see `with_flags`
) -> None:
    """
    Stand in front of servers, and forward what a file of rules allows.

    tidegate proxy --upstream http://10.0.0.1:8000 --upstream http://10.0.0.2:8000 --rules rules.yaml

    tidegate proxy --config tidegate.yaml --check

    Who is denied is answered 429 at once, and no server hears of it. Servers take turns; one that fails is left out for a while.

    Every setting is a key of the file, an environment variable and a flag; flags win over variables, variables over the file.
    Several groups of servers, and routes to them, are written in the file.

    SIGTERM drains and ends, a second one ends at once, SIGHUP loads upstreams, routes, rules and certificates again.

    Exit code 0: ended as asked, or --check found nothing. 1: requests were cut at the end, or --check found problems.
    2: it could not start.
    """
    if schema:
        typer.echo(json.dumps(describe.json_schema(TABLE), indent=2))
        return
    texts = {key: flags[setting.parameter] for key, setting in TABLE.items() if not setting.kind.is_structured}
    texts["upstreams"] = ",".join(upstream) if upstream else None
    read = partial(load, _serving.path_of(config), flags=texts)
    _serving.obey(read, Proxy, _greeting, is_check=check, is_show=show)


def _greeting(service: Service) -> Iterator[str]:
    settings = service.settings
    servers = sum(len(group.servers) for group in settings["upstreams"])
    yield (
        f"Tidegate forwards to {servers} server{'' if servers == 1 else 's'} by {said_rules(service.limiter.rule_set)}, "
        f"counters on {without_password(settings['store'])}"
    )
    for port, address in service.addresses.items():
        yield f"  {port:5}  {url(settings, port, address)}"
    yield from _serving.first_token(service.control)
    yield "stop: Ctrl-C, or SIGTERM, which drains first; SIGHUP loads upstreams, routes, rules and certificates again"


_serving.with_flags(proxy, GROUPS)
