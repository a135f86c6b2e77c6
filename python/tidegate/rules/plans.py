"""
Quotas that can never matter, and tiers that nobody can have.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from tidegate.rules.quotas import QUOTAS_MAX

if TYPE_CHECKING:
    from tidegate.rules.checks import Draft
    from tidegate.rules.model import QuotaText
    from tidegate.rules.node import Node

LOG_LIMIT_GOOD = 1000
"""A log of every request with more entries per key costs more memory than it is worth."""

_EXACT = frozenset({None, "sliding_window", "sliding_window_log"})


def check_plans(draft: Draft) -> None:
    """
    Notes what the author of a plan probably did not mean.

    Args:
        draft: The rule.
    """
    rule = draft.rule
    plans: list[tuple[Node, tuple[QuotaText, ...]]] = [(draft.at("quotas"), rule.quotas)]
    plans += [(draft.at("tiers", name), quotas) for name, quotas in rule.tiers.items()]
    for node, quotas in plans:
        _check_plan(draft, node, quotas)
    if rule.tiers:
        _check_tiers(draft)


def _check_plan(draft: Draft, node: Node, quotas: tuple[QuotaText, ...]) -> None:
    cost = draft.rule.cost.units or 0
    for quota in quotas:
        given = quota.parameters
        limit = given.get("limit", 0)
        if given.get("algorithm") == "sliding_window_log" and limit > LOG_LIMIT_GOOD:
            message = f"`{quota.text}` remembers up to {limit:,} requests of every key"
            draft.add("log-limit-huge", node, message, "use sliding_window, which promises the same with 16 entries")
        if cost > 1 and 0 < max(limit, given.get("burst", 0)) < cost:
            draft.add("cost-above-limit", node, f"a cost of {cost} never fits into `{quota.text}`", "lower `cost`, or raise the limit")
    if 1 < len(quotas) <= QUOTAS_MAX:
        # Each is told once, however many others make it pointless.
        for message in {loose: message for loose, message in map(_pointless, combinations(quotas, 2)) if loose}.values():
            draft.add("quota-never-binds", node, message, "remove it, or lower its limit")


def _pointless(pair: tuple[QuotaText, QuotaText]) -> tuple[str, str]:
    short, long = sorted(pair, key=lambda quota: quota.parameters.get("period_ns", 0))
    # Only exact windows can be compared by their numbers alone.
    if not (_is_exact(short) and _is_exact(long)):
        return "", ""
    limit, period = short.parameters["limit"], short.parameters["period_ns"]
    long_limit, long_period = long.parameters["limit"], long.parameters["period_ns"]
    most = -(-long_period // period) * limit
    if period == long_period or long_limit <= limit:
        loose, tight = (short, long) if long_limit <= limit else (long, short)
        return loose.text, f"`{loose.text}` never matters beside `{tight.text}`"
    if long_limit >= most:
        return long.text, f"`{long.text}` never matters: `{short.text}` lets at most {most:,} pass in that time"
    return "", ""


def _is_exact(quota: QuotaText) -> bool:
    given = quota.parameters
    return given.get("algorithm") in _EXACT and "period_ns" in given and not given.keys() & {"burst", "queue", "calendar", "unlimited"}


def _check_tiers(draft: Draft) -> None:
    asked = next((condition for condition in draft.rule.match if condition.attribute == "tier"), None)
    if asked is None or asked.test != "exact" or asked.ignore_case:
        return
    overridden = {override.tier for override in draft.rule.overrides}
    for name in draft.rule.tiers:
        if (name in asked.texts) == asked.is_negated and name not in overridden:
            message = f"nobody can have the tier `{name}` here: `match` lets no such request in"
            draft.add("tier-unreachable", draft.at("tiers", name), message, "remove it, or widen `match`")
