"""
Draws docs/pictures/failover.svg: what three processes admit while a primary is killed and a replica takes over.

    .venv/bin/python docs/make_failover_picture.py --measure       breaks real servers, and writes docs/pictures/failover.json
    .venv/bin/python docs/make_failover_picture.py                 draws what was measured
    .venv/bin/python docs/make_failover_picture.py --png FOLDER    draws PNG into a folder instead, to look at

Each policy has servers of its own: a primary, a replica, three sentinels. The machine should have nothing else to do.
"""  # noqa: INP001  # a script in a folder, not a package

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from make_pictures import ALLOWED, DENIED, FAINT, FOLDER, INK, STYLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TESTS = Path(__file__).parent.parent / "tests"
DATA = FOLDER / "failover.json"

POLICIES = ("local", "allow", "deny")
PROCESSES = 3
QUOTA, PER_BUCKET = "600/second burst 60", 60
BUDGET_MS = 5
BUCKET_S = 0.1
KILL_S, END_S = 2.0, 8.0
WARM_S = 1.0
DEGRADED = "#E69F00"

Row = dict[str, float]


def measure(policy: str) -> dict[str, Any]:
    """
    Lets three processes ask about one key, kills the primary, and sees what they got.

    Args:
        policy: What they do without the store.

    Returns:
        One row for each tenth of a second, and when the replica had taken over.
    """
    sys.path[:0] = [str(TESTS), str(TESTS / "redis")]
    from fault_worker import Worker  # noqa: PLC0415  # those who only draw need no servers
    from servers import Sentinel  # noqa: PLC0415

    with Sentinel() as servers, ExitStack() as stack:
        workers = [stack.enter_context(Worker()) for _ in range(PROCESSES)]
        for worker in workers:
            worker.ask("open", {"quotas": QUOTA, "store": servers.url(), "on_store_error": policy})
        wait_until(lambda: all(worker.ask("health")["instances"] == PROCESSES for worker in workers))
        for worker in workers:
            worker.ask("load", ["client"])
        # The first second is not shown: a burst that nobody has used, and processes that warm up.
        start = perf_counter() + WARM_S
        wait_until(lambda: perf_counter() >= start + KILL_S)
        killed = perf_counter()
        old = servers.kill_primary()
        servers.wait_for_new_primary(old)
        taken_over = perf_counter()
        wait_until(lambda: perf_counter() >= start + END_S)
        seen = [one for worker in workers for one in worker.stop()]
    buckets: dict[int, list[Any]] = {}
    for one in seen:
        buckets.setdefault(int((one.start - start) // BUCKET_S), []).append(one)
    rows = [row(number, buckets.get(number, [])) for number in range(round(END_S / BUCKET_S))]
    return {"rows": rows, "killed": round(killed - start, 3), "taken_over": round(taken_over - start, 3), "reasons": reasons(seen)}


def row(number: int, ones: list[Any]) -> Row:
    """
    What became of the requests of a tenth of a second.

    Args:
        number: Which one.
        ones: The decisions.

    Returns:
        Numbers to draw.
    """
    took = sorted(one.took for one in ones)
    return {
        "at": round(number * BUCKET_S, 1),
        "asked": len(ones),
        "admitted": sum(one.is_allowed for one in ones),
        "degraded": sum(one.reason is not None for one in ones),
        "p99_ms": round(took[int(len(took) * 0.99)] * 1000, 4) if took else 0.0,
    }


def reasons(seen: list[Any]) -> dict[str, int]:
    """
    Decisions by reason.

    Args:
        seen: All decisions.

    Returns:
        How many of each; those of the store under `store`.
    """
    return dict(Counter(one.reason or "store" for one in seen).most_common())


def wait_until(condition: Callable[[], bool]) -> None:
    """
    Polls.

    Args:
        condition: What must come true.

    Raises:
        TimeoutError: It did not.
    """
    from servers.waiting import until  # noqa: PLC0415  # as above

    until(condition, 30, "the processes are ready")


def draw(figure: Figure, data: dict[str, Any]) -> None:
    """
    One column for each policy: what was admitted, and below how long it took.

    Args:
        figure: Where to.
        data: What was measured.
    """
    figure.set_size_inches(10, 5.6)
    grid = figure.subplots(2, len(POLICIES), sharex=True, sharey="row", height_ratios=[1.8, 1])
    for column, policy in enumerate(POLICIES):
        story = data[policy]
        top, bottom = grid[:, column]
        draw_admitted(top, story, policy)
        draw_latency(bottom, story["rows"])
        for axes in (top, bottom):
            for at in (story["killed"], story["taken_over"]):
                axes.axvline(at, color=INK, linewidth=1, linestyle=":")
            axes.set_xlim(0, END_S)
    grid[0, 0].set_ylabel("requests in 0.1 s")
    grid[1, 0].set_ylabel("p99 in ms")
    grid[1, 1].set_xlabel("time in seconds")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=10, frameon=False)


def draw_admitted(axes: Axes, story: dict[str, Any], policy: str) -> None:
    """
    What was asked and admitted, with the limit as a line; shaded where the store did not decide.

    Args:
        axes: Where to.
        story: What was measured.
        policy: Its name.
    """
    rows: list[Row] = story["rows"]
    times = [one["at"] for one in rows]
    top = PER_BUCKET * 2.75
    shade = [top * one["degraded"] / max(1, one["asked"]) for one in rows]
    axes.fill_between(times, shade, step="post", color=DEGRADED, alpha=0.25, linewidth=0, label="share decided without the store")
    axes.step(times, [one["asked"] for one in rows], where="post", color=FAINT, linewidth=1, label="asked")
    axes.step(times, [one["admitted"] for one in rows], where="post", color=ALLOWED, linewidth=1.8, label="admitted")
    axes.axhline(PER_BUCKET, color=DENIED, linewidth=1.3, linestyle="--", label=f"limit: {QUOTA.partition(' ')[0]}")
    axes.set_ylim(0, top)
    axes.set_title(f"on_store_error: {policy}", fontweight="bold", fontsize=11)
    axes.annotate("primary\nkilled", (story["killed"], top), (-4, -2), textcoords="offset points", va="top", ha="right", fontsize=9)
    axes.annotate("replica\ntook over", (story["taken_over"], top), (4, -2), textcoords="offset points", va="top", ha="left", fontsize=9)


def draw_latency(axes: Axes, rows: list[Row]) -> None:
    """
    How long decisions took.

    Args:
        axes: Where to.
        rows: What was measured.
    """
    axes.step([one["at"] for one in rows], [one["p99_ms"] for one in rows], where="post", color=INK, linewidth=1.3)
    axes.set_yscale("log")
    axes.set_ylim(0.008, 30)
    axes.set_yticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    axes.minorticks_off()
    axes.axhline(BUDGET_MS, color=DENIED, linewidth=1.1, linestyle="--")
    axes.text(END_S - 0.1, BUDGET_MS * 1.2, f"budget {BUDGET_MS} ms", ha="right", va="bottom", fontsize=9)


def main() -> int:
    """
    Measures or draws.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description="Draws docs/pictures/failover.svg.")
    parser.add_argument("--measure", action="store_true", help="break real servers, and keep what was seen")
    parser.add_argument("--png", type=Path, metavar="FOLDER", help="draw PNG into a folder instead, to look at")
    arguments = parser.parse_args()
    if arguments.measure:
        measured = {policy: measure(policy) for policy in POLICIES}
        lines = (f"{json.dumps(policy)}: {json.dumps(story)}" for policy, story in measured.items())
        DATA.write_text("{" + ",\n".join(lines) + "}\n")
        sys.stdout.write("".join(f"{policy}: {story['reasons']}\n" for policy, story in measured.items()))

    import matplotlib as mpl  # noqa: PLC0415  # who only measures need not have it
    from matplotlib.figure import Figure  # noqa: PLC0415

    form = "png" if arguments.png else "svg"
    path = (arguments.png or FOLDER) / f"failover.{form}"
    with mpl.rc_context(STYLE):
        figure = Figure(layout="constrained")
        draw(figure, json.loads(DATA.read_text()))
        metadata: dict[str, Any] = {"Creator": "docs/make_failover_picture.py", "Date": None}
        figure.savefig(path, format=form, dpi=110, metadata=metadata if form == "svg" else None)
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
