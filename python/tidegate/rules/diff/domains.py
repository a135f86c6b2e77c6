"""
Trees in the reference service's format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.rules.diff.change import Change, Effect, by_size
from tidegate.rules.diff.plans import FRESH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidegate.rules import RuleSet

_FLAGS = {
    "shadow": "shadow mode",
    "quota_mode": "quota mode",
    "detailed_metric": "detailed metrics",
    "share_threshold": "a shared threshold",
    "value_to_metric": "values in metrics",
}


def domain_changes(old: RuleSet, new: RuleSet) -> Iterator[Change]:
    """
    Compares the descriptors of two sets.

    Args:
        old: The set in force.
        new: The set to follow.

    Yields:
        The changes.
    """
    before, after = ({domain["domain"]: domain for domain in rule_set.ir.get("domains", ())} for rule_set in (old, new))
    for name in dict.fromkeys((*before, *after)):
        if name not in after:
            yield Change(name, "removed", "the domain is removed", "looser")
        elif name not in before:
            yield Change(name, "added", f"the domain is added, with {len(_nodes(after[name]))} descriptors", "tighter")
        else:
            yield from _tree_changes(name, before[name], after[name])


def _tree_changes(domain: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    if old.get("atomic") != new.get("atomic"):
        text = "descriptors are charged together or not at all" if new.get("atomic") else "each descriptor is charged by itself"
        yield Change(domain, "atomic", text)
    before, after = _nodes(old), _nodes(new)
    for path in dict.fromkeys((*before, *after)):
        if path not in after:
            yield Change(domain, "removed", f"{path} is removed: {_limit(before[path])}", "looser" if before[path].get("limit") else None)
        elif path not in before:
            yield Change(domain, "added", f"{path} is added: {_limit(after[path])}", "tighter" if after[path].get("limit") else None)
        elif before[path] != after[path]:
            yield from _node_changes(domain, path, before[path], after[path])


def _node_changes(domain: str, path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    was, now = _limit(old), _limit(new)
    if was != now:
        yield Change(domain, "limit", f"{path}: {was} becomes {now}", _effect(old, new), _note(old, new))
    before, after = ({**(node.get("limit") or {}), **node} for node in (old, new))
    for name, shown in _FLAGS.items():
        if bool(before.get(name)) != bool(after.get(name)):
            effect: Effect | None = ("looser" if after.get(name) else "tighter") if name == "shadow" else None
            yield Change(domain, name, f"{path}: {'now' if after.get(name) else 'no longer'} with {shown}", effect)
    for name in ("name", "replaces", "metadata"):
        if before.get(name) != after.get(name):
            yield Change(domain, name, f"{path}: {name} changes")


def _nodes(domain: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}

    def walk(nodes: list[Mapping[str, Any]], above: str) -> None:
        for node in nodes:
            own = str(node["key"]) if node.get("value") is None else f"{node['key']}={node['value']}"
            path = f"{above} > {own}" if above else own
            found[path] = {name: value for name, value in node.items() if name != "descriptors"}
            walk(node.get("descriptors") or [], path)

    walk(domain.get("descriptors") or [], "")
    return found


def _limit(node: Mapping[str, Any]) -> str:
    limit = node.get("limit")
    if not limit:
        return "no limit"
    if limit.get("unlimited"):
        return "unlimited"
    quotas = limit.get("quotas", ())
    own = f"{limit.get('requests_per_unit')}/{str(limit.get('unit')).lower()}"
    return own if len(quotas) <= 1 else f"{own} and {len(quotas) - 1} more"


def _effect(old: Mapping[str, Any], new: Mapping[str, Any]) -> Effect | None:
    is_open = [not node.get("limit") or bool(node["limit"].get("unlimited")) for node in (old, new)]
    if any(is_open):
        return by_size(*is_open)
    if old["limit"].get("unit") != new["limit"].get("unit"):
        return None
    return by_size(old["limit"].get("requests_per_unit", 0), new["limit"].get("requests_per_unit", 0))


def _note(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    units = [(node.get("limit") or {}).get("unit") for node in (old, new)]
    return f"{FRESH}, because the unit changes" if None not in units and units[0] != units[1] else None
