"""
`tidegate check`: what a quota answers, before it is deployed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate import Limiter
from tidegate.cli._table import show
from tidegate.errors import UsageError
from tidegate.quota import duration_ns
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate import Decision

EXIT_DENIED = 1


def check(  # noqa: PLR0913  # a command's parameters are its options
    key: Annotated[str, typer.Argument(help="Who is counted, such as user:42.")],
    *,
    quota: Annotated[list[str], typer.Option("--quota", "-q", help='What is allowed, such as "5/minute"; may be repeated.')],
    cost: Annotated[int, typer.Option(help="The cost of each request.")] = 1,
    times: Annotated[int | None, typer.Option(min=1, max=100_000, help="Simulate this many requests.")] = None,
    every: Annotated[str | None, typer.Option(help="The time between them, such as 1s; by default all come at once.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per decision and line.")] = False,
) -> None:
    """
    Ask a fresh limiter, once or many times on a simulated clock.

    Nothing sleeps and nothing is stored: it shows what a quota does before it is deployed.

    Exit code 0: all were allowed. 1: at least one was denied. 2: wrong usage.
    """
    if every is not None and times is None:
        raise UsageError("--every needs --times\nhint: add --times 10 to simulate ten requests")
    timeline = list(_simulate(Limiter(quota, clock=ManualClock()), key, cost, times or 1, duration_ns("--every", every or 0)))
    if as_json:
        for at_ns, decision in timeline:
            typer.echo(json.dumps(_as_dict(at_ns, key, decision)))
    else:
        show(timeline, is_simulated=times is not None)
    if not all(decision.allowed for _, decision in timeline):
        raise typer.Exit(EXIT_DENIED)


def _simulate(limiter: Limiter, key: str, cost: int, times: int, every_ns: int) -> Iterator[tuple[int, Decision]]:
    clock = limiter.clock or ManualClock()
    for index in range(times):
        yield index * every_ns, limiter.check(key, cost)
        clock.advance_ns(every_ns)


def _as_dict(at_ns: int, key: str, decision: Decision) -> dict[str, Any]:
    return {
        "at": at_ns / 1e9,
        "key": key,
        "allowed": decision.allowed,
        "cost": decision.cost,
        "quota": decision.quota.quota,
        "limit": decision.limit,
        "remaining": decision.remaining,
        "retry_after": decision.retry_after,
        "reset_after": decision.reset_after,
        "delay": decision.delay,
    }
