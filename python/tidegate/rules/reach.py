"""
Rules that nobody reaches, and conditions that nothing fulfils.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.rules.checks import Draft
    from tidegate.rules.model import Condition

# Each later rule is compared with these; beyond, the time would grow with the square of the rules.
_STOPS_MAX = 64
_EVERYTHING = {"glob": "*", "regex": ".*", "pattern": "/**", "prefix": "/"}


def check_condition(draft: Draft, condition: Condition) -> None:
    """
    Notes a condition that no request fulfils.

    Args:
        draft: The rule.
        condition: One of its conditions.
    """
    reason = _reason(condition)
    if reason is not None:
        message, hint = reason
        draft.add("never-matches", draft.at("match", condition.attribute), message, hint)


def _reason(condition: Condition) -> tuple[str, str] | None:
    attribute, test, texts = condition.attribute, condition.test, condition.texts
    if condition.is_negated and test != "present" and _EVERYTHING.get(test) in texts and (test != "prefix" or attribute == "path"):
        return "this excludes every request", "narrow it, or use `mode: off`"
    if condition.is_negated:
        return None
    if attribute == "host" and test in {"exact", "glob", "suffix"}:
        bad = next((text for text in texts if "/" in text or _has_port(text)), None)
        if bad is not None:
            return (
                f"`{bad:.80}` is never a host: schemes, ports and paths are no part of it",
                "write the name alone, such as api.example.com",
            )
    if attribute == "path" and test in {"exact", "prefix"}:
        bad = next((text for text in texts if not text.startswith("/") or "//" in text or "/../" in text), None)
        bad = bad or next((text for text in texts if test == "exact" and text != "/" and text.endswith("/")), None)
        if bad is not None:
            better = re.sub("/+", "/", f"/{bad}").rstrip("/") or "/"
            return f"no path is spelt `{bad:.80}`: paths begin with /, have no empty segments and do not end in /", f"write {better:.80}"
    return None


def _has_port(text: str) -> bool:
    name, colon, port = text.rpartition(":")
    return bool(colon) and port.isdigit() and ":" not in name


def check_reach(drafts: list[Draft]) -> None:
    """
    Notes rules that come after one that always stops first.

    Args:
        drafts: All rules, in the order of the files.
    """
    if not any(draft.rule.stop for draft in drafts):
        return
    stops: list[tuple[frozenset[Condition], frozenset[str], str]] = []
    for draft in sorted(drafts, key=lambda draft: -draft.rule.priority):
        rule = draft.rule
        if rule.mode == "off":
            continue
        conditions, per = frozenset(rule.match), frozenset(rule.per)
        # A rule stops only requests that have its key.
        before = next((name for asked, key, name in stops if asked <= conditions and key <= per), None)
        if before is not None:
            message = f"`{rule.name}` is never reached: `{before}` matches whatever it matches, and stops"
            draft.add("unreachable-rule", draft.at("name"), message, "give it a higher `priority`, or move it up")
        elif rule.stop and len(stops) < _STOPS_MAX:
            stops.append((conditions, per, rule.name))
