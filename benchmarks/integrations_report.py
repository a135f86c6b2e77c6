"""The tables and the bars of the integrations."""

from collections.abc import Iterator
from typing import Any

Rows = list[list[str]]
Table = tuple[str, list[str], Rows]
Promise = tuple[str, float | None, str, float, bool]
"""What, measured, unit, target, and whether it is the most."""

# What is added, of what the best of the others adds, in percent: a third in memory, a quarter on Redis. The bar is "the best of them with
# headers on every response", which can mean our headers or theirs: both are judged.
SHARES = {"memory": 100 / 3, "redis": 25.0}
STALL_MS = 5.0
PLACES = {"memory": "in memory", "redis": "on Redis"}


def tables(section: dict[str, Any]) -> Iterator[Table]:
    """Yield title, header and rows of what was measured."""
    for framework, part in (("FastAPI", "asgi"), ("Flask", "flask")):
        for place, rows in _places(section.get(part) or {}):
            yield f"Integrations, {framework} {PLACES[place]}", *_added(rows)
    for framework, results in (("FastAPI", section.get("http")), ("Flask", (section.get("flask") or {}).get("http"))):
        for place, rows in _places(results or {}):
            yield f"Integrations, {framework} over HTTP, {PLACES[place]}", *_added(rows)
    stalls = (section.get("stalls") or {}).get("rows", [])
    if stalls:
        yield "Integrations, event loop", *_stalls(stalls)


def promises(section: dict[str, Any]) -> Iterator[Promise]:
    """Yield the bars: what is added, against the best of the others, and how long the event loop stands still."""
    for framework, part in (("FastAPI", "asgi"), ("Flask", "flask")):
        for place, rows in _places(section.get(part) or {}):
            for others, best in (("the best peer with headers", _best(rows, is_telling=True)), ("the best peer", _best(rows))):
                for row in rows:
                    # One after the other, as the figures that the bar was set by were measured. Several at once are in the table.
                    if row["library"] == "tidegate" and row["at_once"] == 1 and best is not None:
                        what = f"{framework} {PLACES[place]}, added to a request by {row['note']}, of what {others} adds"
                        yield what, 100 * row["added_us"] / best, "%", SHARES[place], True
    for row in (section.get("stalls") or {}).get("rows", []):
        if row["library"] == "tidegate":
            store = "a frozen Redis" if row["is_frozen"] else "Redis"
            yield f"FastAPI on {store}, longest stall of the event loop, {row['note']}", row["stall_ms"], "ms", STALL_MS, True


def facts(section: dict[str, Any]) -> dict[str, str]:
    """Return what the sentences of the page mention."""
    asgi, http, stalls = (section.get(name) or {} for name in ("asgi", "http", "stalls"))
    return {
        "integration_rounds": str(asgi.get("rounds", 0)),
        "integration_tasks": str(asgi.get("tasks", 0)),
        "integration_connections": str(http.get("connections", 0)),
        "stall_rounds": str(stalls.get("rounds", 0)),
        "stall_tasks": str(stalls.get("tasks", 0)),
        "frozen_ms": f"{stalls.get('frozen_ms', 0):.0f}",
    }


def _places(results: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for place in PLACES:
        if results.get(place):
            yield place, results[place]


def _best(rows: list[dict[str, Any]], at_once: int = 1, *, is_telling: bool = False) -> float | None:
    """Return what the best of the others adds: of all, or of those that tell clients what is left."""
    others = (row for row in rows if row["library"] not in {"bare", "tidegate"} and row["at_once"] == at_once)
    return min((row["added_us"] for row in others if not is_telling or row["note"] == "with headers"), default=None)


def _share(row: dict[str, Any], best: float | None) -> str:
    # Where the best of the others adds nothing that can be measured, there is no share of it.
    return f"{row['added_us'] / best:.0%}" if row["library"] == "tidegate" and best is not None and best > 0 else ""


def _added(rows: list[dict[str, Any]]) -> tuple[list[str], Rows]:
    header = ["limiter", "at once", "µs a request", "added", "of the best peer with headers", "of the best peer"]
    shown = []
    for row in rows:
        name = f"{row['library']}, {row['note']}" if row["note"] else row["library"]
        shown.append(
            [
                f"**{name}**" if row["library"] == "tidegate" else name,
                str(row["at_once"]),
                f"{row['us']:,.1f}",
                "" if row["library"] == "bare" and not row["note"] else f"{row['added_us']:+,.1f}",
                _share(row, _best(rows, row["at_once"], is_telling=True)),
                _share(row, _best(rows, row["at_once"])),
            ]
        )
    return header, shown


def _stalls(rows: list[dict[str, Any]]) -> tuple[list[str], Rows]:
    header = ["limiter", "Redis", "longest stall, ms", "worst round, ms", "without waits for a processor, ms"]
    return header, [
        [
            f"**{name}**" if row["library"] == "tidegate" else name,
            "frozen" if row["is_frozen"] else "well",
            f"{row['stall_ms']:,.1f}",
            f"{row['worst_ms']:,.1f}",
            f"{row['own_ms']:,.1f}" if "own_ms" in row else "",
        ]
        for row in rows
        for name in [f"{row['library']}, {row['note']}" if row["note"] else row["library"]]
    ]
