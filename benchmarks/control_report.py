"""The tables and the bars of the control plane."""

from collections.abc import Iterator
from statistics import median
from typing import Any

from service_report import Promise, Rows, Table
from service_report import speed as speed_table


def tables(section: dict[str, Any]) -> Iterator[Table]:
    """Yield title, header and rows of what was measured."""
    if section.get("dashboards"):
        yield "Control plane, what people cost decisions", *_dashboards(section["dashboards"])
    if section.get("members"):
        yield "Control plane, quotas of customers", *_members(section["members"])
    if section.get("events"):
        yield "Control plane, what events cost", *speed_table(section["events"]["rows"])


def promises(section: dict[str, Any]) -> Iterator[Promise]:
    """Yield the bars of the control plane, also those that this machine could not measure."""
    if not section or "skipped" in section:
        return
    yield (
        "checks with ten dashboards open and an import of rules running, of those without",
        _share(section["dashboards"]),
        "%",
        95.0,
        False,
    )
    members = section["members"]
    yield f"loading {members['members']:,} overrides from the database into force", members["seconds"], "s", 5.0, True
    without, member, _ = members["check_ns"].values()
    yield f"a check from Python of a key among {members['members']:,} overrides, against none", member / without, "x", 1.1, True
    yield f"added to a check by {members['members']:,} overrides, of what the service takes for one", _added(section), "%", 1.0, True


def _added(section: dict[str, Any]) -> float | None:
    """Return what is added in Rust to a check from Python, of the processor time of a check over HTTP."""
    service = next((row["cpu_us"] for row in section["events"]["rows"] if "missing" not in row), None)
    without, member, _ = section["members"]["check_ns"].values()
    return None if service is None else 100 * (member - without) / (1e3 * service)


def _share(section: dict[str, Any]) -> float | None:
    return 100 * section["share"] if section["shares"] else None


def _dashboards(section: dict[str, Any]) -> tuple[list[str], Rows]:
    header = [
        "while",
        "checks/s",
        "median",
        "of those without",
        "CPU of the worker, µs a check",
        "CPU of the process, µs a check",
        "pages",
        "median of a page, ms",
        "rules imported",
    ]
    crowds = [crowd for crowd in section["crowds"] if crowd.get("pages")]
    cells = []
    for number, row in enumerate(section["rows"]):
        if "missing" in row:
            cells.append([row["note"], f"not measured: {row['missing']}", *[""] * 7])
            continue
        share = _share(section) if number else None
        people = [""] * 3
        if number and crowds:
            pages, rules = (sum(crowd[name] for crowd in crowds) for name in ("pages", "rules"))
            people = [f"{pages:,}", f"{median(crowd['page_ms'] for crowd in crowds):,.0f}", f"{rules:,}"]
        rates = [f"{row['per_second']:,.0f}", f"{row['median_per_second']:,.0f}", "" if share is None else f"{share:.1f}%"]
        cells.append([row["note"], *rates, f"{section['worker_us'][row['note']]:.2f}", f"{row['cpu_us']:.1f}", *people])
    return header, cells


def _members(section: dict[str, Any]) -> tuple[list[str], Rows]:
    rows = [
        ["read from SQLite, and made a document", f"{section['read_seconds']:.2f} s"],
        ["loaded by the engine", f"{section['load_seconds']:.2f} s"],
        *([f"`RuleLimiter.allow`, {name}", f"{taken:,.0f} ns"] for name, taken in section["check_ns"].items()),
    ]
    return [f"{section['members']:,} overrides", "taken"], rows
