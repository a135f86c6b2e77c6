"""
The first page: what all instances decide now.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.responses import HTMLResponse

from tidegate.dashboard import charts, fleet, traffic, words
from tidegate.dashboard.page import Viewer, Visit, router

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from markupsafe import Markup

    from tidegate.control.live import Point, TopKey
    from tidegate.dashboard.traffic import Count

routes = router()
_TIMES = ("2 minutes ago", "1 minute", "now")
_ROWS = 8
_EVERY = timedelta(seconds=1)


@routes.get("/")
def overview(visit: Viewer) -> HTMLResponse:
    """
    Decisions, latencies, who is limited, by what, and whether the store is well.
    """
    # Everybody sees the same, and instances report once a second: however many look, it is drawn once in that time.
    return visit.page("overview.html", "Overview", "/", **visit.recently("overview", lambda: _drawn(visit), _EVERY))


def _drawn(visit: Visit) -> dict[str, Any]:
    with visit.control.database.reading() as session:
        found = fleet.read(session, visit.now)
        rules = visit.recently("rules", lambda: traffic.by_rule(session, visit.now))
        tiers = visit.recently("tiers", lambda: traffic.by_tier(session, visit.now))
    top, denials = found.top(), _denials(rules)
    return {
        "fleet": found,
        "decisions_chart": decisions(found.points),
        "latency_chart": latency(found.points),
        "top": top,
        "top_bars": _top(top),
        "denials": denials,
        "denial_bars": charts.bars(denials, "denials by rule, last hour"),
        "tiers": tiers,
        "tier_bars": _tiers(tiers),
    }


def decisions(points: Sequence[Point]) -> Markup:
    """
    Allowed and denied requests, second by second.
    """
    series = [
        charts.Series("allowed", "allowed", [point.allowed for point in points]),
        charts.Series("denied", "denied", [point.denied for point in points]),
    ]
    return charts.area(
        series, charts.Axis("Decisions per second, last 2 minutes", _TIMES, _moments(points), lambda number: f"{words.count(number)}/s")
    )


def latency(points: Sequence[Point]) -> Markup:
    """
    How long checks took, second by second.
    """
    series = [
        charts.Series("p50", "p50", [point.p50_us for point in points]),
        charts.Series("p95", "p95", [point.p95_us for point in points]),
        charts.Series("p99", "p99", [point.p99_us for point in points]),
    ]
    return charts.line(series, charts.Axis("Check latency, last 2 minutes", _TIMES, _moments(points), words.micros))


def _moments(points: Sequence[Point]) -> list[str]:
    return [datetime.fromtimestamp(point.at, UTC).strftime("%H:%M:%S UTC") for point in points]


def _top(keys: Sequence[TopKey]) -> Markup:
    rows = [charts.Bar(key.key, [("denied", key.denied)], words.count(key.denied), note=key.rule) for key in keys]
    return charts.bars(rows, "keys denied most")


def _denials(rules: Mapping[str, Count]) -> list[charts.Bar]:
    found = sorted(rules.items(), key=lambda row: -(row[1].denied + row[1].shadow_denied))
    return [
        charts.Bar(
            rule,
            [("denied", count.denied), ("shadow", count.shadow_denied)],
            words.count(count.denied or count.shadow_denied),
            href=f"/rule?id={quote(rule)}",
            note=f"{words.share(count.denied or count.shadow_denied, count.total)} of its requests",
        )
        for rule, count in found[:_ROWS]
        if count.denied or count.shadow_denied
    ]


def _tiers(tiers: Mapping[str, Count]) -> Markup:
    found = sorted(tiers.items(), key=lambda row: -row[1].total)
    rows = [
        charts.Bar(
            tier or "no tier",
            [("allowed", count.allowed), ("denied", count.denied)],
            words.count(count.total),
            note=f"{words.share(count.denied, count.total)} denied",
        )
        for tier, count in found[:_ROWS]
    ]
    return charts.bars(rows, "decisions by tier, last hour")
