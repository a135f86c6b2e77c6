"""
`tidegate simulate`: recorded requests, decided by rules.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate import rules
from tidegate.cli._table import show_table
from tidegate.errors import UsageError
from tidegate.rules.replay import Outcome, Replayed, Request, facts, replay

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADINGS = ("rule", "allowed", "denied", "denied in shadow")
BESIDE = (*HEADINGS, "allowed then", "denied then", "denied in shadow then")
ALL = "all requests"
_NONE = Outcome()


def simulate(
    path: Annotated[str, typer.Argument(help="A file or a directory of rules.")],
    requests: Annotated[str, typer.Argument(help="A file of requests, one JSON object in each line; - is standard input.")],
    *,
    against: Annotated[str | None, typer.Option("--against", metavar="PATH", help="Other rules, to compare with.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """
    Decide requests of before by rules, on a clock that stands where each of them stood.

    tidegate simulate rules.yaml requests.jsonl --against new-rules.yaml

    A request is {"at": "2026-01-01T00:00:00Z", "attributes": {"method": "POST", "path": "/login", "ip": "203.0.113.7"}}. A number in `at`
    is seconds since 1970; `cost`, and `weight` (for how many requests it stands), may be given too. They come in the order of their times.

    Exit code 0: simulated, whatever was decided. 2: wrong usage, wrong rules or wrong requests.
    """
    sets = [rules.load(one) for one in (path, against) if one is not None]
    read = list(_requests(requests))
    found = [replay(rule_set, read) for rule_set in sets]
    if as_json:
        names = ("now", "then")
        typer.echo(json.dumps({name: one.to_dict() for name, one in zip(names, found, strict=False)}, indent=2))
        return
    named = sorted({name for one in found for name in one.rules})
    rows = [_row(ALL, [one.total for one in found]), *(_row(name, [_of(one, name) for one in found]) for name in named)]
    show_table(HEADINGS if against is None else BESIDE, rows, styles=[""] * len(rows), words=frozenset({"rule"}))
    scale = "" if found[0].requests == found[0].stands_for else f", which stand for {found[0].stands_for}"
    typer.echo(f"\n{found[0].requests} requests{scale}; counters began empty, and `concurrent` quotas deny nothing here")


def _of(replayed: Replayed, name: str) -> Outcome:
    return replayed.rules.get(name, _NONE)


def _row(name: str, outcomes: list[Outcome]) -> list[str]:
    return [name, *(str(count) for one in outcomes for count in (one.allowed, one.denied, one.shadow_denied))]


def _requests(path: str) -> Iterator[Request]:
    try:
        lines = sys.stdin if path == "-" else Path(path).open(encoding="utf-8")  # noqa: SIM115  # read to its end below
        with lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _request(line, f"{path}:{number}")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the requests cannot be read: {error}") from None


def _request(line: str, place: str) -> Request:
    try:
        said: dict[str, Any] = json.loads(line)
        at = said["at"]
        seconds = datetime.fromisoformat(at).timestamp() if isinstance(at, str) else float(at)
        cost, weight = said.get("cost"), int(said.get("weight", 1))
        return Request(round(seconds * 1e9), facts(said["attributes"]), None if cost is None else int(cost), weight)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        why = f"`{error.args[0]}` is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f'{place} is no request: {why}\nhint: write {{"at": "2026-01-01T00:00:00Z", "attributes": {{"path": "/"}}}}'
        ) from None
