"""The tables and the bars of the service."""

from collections.abc import Iterator
from typing import Any

import pace

Rows = list[list[str]]
Table = tuple[str, list[str], Rows]
Promise = tuple[str, float | None, str, float, bool]
"""What, measured, unit, target, and whether it is the most."""
MIB = 2**20


def tables(section: dict[str, Any]) -> Iterator[Table]:
    """Yield title, header and rows of what was measured."""
    if section.get("grpc"):
        yield "Service, gRPC in memory", *speed(section["grpc"]["rows"], "grpcio.aio")
    if section.get("redis"):
        yield "Service, gRPC on Redis", *speed(section["redis"]["rows"], "envoyproxy/ratelimit")
    if section.get("http"):
        yield "Service, HTTP", *speed(section["http"]["rows"], "nginx", "FastAPI")
    if section.get("steady"):
        yield "Service, latency that k6 sees", *_steady(section["steady"]["rows"])
    if section.get("memory"):
        yield "Service, memory", *_memory(section["memory"])


def facts(section: dict[str, Any]) -> dict[str, str]:
    """Return what the sentences of the page mention."""
    grpc, http = (section.get(name) or {} for name in ("grpc", "http"))
    generators = section.get("generators") or {}
    return {
        "generators": ", ".join(version or f"no {name}" for name, version in generators.items()),
        "h2load_command": grpc.get("command", ""),
        "pace_command": grpc.get("half_command", ""),
        "pace_clients": f"{grpc.get('clients', 0):,}",
        "pace_rule": pace_rule(grpc.get("rows", [])),
        "wrk_command": http.get("command", ""),
        "wrk_clients": f"{http.get('clients', 0):,}",
        "service_rounds": str(next((row["rounds"] for row in grpc.get("rows", []) if "rounds" in row), 0)),
        "service_store": (section.get("redis") or {}).get("server", ""),
    }


def pace_rule(rows: list[dict[str, Any]]) -> str:
    """Return which calls at half load count, as far as these rows know: older ones were measured otherwise."""
    halves = [row["half"] for row in rows if row.get("half")]
    witness = (
        "*A core stood still* is what a witness on each core saw, which goes before everybody else and naps for a millisecond at a time."
    )
    if any(half.get("calm_s") is not None for half in halves):
        return " ".join(
            (
                witness,
                f"Of all runs those calls count for which no core stood still from {pace.SETTLED_S * 1e3:g} ms before they were due",
                f"until {pace.AHEAD_S * 1e3:g} ms after it (*calm*), whenever they were answered:",
                "what the server did has no part in that choice.",
                f"Runs go on until that is {pace.CALM_S:g} s of calls, and where {pace.ROUNDS_MAX} do not have as much, all calls count.",
                "*Median p99* is of whole runs, with all their calls.",
            )
        )
    if any("calm_s" in half for half in halves):
        return "All calls of all runs count: nobody watched the cores, which takes root."
    late = "Of all runs the one with the lowest p99 counts. One in which the generator was later than 0.2 ms with one call in a hundred"
    if any(half.get("stood") is not None for half in halves):
        again = f"{late}, or a core stood still for more than 0.5% of the time, was made again, up to 6 times"
        return f"{witness} {again}, and the calmest was kept: what the server did has no part in that choice."
    return f"{late} was made again, up to 3 times, and the one in which it was least late was kept; nobody watched the cores."


def promises(section: dict[str, Any]) -> Iterator[Promise]:
    """Yield the bars of the service, also those that this machine could not measure."""
    if not section or "skipped" in section:
        return
    grpc, redis, http = (section[name]["rows"] for name in ("grpc", "redis", "http"))
    for note in ("native rules", "file of the reference service"):
        what = f"service, gRPC in memory, one core, {note}"
        yield f"{what}, against `grpcio.aio`", _ratio(grpc, note, "grpcio.aio"), "x", 25.0, False
        yield f"{what}, p99 at half load", _half_ms(grpc, note), "ms", 1.0, True
    for note in ("native rules", "file of the reference service"):
        what = f"service, gRPC on Redis, one core, {note}"
        yield what, _rate(redis, note), "calls/s", 30_000.0, False
        yield f"{what}, p99 at half load", _half_ms(redis, note), "ms", 5.0, True
    note = "file of the reference service"
    what = "service, gRPC on Redis, one core, against `envoyproxy/ratelimit`"
    yield what, _ratio(redis, note, "envoyproxy/ratelimit"), "x", 2.0, False
    nginx = _ratio(http, "check", "nginx")
    yield "service, HTTP check, one core, of nginx answering a constant", nginx and 100 * nginx, "%", 80.0, False
    yield "service, HTTP check, one core, against FastAPI with `limits`", _ratio(http, "check", "FastAPI"), "x", 10.0, False
    yield "service, HTTP check, one core, p99 at half load", _half_ms(http, "check"), "ms", 1.0, True
    for row in section["memory"]["rows"]:
        what = f"service, growth of memory when {row['clients']:,} known clients ask again, `{row['algorithm']}`"
        yield what, _growth_percent(row), "%", 2.0, True


def _growth_percent(row: dict[str, Any]) -> float:
    """Return by how much the service grew after every client was known, and its state had its full size."""
    ends = _ends(row)
    full, last = ends[row["full_after"]], ends[max(ends)]
    return 100 * (last - full) / full


def _ends(row: dict[str, Any]) -> dict[int, int]:
    """Return the resident bytes by how often all clients have asked."""
    return {sample["asked"]: sample["rss"] for sample in row["samples"]}


def speed(rows: list[dict[str, Any]], *peers: str) -> tuple[list[str], Rows]:
    """Return header and rows of servers under load, beside those of peers."""
    header = [
        "who",
        "what",
        "cores",
        "calls/s",
        "median",
        *(f"of {peer}" for peer in peers),
        "CPU, µs a call",
        "at half load: calls/s",
        *(f"p{name}, ms" for name in ("50", "99", "99.9")),
        "median p99, ms",
        "generator late, p99, ms",
        "a core stood still",
        "calm, s",
    ]
    return header, [_speed_row(row, rows, peers) for row in rows]


def _speed_row(row: dict[str, Any], rows: list[dict[str, Any]], peers: tuple[str, ...]) -> list[str]:
    cells = [_who(row["who"]), noted(row)]
    if "missing" in row:
        return [*cells, "", f"not measured: {row['missing']}", *[""] * (10 + len(peers))]
    half = row["half"]
    waits = [f"{half['cuts_us'][name] / 1e3:.2f}" for name in ("50", "99", "99.9")] if half else ["", "", ""]
    # Two threads share the cores with the generator, so a ratio to somebody who had a core alone says nothing.
    is_compared = row["who"] == "tidegate" and row["workers"] == 1
    return [
        *cells,
        str(row["workers"]),
        f"{row['per_second']:,.0f}",
        f"{row['median_per_second']:,.0f}",
        *(_times(row["per_second"], _rate_of(rows, peer)) if is_compared else "" for peer in peers),
        f"{row['cpu_us']:.1f}",
        f"{half['per_second']:,.0f}" if half else "",
        *waits,
        median_ms(half),
        late_ms(half),
        stood(half),
        calm(half),
    ]


def median_ms(half: dict[str, Any] | None) -> str:
    """Return the median of the p99 of all runs at half load."""
    return f"{half['median_p99_us'] / 1e3:.2f}" if half else ""


def late_ms(half: dict[str, Any] | None) -> str:
    """Return how late the generator itself was at half load."""
    lag = (half or {}).get("lag_us")
    return f"{lag['99'] / 1e3:.2f}" if lag else ""


def noted(row: dict[str, Any]) -> str:
    """Return what a row is about, and how many of its runs failed."""
    failed = len(row.get("failures", []))
    return f"{row['note']} ({failed} runs failed)" if failed else str(row["note"])


def stood(half: dict[str, Any] | None) -> str:
    """Return for which share of the time a core stood still at half load, whoever was to be served there."""
    share = (half or {}).get("stood")
    return "" if share is None else f"{share:.1%}"


def calm(half: dict[str, Any] | None) -> str:
    """Return of how many seconds at half load the calls count, and of how many there are calls."""
    return f"{half['calm_s']:.1f} of {half['seconds']:.1f}" if half and half.get("calm_s") is not None else ""


def _steady(rows: list[dict[str, Any]]) -> tuple[list[str], Rows]:
    names = ("50", "90", "99", "99.9")
    cells = []
    for row in rows:
        if "missing" in row:
            cells.append([row["note"], f"not measured: {row['missing']}", *[""] * (2 + len(names))])
        else:
            waits = [f"{row['cuts_us'][name] / 1e3:.2f}" for name in names]
            cells.append([row["note"], f"{row['per_second']:,.0f}", f"{row['calls']:,}", f"{row['dropped']:,}", *waits])
    return ["what", "calls/s", "calls", "dropped by k6", *(f"p{name}, ms" for name in names)], cells


def _memory(memory: dict[str, Any]) -> tuple[list[str], Rows]:
    cells = []
    for row in memory["rows"]:
        clients, start = row["clients"], row["start"]
        cells.append([row["algorithm"], "started", "", f"{start / MIB:.1f}", ""])
        ends = _ends(row)
        for asked in sorted({1, 2, row["full_after"], max(ends)}):
            rss = ends[asked]
            cells.append([row["algorithm"], f"asked {asked} x", f"{clients:,}", f"{rss / MIB:.1f}", f"{(rss - start) / clients:.1f}"])
    return ["algorithm", "after all have", "clients", "resident, MiB", "bytes per client"], cells


def _find(rows: list[dict[str, Any]], who: str, note: str = "") -> dict[str, Any] | None:
    measured = (row for row in rows if "missing" not in row and row["workers"] == 1)
    return next((row for row in measured if row["who"] == who and note in {"", row["note"]}), None)


def _rate_of(rows: list[dict[str, Any]], who: str) -> float | None:
    row = _find(rows, who)
    return float(row["per_second"]) if row else None


def _rate(rows: list[dict[str, Any]], note: str) -> float | None:
    row = _find(rows, "tidegate", note)
    return float(row["per_second"]) if row else None


def _ratio(rows: list[dict[str, Any]], note: str, peer: str) -> float | None:
    own, other = _rate(rows, note), _rate_of(rows, peer)
    return own / other if own and other else None


def _half_ms(rows: list[dict[str, Any]], note: str) -> float | None:
    row = _find(rows, "tidegate", note)
    return float(row["half"]["cuts_us"]["99"]) / 1e3 if row and row["half"] else None


def _times(own: float, other: float | None) -> str:
    if other is None:
        return ""
    return f"{own / other:.1f} x" if own > 2 * other else f"{own / other:.0%}"


def _who(name: str) -> str:
    return f"**{name}**" if name == "tidegate" else name
