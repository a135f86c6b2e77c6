"""
The simple fields: one path, one method, one quota. Another spelling of the rules that most people write.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from tidegate.quota import Quota
from tidegate.rules.model import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELDS: Final = ("endpoint_pattern", "method", "limit", "window_seconds", "algorithm", "scope", "priority")

_ANY_METHOD: Final = "*"
_SECOND_NS: Final = 1_000_000_000

# Where problems of a body are, and which field said it.
_PATHS: Final = {
    "match.path": "endpoint_pattern",
    "match.method": "method",
    "quotas.limit": "limit",
    "quotas.period": "window_seconds",
    "quotas.algorithm": "algorithm",
    "quotas": "limit",
    "per": "scope",
}


def to_body(fields: Mapping[str, Any]) -> dict[str, Any]:
    """
    The body that simple fields say.

    Args:
        fields: Those that were given; `None` is as good as absent.

    Returns:
        The body. Nothing is checked: the readers of rules do that.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    match = {"path": given.get("endpoint_pattern"), "method": given.get("method")}
    match = {name: value for name, value in match.items() if value is not None and (name, value) != ("method", _ANY_METHOD)}
    quota = {"limit": given.get("limit"), "period": _period(given.get("window_seconds")), "algorithm": given.get("algorithm")}
    quota = {name: value for name, value in quota.items() if value is not None}
    body = {"match": match, "per": given.get("scope"), "quotas": quota, "priority": given.get("priority")}
    return {name: value for name, value in body.items() if value not in ({}, None)}


def field_of(path: str) -> str:
    """
    Which simple field a problem is about.

    Args:
        path: Its place in the body.

    Returns:
        The field, or the place itself.
    """
    return next((field for start, field in _PATHS.items() if path == start or path.startswith((f"{start}.", f"{start}["))), path)


def of_rule(rule: Rule) -> dict[str, Any]:
    """
    A rule in simple fields.

    Args:
        rule: Any rule.

    Returns:
        The fields, `None` where one cannot say it; `is_simple` tells whether they say everything.
    """
    match = {condition.attribute: condition for condition in rule.match if not condition.is_negated}
    path, method = match.get("path"), match.get("method")
    has_path = path is not None and path.test == "pattern" and len(path.texts) == 1 and not path.ignore_case
    has_method = method is not None and method.test == "exact"
    limit, seconds, algorithm = _quota(rule)
    known = (path if has_path else None, method if has_method else None)
    said = Rule(
        name=rule.name,
        per=rule.per,
        match=tuple(condition for condition in rule.match if condition in known),
        quotas=rule.quotas,
        priority=rule.priority,
        file=rule.file,
        line=rule.line,
    )
    return {
        "endpoint_pattern": path.texts[0] if path is not None and has_path else None,
        "method": _one(method.texts) if method is not None and has_method else None,
        "limit": limit,
        "window_seconds": seconds,
        "algorithm": algorithm,
        "scope": _one(rule.per) or "global",
        "priority": rule.priority,
        "is_simple": said == rule and seconds is not None,
    }


def _period(seconds: Any) -> Any:  # noqa: ANN401  # whatever was sent: the readers say what is wrong with it
    # The language knows whole seconds, and texts with a unit.
    if isinstance(seconds, float) and isfinite(seconds):
        return int(seconds) if seconds.is_integer() else f"{round(seconds * 1000)}ms"
    return seconds


def _quota(rule: Rule) -> tuple[int | None, float | None, str | None]:
    if len(rule.quotas) != 1:
        return None, None, None
    parameters = rule.quotas[0].parameters
    period_ns = parameters.get("period_ns")
    implied = "gcra" if "burst" in parameters else "sliding_window" if period_ns is not None else None
    algorithm = Quota.parse(rule.quotas[0].text).algorithm or implied
    if period_ns is None or set(parameters) - {"limit", "period_ns", "algorithm"} or rule.quotas[0].name is not None:
        return parameters.get("limit"), None, algorithm
    return parameters["limit"], period_ns // _SECOND_NS if period_ns % _SECOND_NS == 0 else period_ns / _SECOND_NS, algorithm


def _one(texts: tuple[str, ...]) -> str | list[str] | None:
    return None if not texts else texts[0] if len(texts) == 1 else list(texts)
