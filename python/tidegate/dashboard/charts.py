"""
Charts as SVG: pure functions from numbers to markup that is safe to put into a page.

The plot is a picture of 1000 x 100 units that is stretched to its place; everything that is read stands beside it as text, so that it keeps
its size on a phone. Every chart says in words what it shows, for who does not see it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from tidegate.dashboard import words
from tidegate.dashboard.scale import Scale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Format = Callable[[float], str]

WIDTH = 1000
HEIGHT = 100
_HITS_MAX = 60


@dataclass(frozen=True, slots=True)
class Series:
    """
    One line of a chart.

    Args:
        name: What it is called in the legend.
        kind: What it means, which gives its colour: `allowed`, `denied`, `shadow`, `degraded`, `p50`, `p95`, `p99` or `tide`.
        values: Oldest first; `None` is a gap.
    """

    name: str
    kind: str
    values: Sequence[float | None]

    @property
    def known(self) -> list[float]:
        """The values that are there."""
        return [value for value in self.values if value is not None]


@dataclass(frozen=True, slots=True)
class Axis:
    """
    How a chart is labelled.

    Args:
        title: What it shows, in words.
        times: Labels of the time axis, oldest first, evenly spaced.
        moments: One label per value, shown when it is pointed at.
        show: A value as text, with its unit.
        whole: Whether values are counts.
    """

    title: str
    times: Sequence[str] = ()
    moments: Sequence[str] = ()
    show: Format = words.count
    whole: bool = True


def line(series: Sequence[Series], axis: Axis) -> Markup:
    """
    Lines over time.
    """
    scale = Scale.above(max((max(one.known, default=0) for one in series), default=0), whole=axis.whole)
    paths = [_path(_points(one.values, scale.top), one.kind) for one in series]
    return _chart(series, axis, scale, paths)


def area(series: Sequence[Series], axis: Axis) -> Markup:
    """
    Areas on top of each other, the first one at the bottom. A gap counts as nothing.
    """
    length = max((len(one.values) for one in series), default=0)
    sums = [0.0] * length
    paths: list[Markup] = []
    layers: list[tuple[Series, list[float], list[float]]] = []
    for one in series:
        below, sums = sums, [under + (value or 0) for under, value in zip(sums, one.values, strict=True)]
        layers.append((one, below, sums))
    scale = Scale.above(max(sums, default=0), whole=axis.whole)
    for one, below, above in layers:
        upper, lower = _points(above, scale.top), _points(below, scale.top)
        paths += [_fill(upper, lower, one.kind), _path(upper, one.kind)]
    return _chart(series, axis, scale, paths)


def sparkline(values: Sequence[float | None], kind: str, title: str) -> Markup:
    """
    A line without axes, to stand in a row of a table.
    """
    top = max((value for value in values if value is not None), default=0) or 1
    points = _points(values, top)
    floor = [(x, float(HEIGHT)) for x, _ in (point for point in points if point is not None)]
    known = [point for point in points if point is not None]
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}"><title>{}</title>{}{}</svg>'
    ).format(WIDTH, HEIGHT, title, title, _fill(known, floor, kind), _path(points, kind))


@dataclass(frozen=True, slots=True)
class Bar:
    """
    One row of bars.

    Args:
        name: What it stands for.
        parts: Its values by kind, drawn one after the other.
        value: What it says at its end.
        href: Where its name leads; `None` is nowhere.
        note: More about it.
    """

    name: str
    parts: Sequence[tuple[str, float]]
    value: str
    href: str | None = None
    note: str = ""


def bars(rows: Sequence[Bar], title: str, *, whole: float | None = None) -> Markup:
    """
    Horizontal bars with their names above them.

    Args:
        rows: The rows, in their order.
        title: What they show.
        whole: What a full bar stands for; by default the largest row.
    """
    top = whole or max((sum(value for _, value in row.parts) for row in rows), default=0) or 1
    return Markup('<ul class="bars" aria-label="{}">{}</ul>').format(title, _join(_bar(row, top) for row in rows))


def _bar(row: Bar, top: float) -> Markup:
    x, rects = 0.0, []
    for kind, value in row.parts:
        width = min(WIDTH * value / top, WIDTH - x)
        # What is there is seen, however little it is.
        width = max(width, 4.0) if value > 0 else 0.0
        rects.append(Markup('<rect class="{}" x="{}" width="{}" height="{}"/>').format(kind, _number(x), _number(width), HEIGHT))
        x += width
    name = (
        Markup('<a class="name" href="{}">{}</a>').format(row.href, row.name)
        if row.href
        else Markup('<span class="name">{}</span>').format(row.name)
    )
    note = Markup(' <span class="note">{}</span>').format(row.note) if row.note else Markup()
    return Markup(
        '<li><span>{}{}</span><span class="value">{}</span>'
        '<svg viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">{}</svg></li>'
    ).format(name, note, row.value, WIDTH, HEIGHT, _join(rects))


def _chart(series: Sequence[Series], axis: Axis, scale: Scale, paths: Iterable[Markup]) -> Markup:
    ticks = scale.ticks
    grid = _join(
        Markup('<line class="{}" x1="0" x2="{}" y1="{y}" y2="{y}"/>').format(
            "base" if tick == 0 else "grid", WIDTH, y=_number(_y(tick, scale.top))
        )
        for tick in ticks
    )
    return Markup(
        '<figure class="chart"><ul class="legend">{legend}</ul><div class="ys" aria-hidden="true">{ys}</div>'
        '<svg class="plot" viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" aria-label="{words}">'
        "{grid}{paths}{hits}</svg>"
        '<div class="xs" aria-hidden="true">{xs}</div></figure>'
    ).format(
        legend=_join(_legend(one, axis.show) for one in series),
        ys=_join(Markup("<span>{}</span>").format(axis.show(tick)) for tick in reversed(ticks)),
        width=WIDTH,
        height=HEIGHT,
        words=in_words(series, axis),
        grid=grid,
        paths=_join(paths),
        hits=_hits(series, axis),
        xs=_join(Markup("<span>{}</span>").format(time) for time in axis.times),
    )


def in_words(series: Sequence[Series], axis: Axis) -> str:
    """
    What a chart shows, for who does not see it.
    """
    told = [
        f"{one.name}: now {axis.show(one.known[-1])}, lowest {axis.show(min(one.known))}, highest {axis.show(max(one.known))}"
        if one.known
        else f"{one.name}: nothing yet"
        for one in series
    ]
    return f"{axis.title}. {'; '.join(told)}."


def _legend(one: Series, show: Format) -> Markup:
    now = show(one.known[-1]) if one.known else words.NOTHING
    return Markup('<li><span class="dot {}"></span>{} <b>{}</b></li>').format(one.kind, one.name, now)


def _hits(series: Sequence[Series], axis: Axis) -> Markup:
    # A column for each moment, or for the last of several where they would be too narrow to point at.
    length = len(axis.moments)
    stride = max(1, -(-length // _HITS_MAX))
    columns = []
    for end in range(length - 1, -1, -stride):
        begin = max(0, end - stride + 1)
        shown = ((one.name, one.values[end]) for one in series)
        told = "\n".join([axis.moments[end], *(f"{name}: {words.NOTHING if value is None else axis.show(value)}" for name, value in shown)])
        left, right = WIDTH * begin / length, WIDTH * (end + 1) / length
        columns.append(
            Markup('<rect class="hit" x="{}" width="{}" y="0" height="{}"><title>{}</title></rect>').format(
                _number(left), _number(right - left), HEIGHT, told
            )
        )
    return _join(reversed(columns))


def _points(values: Sequence[float | None], top: float) -> list[tuple[float, float] | None]:
    last = max(1, len(values) - 1)
    return [None if value is None else (WIDTH * index / last, _y(value, top)) for index, value in enumerate(values)]


def _y(value: float, top: float) -> float:
    return HEIGHT - HEIGHT * min(value, top) / top


def _path(points: Sequence[tuple[float, float] | None], kind: str) -> Markup:
    steps, is_down = [], False
    for index, point in enumerate(points):
        if point is None:
            is_down = False
            continue
        steps.append(f"{'L' if is_down else 'M'}{_number(point[0])} {_number(point[1])}")
        is_alone = not is_down and (index + 1 == len(points) or points[index + 1] is None)
        # A value between two gaps would be a line of no length.
        steps += ["h3"] if is_alone else []
        is_down = True
    return Markup('<path class="{}" d="{}"/>').format(kind, "".join(steps)) if steps else Markup()


def _fill(upper: Sequence[tuple[float, float] | None], lower: Sequence[tuple[float, float] | None], kind: str) -> Markup:
    outline = [point for point in (*upper, *reversed(lower)) if point is not None]
    if not outline:
        return Markup()
    return Markup('<path class="fill {}" d="M{}Z"/>').format(kind, "L".join(f"{_number(x)} {_number(y)}" for x, y in outline))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _join(parts: Iterable[Markup]) -> Markup:
    return Markup().join(parts)
