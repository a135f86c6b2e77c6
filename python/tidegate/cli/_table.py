"""
Decisions as a table: with colours and lines on a terminal, as plain columns elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from tidegate._text import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate import Decision

HEADINGS = ("time", "answer", "remaining", "retry after", "reset after", "start after", "binding quota")


def show(timeline: Sequence[tuple[int, Decision]], *, is_simulated: bool) -> None:
    """
    Prints decisions.

    Args:
        timeline: When each was taken, in nanoseconds from the first, and the decision.
        is_simulated: Whether there were several requests on purpose, so that times and a sum are of interest.
    """
    hidden = set() if is_simulated else {"time"}
    if not any(decision.delay_ns for _, decision in timeline):
        hidden.add("start after")
    shown = [column for column, heading in enumerate(HEADINGS) if heading not in hidden]
    rows = [[_row(at_ns, decision)[column] for column in shown] for at_ns, decision in timeline]
    console = Console()
    if console.is_terminal:
        console.print(_coloured([HEADINGS[column] for column in shown], rows))
    else:
        typer.echo(_plain([[HEADINGS[column] for column in shown], *rows]))
    if is_simulated:
        typer.echo(f"{sum(decision.allowed for _, decision in timeline)} of {len(timeline)} allowed")


def _row(at_ns: int, decision: Decision) -> tuple[str, ...]:
    wait_ns = decision.retry_after_ns
    return (
        seconds(at_ns),
        "allowed" if decision.allowed else "denied",
        "unlimited" if decision.remaining is None else str(decision.remaining),
        "never" if wait_ns is None else seconds(wait_ns) if wait_ns else "-",
        seconds(decision.reset_after_ns),
        seconds(decision.delay_ns) if decision.delay_ns else "-",
        decision.quota.quota,
    )


def _coloured(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table()
    for heading in headings:
        table.add_column(heading, justify="left" if heading in {"answer", "binding quota"} else "right")
    for row in rows:
        table.add_row(*row, style="green" if "allowed" in row else "red")
    return table


def _plain(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)
