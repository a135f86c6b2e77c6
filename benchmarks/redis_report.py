"""The tables of the shared store."""

from collections.abc import Iterator
from typing import Any

Rows = list[list[str]]
Table = tuple[str, list[str], Rows]


def tables(section: dict[str, Any]) -> Iterator[Table]:
    """Yield title, header and rows of what was measured."""
    if section.get("speed"):
        speed = section["speed"]
        yield _tasks(speed)
        yield _three_quotas(speed)
        yield _threads(speed)
        yield _latency(speed)
    if section.get("scripts"):
        yield _scripts(section["scripts"])
    if section.get("size"):
        yield _size(section["size"])
    if section.get("frozen"):
        yield _frozen(section["frozen"])


def facts(section: dict[str, Any]) -> dict[str, str]:
    """Return what the sentences of the page mention."""
    speed, scripts, frozen = (section.get(name) or {} for name in ("speed", "scripts", "frozen"))
    return {
        "server": speed.get("server", ""),
        "tasks": str(speed.get("tasks", 0)),
        "redis_rounds": str(next((row["rounds"] for row in speed.get("async", [])), 0)),
        "script_rounds": str(scripts.get("rounds", 0)),
        "patience_s": f"{frozen.get('patience_s', 0):g}",
    }


def fastest_limits(rows: list[dict[str, Any]], **which: Any) -> float:  # noqa: ANN401 - values of a row
    """Return the rate of `limits` with the client that was faster."""
    chosen = (row for row in rows if row["library"] == "limits" and all(row[name] == value for name, value in which.items()))
    return max(float(row["per_second"]) for row in chosen)


def generators(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return by algorithm the load generator that the bar is held against: `redis-benchmark`, or the bare loop where there is none."""
    found: dict[str, dict[str, Any]] = {row["note"]: row for row in rows if row["library"] == "a bare loop"}
    return found | {row["note"]: row for row in rows if row["library"] == "redis-benchmark"}


def three_to_one(rows: list[dict[str, Any]]) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return by algorithm the rows of three quotas and of one."""
    own = {(row["note"], row["quotas"]): row for row in rows if row["library"] == "tidegate"}
    return {note: (own[note, 3], own[note, 1]) for note, quotas in own if quotas == 3}


def _tasks(speed: dict[str, Any]) -> Table:
    rows = speed["async"]
    limits, peers = fastest_limits(rows), generators(rows)
    cells = []
    for row in sorted((row for row in rows if row["quotas"] == 1), key=lambda row: -row["per_second"]):
        is_own = row["library"] == "tidegate"
        peer = peers.get(row["note"]) if is_own else None
        cells.append(
            [
                _who(row["library"]),
                row["note"],
                f"{row['per_second']:,.0f}",
                f"{row['median_per_second']:,.0f}",
                f"{row['per_second'] / limits:.1f} x" if is_own else "",
                f"{row['per_second'] / peer['per_second']:.0%}" if peer else "",
                f"{row['script_us']:.1f}",
            ]
        )
    load = next(iter(peers.values()))["library"]
    header = ["who", "algorithm", "decisions/s", "median", "times `limits`", f"of {load}, same script", "script, µs"]
    return "Redis, many tasks", header, cells


def _three_quotas(speed: dict[str, Any]) -> Table:
    rows = []
    one_call = {row["note"]: row["cuts_us"]["50"] for row in speed["latency"] if row["library"] == "tidegate"}
    for note, (three, one) in three_to_one(speed["async"]).items():
        waits = [one_call.get(name) for name in (note, f"{note}, three quotas")]
        alone = f"{waits[1] / waits[0]:.2f} x" if waits[0] and waits[1] else ""
        rates = [f"{row['per_second']:,.0f}" for row in (one, three)]
        scripts = [f"{row['script_us']:.1f}" for row in (one, three)]
        ratios = [f"{one['per_second'] / three['per_second']:.2f} x", f"{three['script_us'] / one['script_us']:.2f} x"]
        rows.append([note, *rates, ratios[0], *scripts, ratios[1], alone])
    tasks = f"{speed['tasks']} tasks"
    header = ["algorithm", f"one/s, {tasks}", "three/s", "cost", "script of one, µs", "of three", "cost", "p50 of one caller, cost"]
    return "Redis, three quotas in one call", header, rows


def _threads(speed: dict[str, Any]) -> Table:
    rows = speed["sync"]
    cells = []
    for row in sorted(rows, key=lambda row: (row["threads"], -row["per_second"])):
        ratio = f"{row['per_second'] / fastest_limits(rows, threads=row['threads']):.1f} x" if row["library"] == "tidegate" else ""
        numbers = [f"{row['per_second']:,.0f}", f"{row['median_per_second']:,.0f}"]
        cells.append([_who(row["library"]), row["note"], str(row["threads"]), *numbers, ratio])
    return "Redis, threads", ["who", "algorithm", "threads", "decisions/s", "median", "times `limits`"], cells


def _latency(speed: dict[str, Any]) -> Table:
    names = list(speed["latency"][0]["cuts_us"])
    cells = [
        [_who(row["library"]), row["note"], f"{row['calls']:,}", *(f"{row['cuts_us'][name]:,.0f}" for name in names)]
        for row in speed["latency"]
    ]
    return "Redis, one caller", ["who", "algorithm", "calls", *(f"p{name}, µs" for name in names)], cells


def _scripts(scripts: dict[str, Any]) -> Table:
    cells = [
        [
            _who(row["library"]),
            row["note"],
            _number(row["allowed_us"], ".1f"),
            _number(row["denied_us"], ".1f"),
            _number(row["allowed_calls"], ".0f"),
            _number(row["denied_calls"], ".0f"),
            f"{row['round_trips']:g}",
        ]
        for row in scripts["rows"]
    ]
    header = ["who", "algorithm", "allowed, µs", "denied, µs", "commands, allowed", "denied", "round trips per decision"]
    return "Redis, work of the server", header, cells


def _size(size: dict[str, Any]) -> Table:
    cells = [
        [row["server"], _who(row["library"]), row["note"], str(row["checks"]), f"{row['keys']:,}", f"{row['bytes']:.1f}"]
        for row in size["rows"]
    ]
    cells += [[name, "", "not installed on this machine", "", "", ""] for name in size["missing"]]
    return "Redis, bytes per key", ["server", "who", "what", "checks per key", "keys", "bytes per key"], cells


def _frozen(frozen: dict[str, Any]) -> Table:
    cells = []
    for row in frozen["rows"]:
        sign = "> " if row["is_cut"] else ""
        waits = [f"{sign}{row[name]:,.1f}" for name in ("longest_ms", "worst_ms")]
        cells.append([_who(row["library"]), row["note"], str(row["freezes"]), *waits])
    return "Redis, frozen store", ["who", "callers", "times frozen", "longest wait, ms (median of all times)", "worst, ms"], cells


def _who(library: str) -> str:
    return f"**{library}**" if library == "tidegate" else library


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
