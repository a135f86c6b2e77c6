"""
Charts are pure: numbers in, markup out.
"""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.dashboard import charts
from tidegate.dashboard.charts import Axis, Bar, Series
from tidegate.dashboard.scale import Scale

HOSTILE = '"><script>alert(1)</script>&'
VALUES = st.lists(st.none() | st.floats(0, 1e15), max_size=130)


def parsed(markup: str) -> ET.Element:
    """
    The markup as XML: what is not closed or not escaped is no XML.
    """
    return ET.fromstring(f"<root>{markup}</root>")


def numbers(element: ET.Element) -> list[float]:
    """
    The numbers of a path.
    """
    return [float(text) for text in re.findall(r"-?\d+(?:\.\d+)?", element.attrib["d"])]


@given(st.floats(1e-8, 1e18), st.booleans())
def test_a_scale_ends_at_or_above_every_value(highest: float, whole: bool) -> None:
    """
    Nothing is drawn outside of the plot, and the grid has at most four intervals.
    """
    scale = Scale.above(highest, whole=whole)

    assert scale.top >= highest * (1 - 1e-6)
    assert 1 <= scale.intervals <= 5
    assert scale.ticks[0] == 0
    assert math.isclose(scale.ticks[-1], scale.top)


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (0, (0, 1)),
        (1, (0, 0.25, 0.5, 0.75, 1)),
        (3, (0, 1, 2, 3)),
        (10, (0, 2.5, 5, 7.5, 10)),
        (943, (0, 250, 500, 750, 1000)),
        (4000, (0, 1000, 2000, 3000, 4000)),
        (float("nan"), (0, 1)),
        (float("inf"), (0, 1)),
    ],
)
def test_a_grid_is_at_round_numbers(highest: float, ticks: tuple[float, ...]) -> None:
    """
    People read values off it.
    """
    assert ticks == Scale.above(highest, whole=False).ticks


def test_counts_have_no_tenths_on_their_axis() -> None:
    """
    Half a request does not exist.
    """
    assert all(tick == int(tick) for highest in range(1, 50) for tick in Scale.above(highest).ticks)


@given(VALUES, VALUES)
def test_every_line_chart_is_well_formed_and_inside_its_plot(first: list[float | None], second: list[float | None]) -> None:
    """
    Whatever the values are: none, gaps, huge ones.
    """
    root = parsed(charts.line([Series("p50", "p50", first), Series("p99", "p99", second)], Axis("Latency")))

    for path in root.iter("path"):
        steps = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.attrib["d"])
        assert all(0 <= float(x) <= charts.WIDTH and 0 <= float(y) <= charts.HEIGHT for x, y in steps)


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), min_size=1, max_size=130))
def test_areas_lie_on_top_of_each_other(values: list[tuple[float, float]]) -> None:
    """
    The upper edge of the second is never below that of the first.
    """
    series = [Series("allowed", "allowed", [one for one, _ in values]), Series("denied", "denied", [other for _, other in values])]
    root = parsed(charts.area(series, Axis("Decisions")))
    edges = [numbers(path)[1::2] for path in root.iter("path") if "fill" not in path.attrib["class"].split()]

    if len(values) > 1:
        assert all(upper <= lower for lower, upper in zip(edges[0], edges[1], strict=True))


def test_a_gap_breaks_the_line() -> None:
    """
    A second without checks has no latency, which is not a latency of zero.
    """
    root = parsed(charts.line([Series("p50", "p50", [1.0, 2.0, None, 2.0, 1.0])], Axis("Latency")))
    path = next(root.iter("path"))

    assert path.attrib["d"].count("M") == 2


def test_a_value_between_gaps_is_seen() -> None:
    """
    A line of one point has no length.
    """
    root = parsed(charts.line([Series("p50", "p50", [None, 2.0, None])], Axis("Latency")))

    assert "h3" in next(root.iter("path")).attrib["d"]


def test_a_chart_says_in_words_what_it_shows() -> None:
    """
    For who does not see it.
    """
    root = parsed(
        charts.line(
            [Series("p50", "p50", [40.0, None, 30.0]), Series("p99", "p99", [])],
            Axis("Check latency", show=lambda value: f"{value:.0f} µs"),
        )
    )
    plot = next(root.iter("svg"))

    assert plot.attrib["role"] == "img"
    assert plot.attrib["aria-label"] == "Check latency. p50: now 30 µs, lowest 30 µs, highest 40 µs; p99: nothing yet."


def test_moments_can_be_pointed_at_without_gaps_between_them() -> None:
    """
    120 seconds are 60 columns that cover the whole plot.
    """
    values = [float(number) for number in range(120)]
    root = parsed(charts.line([Series("p50", "p50", values)], Axis("Latency", moments=[f"second {number}" for number in range(120)])))
    hits = [(float(rect.attrib["x"]), float(rect.attrib["width"])) for rect in root.iter("rect")]

    assert len(hits) == 60
    assert hits[0][0] == 0
    assert math.isclose(hits[-1][0] + hits[-1][1], charts.WIDTH, abs_tol=0.2)
    assert next(root.iter("title")).text == "second 1\np50: 1"


@pytest.mark.parametrize(
    "markup",
    [
        charts.line([Series(HOSTILE, "p50", [1.0])], Axis(HOSTILE, [HOSTILE], [HOSTILE])),
        charts.area([Series(HOSTILE, "allowed", [1.0])], Axis(HOSTILE, [HOSTILE], [HOSTILE])),
        charts.bars([Bar(HOSTILE, [("denied", 1)], HOSTILE, href=f"/rule?id={HOSTILE}", note=HOSTILE)], HOSTILE),
        charts.sparkline([1.0], "tide", HOSTILE),
    ],
    ids=["line", "area", "bars", "sparkline"],
)
def test_texts_are_inert_in_every_chart(markup: str) -> None:
    """
    Names of rules and keys are what customers and attackers send.
    """
    assert not list(parsed(markup).iter("script"))
    assert HOSTILE in {*parsed(markup).itertext(), *(value for one in parsed(markup).iter() for value in one.attrib.values())}


def test_the_smallest_bar_is_seen_and_none_is_longer_than_its_place() -> None:
    """
    One of a million is there, and three parts of a whole fit.
    """
    root = parsed(charts.bars([Bar("large", [("allowed", 1e6)], "1 M"), Bar("small", [("allowed", 1), ("denied", 0)], "1")], "Tiers"))
    widths = [float(rect.attrib["width"]) for rect in root.iter("rect")]

    assert widths == [1000, 4, 0]
