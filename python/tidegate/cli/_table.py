"""
Tables: with colours and lines on a terminal, as plain columns elsewhere. And decisions as such a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidegate._text import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate import Decision

HEADINGS = (
    "time",
    "answer",
    "remaining",
    "retry after",
    "reset after",
    "start after",
    "rule",
    "binding quota",
    "would deny in shadow",
    "degraded",
)
NOTHING = "-"
_WORDS = frozenset({"answer", "rule", "binding quota", "would deny in shadow", "degraded"})


def show(timeline: Sequence[tuple[int, Decision]], *, is_simulated: bool, has_rules: bool = False) -> None:
    """
    Prints decisions.

    Args:
        timeline: When each was taken, in nanoseconds from the first, and the decision.
        is_simulated: Whether there were several requests on purpose, so that times and a sum are of interest.
        has_rules: Whether rules decided, so that their names are of interest.
    """
    hidden = set() if is_simulated else {"time"}
    if not any(decision.delay_ns for _, decision in timeline):
        hidden.add("start after")
    if not has_rules:
        hidden.add("rule")
    if not any(decision.shadowed for _, decision in timeline):
        hidden.add("would deny in shadow")
    if not any(decision.degraded for _, decision in timeline):
        hidden.add("degraded")
    shown = [column for column, heading in enumerate(HEADINGS) if heading not in hidden]
    headings = [HEADINGS[column] for column in shown]
    rows = [[_row(at_ns, decision)[column] for column in shown] for at_ns, decision in timeline]
    show_table(headings, rows, styles=["green" if decision.allowed else "red" for _, decision in timeline], words=_WORDS)
    if is_simulated:
        degraded = sum(decision.degraded for _, decision in timeline)
        without = f", {degraded} decided without the store" if degraded else ""
        typer.echo(f"{sum(decision.allowed for _, decision in timeline)} of {len(timeline)} allowed{without}")


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, styles: Sequence[str], words: frozenset[str]) -> None:
    """
    Prints a table.

    Args:
        headings: One for each column.
        rows: The cells.
        styles: The colour of each row, on a terminal.
        words: Headings of columns with words; numbers stand at the right.
    """
    console = Console()
    if console.is_terminal:
        console.print(_coloured(headings, rows, styles, words))
    else:
        typer.echo(plain([headings, *rows]))


def plain(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """
    Columns of text.

    Args:
        rows: The cells.
        indent: What stands before each line.

    Returns:
        One line for each row.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


def _row(at_ns: int, decision: Decision) -> tuple[str, ...]:
    wait_ns = decision.retry_after_ns
    return (
        seconds(at_ns),
        "allowed" if decision.allowed else "denied",
        "unlimited" if decision.remaining is None else str(decision.remaining),
        "never" if wait_ns is None else seconds(wait_ns) if wait_ns else NOTHING,
        seconds(decision.reset_after_ns),
        seconds(decision.delay_ns) if decision.delay_ns else NOTHING,
        decision.rule or NOTHING,
        NOTHING if decision.quota is None else decision.quota.quota,
        ", ".join(decision.shadowed) or NOTHING,
        decision.reason or NOTHING,
    )


def _coloured(headings: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str], words: frozenset[str]) -> Table:
    table = Table()
    for heading in headings:
        table.add_column(heading, justify="left" if heading in words else "right", overflow="fold")
    for row, style in zip(rows, styles, strict=True):
        # As text: brackets in a request are not the table's own mark-up.
        table.add_row(*map(Text, row), style=style)
    return table
