"""
Draws the pictures of docs/concepts from what the library decides: no point in them is made by hand.

    .venv/bin/python docs/make_pictures.py           draws all pictures into docs/pictures/
    .venv/bin/python docs/make_pictures.py --check   fails if a committed picture shows other decisions than the library takes now

All algorithms see the same requests, on a `ManualClock`. Each SVG carries a digest of its data, so the check does not depend on the version
of matplotlib.
"""  # noqa: INP001  # a script in a folder, not a package

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate import Limiter
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDER = Path(__file__).parent / "pictures"

LIMIT = 20
WINDOW = 60.0
END = 240.0
STARTED_TRAILING = "started in the last 60 s"

SLOTS = 4
DIES_AT = 20
DEAD_FOR = 30
HELD = "slots held"

# Colours of Okabe and Ito, which people with any kind of colour vision can tell apart.
ALLOWED, DENIED, STARTED, INK, FAINT = "#0072B2", "#D55E00", "#009E73", "#333333", "#9a9a9a"
STYLE = {
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "font.size": 11,
    "savefig.facecolor": "white",
    "svg.fonttype": "none",  # half the size, and text that can be found
    "svg.hashsalt": "tidegate",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True, slots=True)
class Request:
    """
    One request and what became of it.

    Args:
        at: When it came, in seconds.
        is_allowed: What the library said.
        start: When it may start: later than `at` in a queue. `None` when denied.
    """

    at: float
    is_allowed: bool
    start: float | None


@dataclass(frozen=True, slots=True)
class Level:
    """
    A number that holds from an instant on.

    Args:
        at: From when on, in seconds.
        value: How much is used.
    """

    at: float
    value: int


@dataclass(frozen=True, slots=True)
class Run:
    """
    All that a picture shows of one quota.

    Args:
        quota: The quota as people write it.
        limit: Where the line is drawn.
        requests: Every request.
        levels: What was used, as steps.
        measure: What the steps count.
    """

    quota: str
    limit: int
    requests: tuple[Request, ...]
    levels: tuple[Level, ...]
    measure: str

    @property
    def most(self) -> int:
        """The highest step."""
        return max(level.value for level in self.levels)


def arrivals() -> list[float]:
    """
    The requests that every algorithm sees: two a second around the full minute, then twice the limit.

    Returns:
        Seconds.
    """
    burst = [50 + index / 2 for index in range(40)]
    overload = [70 + index * 1.5 for index in range(113)]
    return burst + overload


def rate_run(quota: str) -> Run:
    """
    Asks a limiter for every arrival.

    Args:
        quota: The quota.

    Returns:
        What it decided, and how many requests started in the minute up to each instant.
    """
    clock = ManualClock()
    limiter = Limiter(quota, clock=clock)
    requests = []
    now = 0.0
    for at in arrivals():
        clock.advance_ns(round((at - now) * 1e9))
        now = at
        decision = limiter.check("client")
        requests.append(Request(at, decision.allowed, round(at + decision.delay, 9) if decision.allowed else None))
    starts = sorted(request.start for request in requests if request.start is not None)
    return Run(quota, LIMIT, tuple(requests), trailing(starts), STARTED_TRAILING)


def trailing(starts: Sequence[float]) -> tuple[Level, ...]:
    """
    Counts what lies in the half-open window (t - 60 s, t].

    Args:
        starts: When requests started, in order.

    Returns:
        The count after each instant at which it changes.
    """
    changes: dict[float, int] = {}
    for start in starts:
        changes[start] = changes.get(start, 0) + 1
        changes[start + WINDOW] = changes.get(start + WINDOW, 0) - 1
    levels, value = [Level(0.0, 0)], 0
    for at in sorted(changes):
        value += changes[at]
        levels.append(Level(at, value))
    return tuple(levels)


def slot_run(quota: str) -> Run:
    """
    Asks for a slot every second, later every other. Each holder keeps it for six seconds, but one dies with it.

    Args:
        quota: A concurrent quota.

    Returns:
        What was decided, and how many slots were held.
    """
    clock = ManualClock()
    limiter = Limiter(quota, clock=clock)
    held: dict[int, str] = {}
    requests, levels = [], [Level(0.0, 0)]
    for second in range(75):
        if lease := held.pop(second, None):
            limiter.release("client", lease)
        if second in slot_arrivals():
            decision = limiter.check("client")
            if decision.lease and second != DIES_AT:
                held[second + 6] = decision.lease
            requests.append(Request(float(second), decision.allowed, float(second) if decision.allowed else None))
        peeked = limiter.peek("client")
        levels.append(Level(float(second), (peeked.limit or 0) - (peeked.remaining or 0)))
        clock.advance(1)
    return Run(quota, SLOTS, tuple(requests), tuple(levels), HELD)


def slot_arrivals() -> list[int]:
    """
    The requests that ask for slots.

    Returns:
        Seconds.
    """
    return [*range(5, 45), *range(45, 75, 2)]


# One picture per page of docs/concepts, by the name of the page.
PAGES: dict[str, Callable[[], list[Run]]] = {
    "sliding_window": lambda: [rate_run("20/minute")],
    "sliding_window_log": lambda: [rate_run("20/minute sliding_window_log")],
    "sliding_window_counter": lambda: [rate_run("20/minute sliding_window_counter")],
    "sliding_window_counter_buckets": lambda: [rate_run("20/minute sliding_window_counter buckets 6")],
    "fixed_window": lambda: [rate_run("20/minute fixed_window")],
    "gcra": lambda: [rate_run("20/minute burst 5")],
    "leaky_bucket": lambda: [rate_run("20/minute queue 15s")],
    "concurrency": lambda: [slot_run("4 concurrent ttl 30s")],
    "which_one": lambda: [
        rate_run(quota)
        for quota in (
            "20/minute",
            "20/minute sliding_window_log",
            "20/minute sliding_window_counter",
            "20/minute sliding_window_counter buckets 6",
            "20/minute fixed_window",
            "20/minute gcra",
            "20/minute burst 5",
            "20/minute queue 15s",
        )
    ],
}


def draw_page(figure: Figure, run: Run) -> None:
    """
    Requests above, what is used below.

    Args:
        figure: Where to.
        run: What to show.
    """
    figure.set_size_inches(8.4, 4.6)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1, 2.1])
    figure.suptitle(run.quota, x=0.01, ha="left", fontsize=13, fontweight="bold")
    draw_requests(top, run)
    draw_levels(bottom, run)
    bottom.set_ylabel(run.measure)
    bottom.set_xlabel("time in seconds; dotted lines are full minutes")
    if run.measure == HELD:
        mark_death(bottom)
        bottom.set_xlabel("time in seconds")


def draw_requests(axes: Axes, run: Run) -> None:
    """
    A row of dots for what was allowed and one for what was denied; for a queue, a third for the starts.

    Args:
        axes: Where to.
        run: What to show.
    """
    allowed = [request for request in run.requests if request.is_allowed]
    denied = [request for request in run.requests if not request.is_allowed]
    rows: list[tuple[str, list[float], str, str]] = [
        (f"denied ({len(denied)})", [request.at for request in denied], "x", DENIED),
        (f"allowed ({len(allowed)})", [request.at for request in allowed], "o", ALLOWED),
    ]
    if any(request.start != request.at for request in allowed):
        starts = [request.start for request in allowed if request.start is not None]
        rows.append(("starts", [start for start in starts if start <= END], "^", STARTED))
    for height, (_, times, marker, colour) in enumerate(rows):
        axes.plot(times, [height] * len(times), marker, color=colour, markersize=4, markeredgewidth=1.1, clip_on=False)
    axes.set_yticks(range(len(rows)), [label for label, *_ in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0, labelbottom=False)
    mark_minutes(axes, run)


def draw_levels(axes: Axes, run: Run) -> None:
    """
    Steps of what is used, with the limit as a line.

    Args:
        axes: Where to.
        run: What to show.
    """
    end = end_of(run)
    colour = DENIED if run.most > run.limit else INK
    most = f"most at once: {run.most}" if run.measure == HELD else f"most in any 60 s: {run.most}"
    axes.fill_between(*corners(run, 0, run.limit), step="post", color=ALLOWED, alpha=0.15, linewidth=0)
    if run.most > run.limit:
        axes.fill_between(*corners(run, run.limit, run.most), run.limit, step="post", color=DENIED, alpha=0.3, linewidth=0)
    axes.step(*corners(run, 0, run.most), where="post", color=ALLOWED, linewidth=1.6)
    axes.axhline(run.limit, color=INK, linewidth=1.3, linestyle="--")
    axes.annotate(f"limit {run.limit}", (end, run.limit), (5, 0), textcoords="offset points", va="center", annotation_clip=False)
    axes.text(0.012, 0.97, most, transform=axes.transAxes, va="top", fontweight="bold", color=colour)
    axes.set_xlim(0, end)
    axes.set_ylim(0, run.limit * (1.75 if run.measure == HELD else 2.3))
    mark_minutes(axes, run)


def corners(run: Run, low: int, high: int) -> tuple[list[float], list[int]]:
    """
    The steps between two heights, without those that change nothing there: half of the size of the file.

    Args:
        run: What is shown.
        low: Lower values are raised to it.
        high: Higher values are lowered to it.

    Returns:
        Times and values, up to the end of the axis.
    """
    times, values = [0.0], [low]
    for level in run.levels:
        value = min(max(level.value, low), high)
        if value != values[-1] and level.at <= end_of(run):
            times.append(level.at)
            values.append(value)
    return [*times, end_of(run)], [*values, values[-1]]


def mark_minutes(axes: Axes, run: Run) -> None:
    """
    Dotted lines where a new minute begins; slots know no minutes.

    Args:
        axes: Where to.
        run: What is shown.
    """
    if run.measure != HELD:
        axes.set_xticks(range(0, round(end_of(run)) + 1, 30))
        for minute in range(60, round(end_of(run)), 60):
            axes.axvline(minute, color=FAINT, linewidth=0.9, linestyle=":", zorder=0)


def mark_death(axes: Axes) -> None:
    """
    Says what happens to the slot of the holder that dies.

    Args:
        axes: Where to.
    """
    until = DIES_AT + DEAD_FOR
    axes.fill_between([DIES_AT, until], [1, 1], color=DENIED, alpha=0.35, linewidth=0)
    axes.text((DIES_AT + until) / 2, 0.5, "slot of a holder that died", ha="center", va="center")
    axes.text(until + 1, 0.5, "its lease ended after 30 s", ha="left", va="center")


def draw_comparison(figure: Figure, runs: Sequence[Run]) -> None:
    """
    One small plot for each quota, all with the same axes.

    Args:
        figure: Where to.
        runs: What to show.
    """
    figure.set_size_inches(10, 9.2)
    grid = figure.subplots((len(runs) + 1) // 2, 2, sharex=True, sharey=True)
    for axes, run in zip(grid.flat, runs, strict=True):
        draw_levels(axes, run)
        axes.set_title(run.quota, fontweight="bold", fontsize=11)
    for axes in grid[:, 0]:
        axes.set_ylabel("started in last 60 s")
    for axes in grid[-1]:
        axes.set_xlabel("time in seconds")


def end_of(run: Run) -> float:
    """
    Where the time axis ends.

    Args:
        run: What is shown.

    Returns:
        Seconds.
    """
    return run.levels[-1].at if run.measure == HELD else END


def digest(runs: Iterable[Run]) -> str:
    """
    A fingerprint of the data.

    Args:
        runs: All that a picture shows.

    Returns:
        Hexadecimal digits.
    """
    data = json.dumps([asdict(run) for run in runs], sort_keys=True)
    return hashlib.sha256(data.encode()).hexdigest()


def draw(name: str, runs: list[Run], folder: Path, form: str) -> Path:
    """
    Draws one picture.

    Args:
        name: The page.
        runs: What to show.
        folder: Where to.
        form: `svg` or `png`.

    Returns:
        The file.
    """
    # The check needs no drawing, and so nobody has to install what draws.
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    path = folder / f"{name}.{form}"
    with mpl.rc_context(STYLE):
        figure = Figure(layout="constrained")
        if len(runs) == 1:
            draw_page(figure, runs[0])
        else:
            draw_comparison(figure, runs)
        metadata: dict[str, Any] = {"Creator": "docs/make_pictures.py", "Date": None, "Description": f"data {digest(runs)}"}
        figure.savefig(path, format=form, dpi=110, metadata=metadata if form == "svg" else None)
    return path


def is_current(name: str, runs: list[Run]) -> bool:
    """
    Compares a committed picture with the decisions of now.

    Args:
        name: The page.
        runs: What it should show.

    Returns:
        Whether it shows them.
    """
    path = FOLDER / f"{name}.svg"
    return path.exists() and f"data {digest(runs)}" in path.read_text(encoding="utf-8")


def main() -> int:
    """
    Draws or checks.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description="Draws the pictures of docs/concepts from what the library decides.")
    parser.add_argument("--check", action="store_true", help="fail if a committed picture shows other decisions")
    parser.add_argument("--png", type=Path, metavar="FOLDER", help="draw PNG into a folder instead, to look at")
    arguments = parser.parse_args()
    stale = 0
    for name, make in PAGES.items():
        runs = make()
        if not arguments.check:
            path = draw(name, runs, arguments.png or FOLDER, "png" if arguments.png else "svg")
            sys.stdout.write(f"{path}\n")
        elif not is_current(name, runs):
            stale += 1
            sys.stderr.write(f"error: docs/pictures/{name}.svg does not show what the library decides\n")
    if stale:
        sys.stderr.write("hint: run .venv/bin/python docs/make_pictures.py, look at the pictures and commit them\n")
    return min(stale, 1)


if __name__ == "__main__":
    sys.exit(main())
