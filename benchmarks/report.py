"""The result page: the same tables as on the screen, as Markdown, with what has to be known to read them."""

from collections.abc import Iterator
from typing import Any

import control_report
import integrations_report
import proxy_report
import redis_report
import service_report
from bars import judge
from peers import PEERS
from prose import INTRODUCTION, NOTES, REPRODUCE

Rows = list[list[str]]
STYLES = ("allow", "check", "read")


def tables(results: dict[str, Any]) -> Iterator[tuple[str, list[str], Rows]]:
    """Yield title, header and rows of every table that this run has something for; the bars first."""
    bars = [[bar.what, bar.value_text, bar.target_text, f"**{bar.verdict}**"] for bar in judge(results)]
    if bars:
        yield "Bars", ["what", "measured", "bar", "verdict"], bars
    yield from _python(results.get("python") or {})
    yield from _rust(results.get("rust") or {})
    yield from _rules(results.get("rules") or {})
    yield from _tail(results.get("tail") or {})
    yield from _memory(results.get("memory") or {})
    yield from redis_report.tables(results.get("redis") or {})
    yield from service_report.tables(results.get("service") or {})
    yield from proxy_report.tables(results.get("proxy") or {})
    yield from control_report.tables(results.get("control") or {})
    yield from integrations_report.tables(results.get("integrations") or {})


def page(results: dict[str, Any]) -> str:
    """Return the whole page."""
    parts = ["# Benchmarks\n", INTRODUCTION.strip() + "\n", _machine(results), "![speed, tail and memory](results.svg)\n"]
    notes = dict(NOTES)
    for title, header, rows in tables(results):
        parts += [f"\n## {title}\n", _table(header, rows)]
        # Tables of one subject share one note, under the first of them.
        note = notes.pop(title.partition(":")[0], "")
        if note:
            parts.append(note.format(**_facts(results)).strip() + "\n")
        if title == "Service, gRPC in memory":
            parts.append("![the service: rates, latency and memory](service.svg)\n")
    parts.append(REPRODUCE.strip() + "\n")
    return "\n".join(parts)


def _python(section: dict[str, Any]) -> Iterator[tuple[str, list[str], Rows]]:
    rows = section.get("rows", [])
    for scenario in dict.fromkeys(row["scenario"] for row in rows):
        chosen = [row for row in rows if row["scenario"] == scenario]
        times = {(row["library"], row["style"]): row["median_ns"] for row in chosen}
        keys = chosen[0]["keys"]
        libraries = sorted(dict.fromkeys(row["library"] for row in chosen), key=lambda name: times[name, "allow"])
        header = ["library", *(text for style in STYLES for text in (f"`{style}`, ns", "M/s", "Tidegate is"))]
        title = f"Calls from Python: {scenario}" + (f" ({keys:,})" if keys > 1 else "")
        yield title, header, [_python_row(name, times) for name in libraries]


def _python_row(library: str, times: dict[tuple[str, str], float]) -> list[str]:
    is_own = library.startswith("tidegate")
    cells = [f"**{library}**" if is_own else library]
    for style in STYLES:
        taken, own = times.get((library, style)), times.get(("tidegate", style))
        if taken is None:
            cells += ["-", "-", ""]
        else:
            cells += [f"{taken:,.0f}", f"{1e3 / taken:.2f}", "" if is_own or own is None else f"{taken / own:.1f} x"]
    return cells


def _rust(section: dict[str, Any]) -> Iterator[tuple[str, list[str], Rows]]:
    if section.get("rows"):
        alone = {row["scenario"]: row["per_second"] for row in section["rows"] if row["threads"] == 1}
        yield (
            "The store in Rust",
            ["scenario", "threads", "ns per check and thread", "M checks/s", "against one thread"],
            [
                [
                    row["scenario"],
                    str(row["threads"]),
                    f"{1e9 * row['threads'] / row['per_second']:.1f}",
                    f"{row['per_second'] / 1e6:.2f}",
                    f"{row['per_second'] / alone[row['scenario']]:.2f} x",
                ]
                for row in section["rows"]
            ],
        )


def _rules(section: dict[str, Any]) -> Iterator[tuple[str, list[str], Rows]]:
    matching = (section.get("matching") or {}).get("rows", [])
    if matching:
        first = matching[0]["match_ns"]
        header = ["rules", "ns per request", "against the smallest set", "compiled in, ms"]
        yield (
            "Rules: matching, in Rust",
            header,
            [
                [f"{row['rules']:,}", f"{row['match_ns']:,.0f}", f"{row['match_ns'] / first:.2f} x", f"{row['compile_ms']:.1f}"]
                for row in matching
            ],
        )
    if section.get("loading"):
        header = ["rules", "seconds"]
        yield "Rules: loading a file", header, [[f"{row['rules']:,}", f"{row['seconds']:.2f}"] for row in section["loading"]]
    if section.get("checking"):
        header = ["request", "call", "ns", "M/s"]
        rows = [
            [row["scenario"], f"`{row['style']}`", f"{row['median_ns']:,.0f}", f"{1e3 / row['median_ns']:.2f}"]
            for row in section["checking"]
        ]
        yield f"Rules: requests from Python, {section['checking'][0]['rules']} rules", header, rows


def _tail(section: dict[str, Any]) -> Iterator[tuple[str, list[str], Rows]]:
    if section.get("rows"):
        names = [name for name in section["rows"][0]["stages"]["expire"]["all"] if name not in {"90", "99.999"}]
        yield (
            "Tail latency",
            [
                "library",
                "keys",
                "stage",
                "calls",
                *("max, µs" if name == "100" else f"p{name}, µs" for name in names),
                "preempted",
                "expired",
            ],
            [cells for row in section["rows"] for cells in _tail_rows(row, names)],
        )


def _tail_rows(row: dict[str, Any], names: list[str]) -> Iterator[list[str]]:
    library = "only computes" if row["library"] == "arithmetic" else f"{row['library']} `{row['style']}`"
    for stage, kinds in row["stages"].items():
        expired = f"{row['expired']:,}" if row["expired"] is not None and stage == "expire" else ""
        for kind, cuts in kinds.items():
            facts = [f"{row['preempted'][stage]:,}", expired] if kind == "all" else ["", ""]
            yield [library, f"{row['keys']:,}", stage, kind, *(f"{cuts[name] / 1e3:,.2f}" for name in names), *facts]


def _memory(section: dict[str, Any]) -> Iterator[tuple[str, list[str], Rows]]:
    if section.get("rows"):
        yield (
            "Bytes per key",
            ["library", "algorithm", "checks per key", "keys", "resident bytes per key", "`stats().bytes` per key", "worst on the way"],
            [cells for row in section["rows"] for cells in _memory_rows(row)],
        )


def _memory_rows(row: dict[str, Any]) -> Iterator[list[str]]:
    # Below a twentieth of the keys, the steps of the allocator are larger than what is measured.
    worst = max(sample["rss"] for sample in row["samples"])
    for sample in row["samples"]:
        if sample["keys"] in {1_000_000, row["keys"]}:
            yield [
                f"**{row['library']}**" if row["library"] == "tidegate" else row["library"],
                row["algorithm"] or next(peer.note for peer in PEERS if peer.name == row["library"]),
                str(row["checks"]),
                f"{sample['keys']:,}",
                f"{sample['rss']:.1f}",
                "" if sample["claimed"] is None else f"{sample['claimed']:.1f}",
                f"{worst:.1f}" if sample["keys"] == row["keys"] else "",
            ]


def _machine(results: dict[str, Any]) -> str:
    facts = results["machine"]
    packages = ", ".join(f"`{name}` {version}" for name, version in facts["packages"].items())
    quick = "\n**This was a quick run: the numbers only show that everything works.**\n" if results["quick"] else ""
    # Subjects that were measured again stand beside others of another day, and perhaps of another machine.
    runs: dict[str, list[str]] = {}
    for subject, where in results.get("machines", {}).items():
        machine = f"{where['cpu']}, {where['cores']} cores, {where['memory_gib']} GiB, {where['system']}"
        runs.setdefault(f"{where['date']}, load {where['load']}, {machine}", []).append(subject)
    measured = "".join(f"- Measured on {run}: {', '.join(subjects)}\n" for run, subjects in runs.items())
    return f"{measured}- Versions: {facts['python']}, {facts['rustc'] or 'no rustc'}, {packages}\n{quick}"


def _table(header: list[str], rows: Rows) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _facts(results: dict[str, Any]) -> dict[str, str]:
    python, tail = results.get("python") or {}, results.get("tail") or {}
    spread = max(((row["high_ns"] - row["low_ns"]) / row["median_ns"] / 2 for row in python.get("rows", [])), default=0.0)
    clock = next((row["clock_ns"] for row in tail.get("rows", [])), 0)
    return {
        "loop_ns": f"{python.get('loop_ns', 0):.1f}",
        "rounds": str(python.get("rounds", 0)),
        "turn_ms": f"{1e3 * python.get('turn_s', 0):.0f}",
        "spread": f"{spread:.0%}",
        "clock_ns": str(clock),
        **redis_report.facts(results.get("redis") or {}),
        **service_report.facts(results.get("service") or {}),
        **proxy_report.facts(results.get("proxy") or {}),
        **integrations_report.facts(results.get("integrations") or {}),
    }
