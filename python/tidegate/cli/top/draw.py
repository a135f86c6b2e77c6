"""
A picture on a terminal, or as plain text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tidegate.cli._table import NOTHING, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from tidegate.cli.top.picture import Picture

RULE_HEADINGS = ("rule", "allowed/s", "denied/s", "in shadow/s", "denied so far")
KEY_HEADINGS = ("rule", "key", "denied/s", "denied lately", "may be less by")
SHARD_HEADINGS = ("server", "state", "breaker")
_WORDS = frozenset({"rule", "key", "server", "state", "breaker"})
# Facts, and the headings and lines of three tables.
_LINES_AROUND = 26
_ROWS_MIN = 3
_KIBI = 1024.0
_MILLISECOND = 1e-3


def rows_of(height: int, rows_max: int) -> int:
    """
    How many rows each table has on a screen, so that all of them can be seen.

    Args:
        height: Of the screen, in lines.
        rows_max: The most.
    """
    return max(_ROWS_MIN, min(rows_max, (height - _LINES_AROUND) // 2))


def as_text(shown: Picture, url: str, rows_max: int) -> str:
    """
    A picture for scripts and files.

    Args:
        shown: The picture.
        url: Where the service is.
        rows_max: The most rows of a table.
    """
    parts = [plain([("service", url), *_facts(shown)])]
    for title, headings, rows, _ in _tables(shown, rows_max):
        parts.append(f"{title}\n" + plain([headings, *rows], "  "))
    return "\n\n".join(parts)


def as_screen(shown: Picture, url: str, rows_max: int, trouble: str = "") -> RenderableType:
    """
    A picture for a terminal.

    Args:
        shown: The picture.
        url: Where the service is.
        rows_max: The most rows of a table.
        trouble: Why it is old, if it is.
    """
    facts = Table.grid(padding=(0, 2))
    for name, fact in _facts(shown):
        facts.add_row(Text(name, style="dim"), Text(fact, style=_style(name, fact)))
    parts: list[RenderableType] = [Panel(facts, title=Text(f"Tidegate at {url}"), title_align="left")]
    if trouble:
        parts.append(Text(trouble, style="bold red"))
    for title, headings, rows, styles in _tables(shown, rows_max):
        table = Table(title=title, title_justify="left", expand=True)
        for heading in headings:
            table.add_column(heading, justify="left" if heading in _WORDS else "right", overflow="ellipsis", no_wrap=True)
        for row, style in zip(rows, styles, strict=True):
            # As text: brackets in a key are not the table's own mark-up.
            table.add_row(*map(Text, row), style=style)
        parts.append(table)
    return Group(*parts)


def _facts(shown: Picture) -> Iterator[tuple[str, str]]:
    trouble = ", ".join(word for word, is_so in (("draining", shown.is_draining), ("rules on disk are wrong", shown.is_stale)) if is_so)
    yield "version", f"{shown.version}, generation {shown.generation} of the rules{', ' + trouble if trouble else ''}"
    decisions = shown.allowed + shown.denied
    share = f" ({shown.denied / decisions:.0%})" if decisions else ""
    unmatched = f", {shown.unmatched:,.1f}/s met no rule" if shown.unmatched else ""
    yield "decisions", f"{decisions:,.1f}/s: {shown.allowed:,.1f}/s allowed, {shown.denied:,.1f}/s denied{share}{unmatched}"
    yield "latency", f"p50 {_duration(shown.p50)}, p99 {_duration(shown.p99)}"
    if shown.degraded:
        yield "without the store", ", ".join(f"{rate:,.1f}/s {reason}" for reason, rate in shown.degraded.items())
    if shown.deny_cache is not None:
        yield "store", f"round trip {_duration(shown.round_trip)}, {shown.deny_cache:,.1f}/s denied without asking"
    if shown.store_errors:
        yield "store errors", ", ".join(f"{rate:,.1f}/s {kind}" for kind, rate in shown.store_errors.items())
    keys = f", {shown.keys:,} counters held" if shown.keys is not None else ""
    cpu = f", {shown.cpu:.0%} of a core" if shown.cpu is not None else ""
    memory = f", {_bytes(shown.memory)}" if shown.memory is not None else ""
    yield "load", f"{shown.connections:,} connections{keys}{memory}{cpu}"


def _tables(shown: Picture, rows_max: int) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[str]], Sequence[str]]]:
    if shown.shards:
        servers = [(shard.shard, "up" if shard.is_up else "down", shard.breaker) for shard in shown.shards[:rows_max]]
        is_well = [shard.is_up and shard.breaker == "closed" for shard in shown.shards[:rows_max]]
        yield "Servers of the store", SHARD_HEADINGS, servers, ["green" if well else "red" for well in is_well]
    rules = shown.rules[:rows_max]
    cells = [
        (rule.rule, f"{rule.allowed:,.1f}", f"{rule.denied:,.1f}", f"{rule.shadow_denied:,.1f}", f"{rule.denied_total:,}") for rule in rules
    ]
    yield "Rules", RULE_HEADINGS, cells or [(NOTHING,) * len(RULE_HEADINGS)], ["red" if rule.denied else "" for rule in rules] or [""]
    keys = shown.limited[:rows_max]
    cells = [(key.rule, _harmless(key.key), f"{key.denied_rate:,.1f}", f"{key.denied:,}", f"{key.error:,}") for key in keys]
    styles = ["red" if key.denied_rate else "" for key in keys]
    yield "Keys denied most", KEY_HEADINGS, cells or [(NOTHING,) * len(KEY_HEADINGS)], styles or [""]


def _harmless(text: str) -> str:
    # The service does the same; but it is not the one that sits at this terminal.
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _style(name: str, fact: str) -> str:
    is_wrong = name in {"without the store", "store errors"} or "draining" in fact or "are wrong" in fact
    return "bold red" if is_wrong else "bold" if name == "decisions" else ""


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    return f"{seconds * 1e6:.0f} µs" if seconds < _MILLISECOND else f"{seconds * 1e3:.1f} ms"


def _bytes(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < _KIBI:
            return f"{size:.0f} {unit}"
        size /= _KIBI
    return f"{size:.1f} GiB"
