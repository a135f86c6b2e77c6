"""
`tidegate top`: a live view of a running service.
"""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003  # typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live

from tidegate._sleep import sleep
from tidegate.cli.top.draw import as_screen, as_text, rows_of
from tidegate.cli.top.picture import picture
from tidegate.cli.top.reading import Source
from tidegate.errors import ServerError, UsageError
from tidegate.quota import duration_ns

if TYPE_CHECKING:
    from tidegate.cli.top.reading import Reading

_ROWS_MAX = 1000
_INTERVAL_MIN_NS = 50_000_000
_INTERVAL_MAX_NS = 60_000_000_000


def top(  # noqa: PLR0913  # a command has as many options
    *,
    url: Annotated[str, typer.Option(envvar="TIDEGATE_URL", help="The HTTP port of the service.")] = "http://127.0.0.1:8080",
    once: Annotated[bool, typer.Option("--once", help="Print one picture, for scripts.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as one JSON object.")] = False,
    interval: Annotated[str, typer.Option(help="How long rates are measured, and the pause between two pictures.")] = "1s",
    rows: Annotated[int, typer.Option(min=1, max=_ROWS_MAX, help="The most rows of a table.")] = 15,
    token: Annotated[str | None, typer.Option(envvar="TIDEGATE_HTTP_TOKEN", help="What the service wants to see.")] = None,
    ca: Annotated[Path | None, typer.Option(help="Who signs its certificate, in PEM, unless the system knows.")] = None,
) -> None:
    """
    Watch a running service: decisions, denials by rule, the keys denied most, latency, the state of the store.

    tidegate top --url http://127.0.0.1:8080

    On a terminal it goes on until Ctrl-C; elsewhere, and with --once, it prints one picture.

    Exit code 0: done. 2: wrong usage, or the service does not answer.
    """
    interval_ns = duration_ns("--interval", _number_or_text(interval))
    if not _INTERVAL_MIN_NS <= interval_ns <= _INTERVAL_MAX_NS:
        raise UsageError("--interval is at least 50ms and at most 60s\nhint: 1s is usual")
    source = Source(url, token, ca)
    before = source.read(rows)
    console = Console()
    if console.is_terminal and not (once or as_json):
        _watch(source, before, interval_ns, rows, console)
        return
    sleep(interval_ns, None)
    shown = picture(before, source.read(rows))
    typer.echo(json.dumps(shown.as_dict()) if as_json else as_text(shown, source.url, rows))


def _watch(source: Source, before: Reading, interval_ns: int, rows: int, console: Console) -> None:
    shown = picture(before, before)
    try:
        with Live(as_screen(shown, source.url, rows_of(console.height, rows)), console=console, screen=True, auto_refresh=False) as live:
            while True:
                sleep(interval_ns, None)
                trouble = ""
                try:
                    now = source.read(rows)
                    shown, before = picture(before, now), now
                except ServerError as error:
                    # A restart is what one wants to watch: the last picture stays until the service is back.
                    trouble = str(error).partition("\n")[0]
                live.update(as_screen(shown, source.url, rows_of(console.height, rows), trouble), refresh=True)
    except KeyboardInterrupt:
        pass


def _number_or_text(interval: str) -> float | str:
    # As with other tools of its kind, a number alone is seconds.
    return float(interval) if interval.replace(".", "", 1).isdigit() else interval
