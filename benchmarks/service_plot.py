"""The picture of the service: rates beside others, latency at half load, and memory while clients come."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from machine import of_subject
from matplotlib.axes import Axes
from service_report import MIB

OWN, OTHER, BAR, SECOND = "#0b6e99", "#9aa5ab", "#c0392b", "#d9822b"
CUTS = ("50", "90", "99", "99.9")


def has_something(results: dict[str, Any]) -> bool:
    """Whether the service was measured in this run."""
    return "grpc" in (results.get("service") or {})


def draw(results: dict[str, Any], path: Path) -> None:
    """Writes the plot as SVG, with a PNG beside it for people who only look."""
    section, machine = results["service"], of_subject(results, "service")
    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "tidegate", "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(2, 2, figsize=(12, 8.4), layout="constrained")
    rows = [*_named(section["grpc"], "in memory"), *_named(section["redis"], "on Redis")]
    _rates(axes[0, 0], rows, "gRPC, `ShouldRateLimit`, 8 connections x 10 streams")
    _rates(axes[0, 1], _named(section["http"], ""), "HTTP, 64 connections")
    _latency(axes[1, 0], section)
    _memory(axes[1, 1], section["memory"])
    figure.suptitle(f"The service, generator on the other core: {machine['cpu']}, {machine['cores']} cores, {machine['date']}", fontsize=11)
    figure.savefig(path, metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=130)
    plt.close(figure)


def _named(part: dict[str, Any], where: str) -> list[dict[str, Any]]:
    measured = [row for row in part["rows"] if "missing" not in row]
    return [{**row, "name": _name(row, where)} for row in measured]


def _name(row: dict[str, Any], where: str) -> str:
    threads = "2 threads" if row["workers"] == 2 else ""
    place = "" if row["who"] == "grpcio.aio" else where
    return f"{row['who']}\n" + ", ".join(filter(None, (row["note"].replace("`", ""), place, threads)))


def _rates(axis: Axes, rows: list[dict[str, Any]], title: str) -> None:
    rows = sorted(rows, key=lambda row: row["per_second"])
    for position, row in enumerate(rows):
        rate = row["per_second"] / 1e3
        axis.barh(position, rate, height=0.7, color=OWN if row["who"] == "tidegate" else OTHER)
        axis.text(rate, position, f" {rate:,.1f}", va="center", fontsize=8)
    axis.set_yticks(range(len(rows)), [row["name"] for row in rows])
    axis.margins(x=0.12)
    axis.set_xlabel("thousand calls per second (more is better)")
    axis.set_title(title)


def _latency(axis: Axes, section: dict[str, Any]) -> None:
    for part, label in (("grpc", "gRPC in memory"), ("redis", "gRPC on Redis"), ("http", "HTTP")):
        for row in section[part]["rows"]:
            if row["who"] not in {"tidegate", "nginx"} or not row.get("half") or row["workers"] > 1:
                continue
            waits = [row["half"]["cuts_us"][name] / 1e3 for name in CUTS]
            if row["who"] == "nginx":
                # It has nothing to decide: what the machine allows.
                axis.plot(waits, color=OTHER, linestyle=":", linewidth=2, label=f"HTTP, nginx with {row['note']}")
            else:
                axis.plot(waits, marker="o", markersize=4, label=f"{label}, {row['note']}")
    for bar, name in ((1.0, "memory"), (5.0, "Redis")):
        axis.axhline(bar, color=BAR, linewidth=1, linestyle="--")
        axis.text(3, bar * 1.06, f"bar at p99, {name}: {bar:g} ms", color=BAR, fontsize=8, ha="right")
    axis.set_xticks(range(len(CUTS)), [f"p{name}" for name in CUTS])
    axis.set_yscale("log")
    axis.set_ylabel("latency, ms (log scale)")
    axis.set_title("One core at half of its highest rate")
    if axis.lines:
        axis.legend(fontsize=7, loc="upper left")
        axis.set_ylim(top=axis.get_ylim()[1] * 20)  # Room for the legend above the lines.


def _memory(axis: Axes, memory: dict[str, Any]) -> None:
    for row, color in zip(memory["rows"], (OWN, SECOND), strict=False):
        checks = [((sample["asked"] - 1) * row["clients"] + sample["clients"]) / 1e6 for sample in row["samples"]]
        points = [sample["rss"] / MIB for sample in row["samples"]]
        axis.plot([0, *checks], [row["start"] / MIB, *points], color=color, label=row["algorithm"])
    axis.axvline(memory["rows"][0]["clients"] / 1e6, color=OTHER, linewidth=1, linestyle=":")
    axis.set_ylim(bottom=0)
    axis.set_xlabel("checks, millions (dotted: every client has asked once)")
    axis.set_ylabel("resident memory of the service, MiB")
    axis.set_title(f"{memory['rows'][0]['clients']:,} clients")
    axis.legend(fontsize=8, loc="lower right")
