"""The picture of a run: speed, tail and size side by side."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from machine import of_subject
from matplotlib.axes import Axes

OWN, OTHER, BAR = "#0b6e99", "#9aa5ab", "#c0392b"
PALETTE = {"tidegate": OWN, "rust-py-rate-limit": "#d9822b", "limits": "#7a5195", "arithmetic": "#b8c0c4"}


def draw(results: dict[str, Any], path: Path) -> None:
    """Writes the plot as SVG, with a PNG beside it for people who only look."""
    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "tidegate", "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(2, 2, figsize=(12, 8.4), layout="constrained")
    _speed(axes[0, 0], results, "allow", "Only the bool (`allow`)")
    _speed(axes[0, 1], results, "check", "The full answer (`check`)")
    _tail(axes[1, 0], results)
    _memory(axes[1, 1], results)
    machine = of_subject(results, "python")
    figure.suptitle(f"Tidegate in memory, one thread: {machine['cpu']}, {machine['python']}, {machine['date']}", fontsize=11)
    figure.savefig(path, metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=130)
    plt.close(figure)


def _speed(axis: Axes, results: dict[str, Any], style: str, title: str) -> None:
    rows = [row for row in (results.get("python") or {}).get("rows", []) if row["style"] == style and " " not in row["library"]]
    scenarios = [name for name in ("random keys", "hot key") if any(row["scenario"] == name for row in rows)]
    libraries = sorted({row["library"] for row in rows}, key=lambda name: _fastest(rows, name), reverse=True)
    for offset, scenario in enumerate(scenarios):
        for position, library in enumerate(libraries):
            for row in rows:
                if (row["library"], row["scenario"]) == (library, scenario):
                    rate = 1e3 / row["median_ns"]
                    height = position + 0.2 - 0.4 * offset
                    color = OWN if library == "tidegate" else OTHER
                    axis.barh(height, rate, height=0.36, color=color, alpha=1 if scenario == "hot key" else 0.6)
                    axis.text(rate * 1.06, height, f"{rate:.2f}  {scenario}", va="center", fontsize=8)
    axis.set_yticks(range(len(libraries)), libraries)
    axis.set_xscale("log")
    axis.set_xlim(0.03, 60)
    axis.set_xlabel("million calls per second (log scale; more is better)")
    axis.set_title(title)


def _fastest(rows: list[dict[str, Any]], library: str) -> float:
    return min(float(row["median_ns"]) for row in rows if row["library"] == library)


def _tail(axis: Axes, results: dict[str, Any]) -> None:
    section = results.get("tail") or {"rows": []}
    names = list(section["rows"][0]["stages"]["expire"]["all"]) if section["rows"] else []
    for row in section["rows"]:
        cuts = row["stages"]["expire"]["all"]
        label = (
            "a call that only computes (noise of the machine)"
            if row["library"] == "arithmetic"
            else f"{row['library']}, {row['keys'] / 1e6:g} M keys"
        )
        axis.plot([cuts[name] / 1e3 for name in names], marker="o", markersize=4, label=label, color=PALETTE.get(row["library"]))
        if row["library"] == "tidegate":
            calm = row["stages"]["expire"]["undisturbed"]
            axis.plot([calm[name] / 1e3 for name in names], linestyle=":", color=OWN, label="the same, undisturbed by the kernel")
    axis.set_xticks(range(len(names)), ["max" if name == "100" else f"p{name}" for name in names])
    axis.axhline(100, color=BAR, linewidth=1, linestyle="--")
    if "99.99" in names:
        axis.axvline(names.index("99.99"), color=BAR, linewidth=1, linestyle=":")
    axis.text(0, 115, "bar: 100 µs at p99.99", color=BAR, fontsize=8)
    axis.set_yscale("log")
    axis.set_ylim(0.1, 2e7)  # Room for the legend above the lines.
    axis.set_xlabel("percentile of all calls")
    axis.set_ylabel("latency of one call, µs (log scale)")
    axis.set_title("While keys are inserted and as many expire")
    if section["rows"]:
        axis.legend(fontsize=8, loc="upper left")


def _memory(axis: Axes, results: dict[str, Any]) -> None:
    for row in (results.get("memory") or {"rows": []})["rows"]:
        if row["checks"] != 1:
            continue
        own = row["library"] == "tidegate"
        samples = [sample for sample in row["samples"] if sample["keys"] >= row["keys"] / 20]
        axis.plot(
            [sample["keys"] / 1e6 for sample in samples],
            [sample["rss"] for sample in samples],
            label=row["algorithm"] if own else row["library"],
            linestyle="-" if own else ":",
            linewidth=1.6,
        )
    axis.axhline(64, color=BAR, linewidth=1, linestyle="--")
    axis.set_xscale("log")
    axis.set_yscale("log")
    ticks = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
    axis.set_yticks(ticks, [str(tick) for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel("keys, millions (log scale)")
    axis.set_ylabel("resident bytes per key (log scale)")
    axis.set_title("Memory for keys seen once (dashed red: bar of 64 bytes)")
    if (results.get("memory") or {"rows": []})["rows"]:
        axis.legend(fontsize=7, ncols=2, loc="upper right")
