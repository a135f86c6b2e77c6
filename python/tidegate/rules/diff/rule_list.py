"""
Rules that come, go, get another name or another place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.rules import words
from tidegate.rules.diff.change import Change, Effect, opposite
from tidegate.rules.diff.plans import FRESH
from tidegate.rules.diff.rule import rule_changes
from tidegate.rules.diff.secrets import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.rules import Rule, RuleSet
    from tidegate.rules.model import Source


def rule_list_changes(old: RuleSet, new: RuleSet) -> Iterator[Change]:
    """
    Compares the rules of two sets.

    Args:
        old: The set in force.
        new: The set to follow.

    Yields:
        The changes: rules that are gone, then the others in their new order, then the order itself.
    """
    before = {rule.name: rule for rule in old.rules}
    after = {rule.name: rule for rule in new.rules}
    renamed = _renamed(before, after)
    for name, rule in before.items():
        if name not in after and name not in renamed.values():
            yield Change(name, "removed", f"removed: {_sentence(rule, old.identity)}", opposite(_effect(rule)))
    for name, rule in after.items():
        if name in before:
            yield from rule_changes(before[name], rule, new.identity)
        elif name in renamed:
            yield Change(name, "renamed", f"renamed, was {renamed[name]}", None, f"{FRESH}, because they belong to the rule's name")
        else:
            yield Change(name, "added", f"added: {_sentence(rule, new.identity)}", _effect(rule))
    yield from _order_changes(old, new)


def _renamed(before: dict[str, Rule], after: dict[str, Rule]) -> dict[str, str]:
    gone = {_nameless(rule): name for name, rule in before.items() if name not in after}
    found: dict[str, str] = {}
    for name, rule in after.items():
        was = gone.get(_nameless(rule)) if name not in before else None
        if was is not None and was not in found.values():
            found[name] = was
    return found


def _nameless(rule: Rule) -> str:
    # Where it is written does not matter; a representation, because rules hold mappings.
    return repr(replace(rule, name="", file="", line=0))


def _sentence(rule: Rule, identity: tuple[Source, ...]) -> str:
    applies = words.match(without_secrets(rule.match, identity))
    plans = f" and {len(rule.tiers)} tiers" if rule.tiers else ""
    stop = ", stops" if rule.stop else ""
    mode = "" if rule.mode == "enforce" else f", {rule.mode}"
    return f"{words.quotas(rule.quotas)}{plans} per {words.per(rule.per)} for {applies}{stop}{mode}"


def _effect(rule: Rule) -> Effect | None:
    if rule.mode != "enforce" or (rule.stop and rule.quotas):
        return None
    return "looser" if rule.stop else "tighter"


def _order_changes(old: RuleSet, new: RuleSet) -> Iterator[Change]:
    common = {rule.name for rule in old.rules} & {rule.name for rule in new.rules}
    was, now = ([name for name in _order(rule_set) if name in common] for rule_set in (old, new))
    if was == now:
        return
    # From the first to the last place that differs: the rest stands as it stood.
    first = next(place for place, (one, other) in enumerate(zip(was, now, strict=True)) if one != other)
    last = next(place for place in range(len(was) - 1, -1, -1) if was[place] != now[place]) + 1
    moved = set(now[first:last])
    stops = [rule.name for rule in (*new.rules, *old.rules) if rule.stop and rule.name in moved]
    note = f"it matters because {stops[0]} stops" if stops else "none of them stops, so all are looked at anyway"
    text = f"looked at in the order {', '.join(now[first:last])}, was {', '.join(was[first:last])}"
    yield Change("rules", "order", text, None, note)


def _order(rule_set: RuleSet) -> list[str]:
    return [rule.name for rule in sorted(rule_set.rules, key=lambda rule: -rule.priority)]
