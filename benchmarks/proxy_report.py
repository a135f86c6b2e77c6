"""The tables and the bars of the reverse proxy."""

from collections.abc import Iterator
from typing import Any

from service_report import Promise, Rows, Table, calm, late_ms, median_ms, noted, pace_rule, stood

AWAKE = "memory, `busy_poll: 100us`"
FIRST = (
    "At half load each proxy but the one that polls, with all its threads, goes before the rest of the machine (`SCHED_RR`),"
    " whose daemons hold a core for 1 to 8 ms when they wake up; its own threads wait for each other. "
)


def tables(section: dict[str, Any]) -> Iterator[Table]:
    """Yield title, header and rows of what was measured."""
    if section.get("speed"):
        yield "Proxy, one core", *_speed(section["speed"]["rows"])
    if section.get("idle"):
        idle = section["idle"]
        yield (
            f"Proxy, memory of {idle.get('connections', 0):,} idle connections",
            ["who", "bytes each"],
            [_idle(row) for row in idle["rows"]],
        )


def facts(section: dict[str, Any]) -> dict[str, str]:
    """Return what the sentences of the page mention."""
    speed = section.get("speed") or {}
    first = FIRST if speed.get("first") else ""
    return {"proxy_pace_rule": first + pace_rule(speed.get("rows", []))}


def promises(section: dict[str, Any]) -> Iterator[Promise]:
    """Yield the bars of the proxy, also those that this machine could not measure."""
    if not section or "skipped" in section:
        return
    rows = section["speed"]["rows"]
    own, nginx = _find(rows, "tidegate", "memory"), _find(rows, "nginx")
    share = 100 * own["per_second"] / nginx["per_second"] if own and nginx else None
    yield "proxy, one core, requests of nginx with `limit_req`", share, "%", 65.0, False
    for note, most_ms in (("memory", 1.0), (AWAKE, 1.0), ("Redis", 5.0)):
        row = _find(rows, "tidegate", note)
        yield f"proxy, one core, added to the p99 at half load, {note}", _added_ms(row), "ms", most_ms, True


def _speed(rows: list[dict[str, Any]]) -> tuple[list[str], Rows]:
    header = ["who", "counts in", "requests/s", "median", "of nginx", "CPU, µs a request"]
    header += ["at half load: requests/s", "p50, ms", "p99, ms", "p99 added, ms", "median p99, ms", "generator late, p99, ms"]
    header += ["a core stood still", "calm, s"]
    nginx = _find(rows, "nginx")
    return header, [_speed_row(row, nginx) for row in rows]


def _speed_row(row: dict[str, Any], nginx: dict[str, Any] | None) -> list[str]:
    cells = [f"**{row['who']}**" if row["who"] == "tidegate" else row["who"], noted(row)]
    if "missing" in row:
        return [*cells, f"not measured: {row['missing']}", *[""] * 11]
    half, added = row["half"], _added_ms(row)
    return [
        *cells,
        f"{row['per_second']:,.0f}",
        f"{row['median_per_second']:,.0f}",
        f"{row['per_second'] / nginx['per_second']:.0%}" if nginx else "",
        f"{row['cpu_us']:.1f}",
        *([f"{half['per_second']:,.0f}", *(f"{half['cuts_us'][name] / 1e3:.2f}" for name in ("50", "99"))] if half else [""] * 3),
        "" if added is None else f"{added:.2f}",
        median_ms(half),
        late_ms(half),
        stood(half),
        calm(half),
    ]


def _added_ms(row: dict[str, Any] | None) -> float | None:
    """Return what the proxy adds to the latency of the server alone, at the same rate."""
    if not row or not row["half"] or not row.get("alone"):
        return None
    return float(row["half"]["cuts_us"]["99"] - row["alone"]["cuts_us"]["99"]) / 1e3


def _idle(row: dict[str, Any]) -> list[str]:
    return [row["who"], f"not measured: {row['missing']}" if "missing" in row else f"{row['bytes']:,.0f}"]


def _find(rows: list[dict[str, Any]], who: str, note: str = "") -> dict[str, Any] | None:
    return next((row for row in rows if row["who"] == who and note in {"", row["note"]} and "missing" not in row), None)
