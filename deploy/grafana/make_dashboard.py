"""
Writes the dashboard `tidegate.json`: `python deploy/grafana/make_dashboard.py`. A test compares the two.

Each panel is one line below; what Grafana needs around it is the same for all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("tidegate.json")
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24
HERE = 'instance=~"$instance"'
PER = "[$__rate_interval]"


@dataclass(frozen=True)
class Panel:
    """
    One panel.

    Args:
        title: What it shows.
        about: What to make of it.
        queries: PromQL, each with the legend of its lines.
        unit: Grafana's word for the unit.
        kind: Grafana's word for the kind of panel.
        width: Of the 24 columns of a row.
        height: In Grafana's rows.
    """

    title: str
    about: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "reqps"
    kind: str = "timeseries"
    width: int = 8
    height: int = 8


def stat(title: str, about: str, query: str, unit: str) -> Panel:
    """
    One number.
    """
    return Panel(title, about, ((query, ""),), unit, "stat", 4, 4)


def rate(metric: str, labels: str = "") -> str:
    """
    How fast a counter grows.
    """
    return f"rate({metric}{{{HERE}{', ' + labels if labels else ''}}}{PER})"


def quantile(share: float) -> str:
    """
    What so many of all checks were as fast as, by protocol.
    """
    return f"histogram_quantile({share}, sum by (protocol, le) ({rate('ratelimit_check_duration_seconds_bucket')}))"


CHECKS = f"sum({rate('ratelimit_checks_total')})"
DENIED = "sum({})".format(rate("ratelimit_checks_total", 'outcome="denied"'))

ROWS: dict[str, tuple[Panel, ...]] = {
    "At a glance": (
        stat("Decisions", "Requests that were decided on.", CHECKS, "reqps"),
        stat("Denied", "The share that was denied.", f"{DENIED} / ({CHECKS} > 0)", "percentunit"),
        stat(
            "p99",
            "What 99 of 100 checks were as fast as.",
            f"histogram_quantile(0.99, sum by (le) ({rate('ratelimit_check_duration_seconds_bucket')}))",
            "s",
        ),
        stat("Without the store", "Decisions that the store did not take.", f"sum({rate('ratelimit_degraded_total')})", "reqps"),
        stat(
            "Instances",
            "Instances that answer, of those that are scraped.",
            'sum(up{job="tidegate", instance=~"$instance"})',
            "none",
        ),
        stat("Old rules", "Instances that run older rules than those on disk.", f"sum(ratelimit_rules_stale{{{HERE}}})", "none"),
    ),
    "Decisions": (
        Panel(
            "Decisions by outcome", "All instances together.", ((f"sum by (outcome) ({rate('ratelimit_checks_total')})", "{{outcome}}"),)
        ),
        Panel(
            "Denials by rule",
            "The ten rules that deny most.",
            (("topk(10, sum by (rule) ({}))".format(rate("ratelimit_decisions_total", 'outcome="denied"')), "{{rule}}"),),
        ),
        Panel(
            "Would be denied",
            "What rules in shadow would deny were they enforced: look here before a rollout.",
            (("topk(10, sum by (rule) ({}))".format(rate("ratelimit_decisions_total", 'outcome="shadow_denied"')), "{{rule}}"),),
        ),
        Panel(
            "No rule applies",
            "Requests that no rule applies to are allowed: many of them are a sign of wrong attributes or a wrong domain.",
            ((f"sum by (protocol) ({rate('ratelimit_unmatched_total')})", "{{protocol}}"),),
            width=12,
        ),
        Panel(
            "Answers by status",
            "Every answered request, by the status of HTTP or gRPC.",
            ((f"sum by (protocol, code) ({rate('ratelimit_requests_total')})", "{{protocol}} {{code}}"),),
            width=12,
        ),
    ),
    "Servers behind the proxy": (
        Panel(
            "Requests by outcome",
            "The class of the status, or why there was none.",
            ((f"sum by (upstream, outcome) ({rate('ratelimit_upstream_requests_total')})", "{{upstream}} {{outcome}}"),),
        ),
        Panel(
            "First byte, p99",
            "From the choice of a server to the head of its response.",
            (
                (
                    f"histogram_quantile(0.99, sum by (upstream, le) ({rate('ratelimit_upstream_duration_seconds_bucket')}))",
                    "{{upstream}}",
                ),
            ),
            "s",
        ),
        Panel(
            "Servers that get no requests",
            "Ejected because requests failed, or down because checks did.",
            ((f'sum by (upstream, state) (ratelimit_upstream_servers{{{HERE}, state!="up"}})', "{{upstream}} {{state}}"),),
            "none",
        ),
    ),
    "Latency": (
        Panel(
            "Checks, p50 and p99",
            "From a request that was read to its answer.",
            ((quantile(0.5), "p50 {{protocol}}"), (quantile(0.99), "p99 {{protocol}}")),
            "s",
            width=12,
        ),
        Panel(
            "Checks, all",
            "How many checks took how long.",
            ((f"sum by (le) (increase(ratelimit_check_duration_seconds_bucket{{{HERE}}}{PER}))", "{{le}}"),),
            "s",
            "heatmap",
            12,
        ),
    ),
    "Shared store": (
        Panel(
            "Breakers",
            "0 closed, 1 ramp, 2 half open, 3 open; by server.",
            ((f"max by (shard) (ratelimit_circuit_state{{{HERE}}})", "{{shard}}"),),
            "none",
            "state-timeline",
        ),
        Panel(
            "Decisions without the store",
            "By reason; those that were allowed are the risk.",
            (
                (f"sum by (reason) ({rate('ratelimit_degraded_total')}) > 0", "{{reason}}"),
                (f"sum by (reason) ({rate('ratelimit_failopen_total')}) > 0", "allowed, {{reason}}"),
            ),
        ),
        Panel("Failed calls", "By what went wrong.", ((f"sum by (kind) ({rate('ratelimit_redis_errors_total')}) > 0", "{{kind}}"),), "ops"),
        Panel(
            "Round trip, mean",
            "How long the store takes to answer, by instance.",
            ((f"{rate('ratelimit_store_round_trips_seconds_total')} / {rate('ratelimit_store_round_trips_total')}", "{{instance}}"),),
            "s",
        ),
        Panel(
            "Round trips",
            "Calls that were answered, denials that needed none, and answers that came too late.",
            (
                (f"sum({rate('ratelimit_store_round_trips_total')})", "answered"),
                (f"sum({rate('ratelimit_deny_cache_hits_total')})", "denied without asking"),
                (f"sum({rate('ratelimit_advance_admissions_total')})", "admitted in advance"),
                (f"sum({rate('ratelimit_store_late_total')})", "too late"),
            ),
            "ops",
        ),
        Panel(
            "Owed and skewed",
            "Counters whose admissions the store was not told yet, and how far its clock is ahead.",
            (
                (f"sum(ratelimit_owed_keys{{{HERE}}})", "owed counters"),
                (f"max(ratelimit_store_clock_skew_seconds{{{HERE}}})", "skew in seconds"),
                (f"max(ratelimit_instances{{{HERE}}})", "instances"),
            ),
            "none",
        ),
    ),
    "Process": (
        Panel("Memory", "Resident.", ((f"process_resident_memory_bytes{{{HERE}}}", "{{instance}}"),), "bytes"),
        Panel("Processor", "Cores in use.", ((rate("process_cpu_seconds_total"), "{{instance}}"),), "none"),
        Panel(
            "Connections",
            "Open ones, by port.",
            ((f"sum by (instance, port) (ratelimit_connections{{{HERE}}})", "{{instance}} {{port}}"),),
            "none",
        ),
        Panel(
            "Counters in memory",
            "Held by the memory store, and dropped early to make room.",
            (
                (f"ratelimit_keys{{{HERE}}}", "held by {{instance}}"),
                (rate("ratelimit_keys_evicted_total"), "evicted each second by {{instance}}"),
            ),
            "none",
        ),
        Panel(
            "Connections that failed",
            "By port and reason.",
            ((f"sum by (port, reason) ({rate('ratelimit_connection_failures_total')}) > 0", "{{port}} {{reason}}"),),
            "ops",
        ),
        Panel(
            "Rules",
            "The generation in force, and attempts to load another.",
            (
                (f"ratelimit_rule_generation{{{HERE}}}", "generation of {{instance}}"),
                (f"sum by (result) (increase(ratelimit_rule_reloads_total{{{HERE}}}{PER}))", "{{result}}"),
            ),
            "none",
        ),
    ),
}


def dashboard() -> dict[str, Any]:
    """
    The dashboard as Grafana reads it.
    """
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "gridPos": _place(0, y, WIDTH, 1), "panels": []}
        )
        y += 1
        x = 0
        for panel in row:
            if x + panel.width > WIDTH:
                x, y = 0, y + panel.height
            panels.append(_panel(panel, len(panels) + 1, _place(x, y, panel.width, panel.height)))
            x += panel.width
        y += row[-1].height
    return {
        "uid": "tidegate",
        "title": "Tidegate",
        "description": "Decisions, denials, latency, and how the store is doing.",
        "tags": ["tidegate", "rate limit"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_datasource(), _instances()]},
        "annotations": {"list": []},
        "panels": panels,
    }


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "datasource": DATASOURCE, "expr": query, "legendFormat": legend or "__auto"}
        for index, (query, legend) in enumerate(panel.queries)
    ]
    if panel.kind == "heatmap":
        targets = [{**target, "format": "heatmap"} for target in targets]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": None if panel.unit == "none" else 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}} if panel.kind == "timeseries" else {},
        "targets": targets,
    }


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _instances() -> dict[str, Any]:
    query = "label_values(ratelimit_build_info, instance)"
    return {
        "name": "instance",
        "label": "Instance",
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": "instances"},
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def text() -> str:
    """
    The file.
    """
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
