"""
From the reference service's trees to rules of our own, and a list of what rules cannot say.

A descriptor is a list of entries that a proxy chose to send; a rule looks at the attributes of a request.
So every limit of a tree becomes one rule: entries with a value become conditions, entries without one become `per`.
A sibling that hides a limit in the tree becomes an exception of the rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml

from tidegate.rules.names import ATTRIBUTE_NAME, DOMAIN_NAME, RULE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GENERAL: Final = (
    "A rule applies to every request that has its attributes; which descriptors a proxy would have sent is not known here.",
    "Refused requests are not counted, and the rules that apply are charged together or not at all.",
)
"""What is different in any case."""

# Their conditions are not exact unless they say so.
_OWN_TESTS: Final = frozenset({"path", "host", "method", "ip"})
_NAME_MAX: Final = 64


@dataclass(slots=True)
class Imported:
    """
    Rules that were made of one tree or several.

    Args:
        domain: The name of the set.
        rules: The rules, each with what it does not say.
        notes: What no rule says, each with its place in the tree.
    """

    domain: str | None
    rules: list[tuple[dict[str, Any], list[str]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def lost(self) -> list[str]:
        """
        Everything that could not be expressed.
        """
        return [*self.notes, *(f"{rule['name']}: {note}" for rule, notes in self.rules for note in notes)]

    def to_yaml(self) -> str:
        """
        The file of rules, with what it does not say as comments.

        Returns:
            The text.
        """
        lines = ["# Imported from a file of the reference rate limit service.", *(f"# {note}" for note in GENERAL)]
        if self.notes:
            lines += ["#", "# Not imported:", *(f"# - {note}" for note in self.notes)]
        head: dict[str, Any] = {"version": 1} | ({"domain": self.domain} if self.domain else {})
        lines += ["", _dump(head), "rules:" if self.rules else "rules: []"]
        for rule, notes in self.rules:
            lines += ["", *(f"  # Not said: {note}" for note in notes)]
            lines += [f"  {line}" for line in _dump([rule]).splitlines()]
        return "\n".join(lines) + "\n"


def import_domains(domains: Sequence[dict[str, Any]]) -> Imported:
    """
    Turns trees into rules.

    Args:
        domains: The domains as the RuleSet IR has them.

    Returns:
        The rules, and what they do not say.
    """
    name = domains[0]["domain"] if len(domains) == 1 and DOMAIN_NAME.fullmatch(domains[0]["domain"]) else None
    imported = Imported(name)
    if len(domains) > 1:
        imported.notes.append(f"the rules of all domains are in one set: {', '.join(domain['domain'] for domain in domains)}")
    taken: set[str] = set()
    for domain in domains:
        for path in _limited(domain["descriptors"], ()):
            _add(imported, domain["domain"], path, taken)
    return imported


@dataclass(frozen=True, slots=True)
class _Step:
    """
    One node on the way to a limit, with its siblings.
    """

    node: dict[str, Any]
    siblings: Sequence[dict[str, Any]]

    @property
    def key(self) -> str:
        return str(self.node["key"])

    @property
    def value(self) -> str | None:
        value = self.node["value"]
        return None if value is None else str(value)

    @property
    def identity(self) -> str:
        return self.key if self.value is None else f"{self.key}_{self.value}"

    @property
    def is_exact(self) -> bool:
        return self.value is not None and "*" not in self.value

    def hidden_by(self) -> tuple[list[str], list[str]]:
        """
        The values and the patterns of siblings that come before it.
        """
        own = [sibling for sibling in self.siblings if sibling["key"] == self.key and sibling["value"] is not None]
        values = [sibling["value"] for sibling in own if "*" not in sibling["value"]]
        patterns = [sibling["value"] for sibling in own if "*" in sibling["value"]]
        if self.value is None:
            return values, patterns
        before = patterns[: patterns.index(self.value)]
        return [value for value in values if fits(self.value, value)], [pattern for pattern in before if _overlaps(pattern, self.value)]


def _limited(level: Sequence[dict[str, Any]], path: tuple[_Step, ...]) -> Iterator[tuple[_Step, ...]]:
    for node in level:
        here = (*path, _Step(node, level))
        if node["limit"] is not None:
            yield here
        yield from _limited(node["descriptors"], here)


def _add(imported: Imported, domain: str, path: tuple[_Step, ...], taken: set[str]) -> None:
    limit = path[-1].node["limit"]
    dotted = ".".join((domain, *(step.identity for step in path)))
    why = _impossible(path)
    if why is not None:
        imported.notes.append(f"{dotted}: {why}")
        return
    if limit["unlimited"]:
        said = "" if not limit["replaces"] else f", and it no longer replaces {', '.join(limit['replaces'])}"
        imported.notes.append(f"{dotted}: it is unlimited and needs no rule{said}")
        return
    notes = _lost(limit, path)
    match: dict[str, Any] = {}
    per: list[str] = []
    overrides: dict[str, str] = {}
    for step in path:
        if not step.is_exact and not step.node["share_threshold"]:
            per.append(step.key)
        condition = _condition(step, notes)
        if condition is not None:
            match[step.key] = condition
    _except(path, per, overrides, notes)
    quotas = [_quota(quota) for quota in limit["quotas"]]
    rule: dict[str, Any] = {"name": _name(limit["name"] or dotted.removeprefix(f"{domain}."), taken)}
    rule |= {"match": match} if match else {}
    rule |= {"per": "global" if not per else per[0] if len(per) == 1 else per, "quotas": quotas[0] if len(quotas) == 1 else quotas}
    rule |= {"overrides": overrides} if overrides else {}
    rule |= {"mode": "shadow"} if limit["shadow"] or limit["quota_mode"] else {}
    imported.rules.append((rule, notes))


def _impossible(path: tuple[_Step, ...]) -> str | None:
    keys = [step.key for step in path]
    for key in keys:
        if "*" in key:
            return f"the key `{key}` is a pattern, and an attribute has one name"
        if not ATTRIBUTE_NAME.fullmatch(key) or key in {"headers", "query"}:
            return f"`{key}` cannot be the name of an attribute"
    twice = next((key for key in keys if keys.count(key) > 1), None)
    return None if twice is None else f"`{twice}` is there twice, and an attribute has one value"


def _lost(limit: dict[str, Any], path: tuple[_Step, ...]) -> list[str]:
    notes = []
    if limit["quota_mode"]:
        notes.append("quota_mode, which denies only together with others; it is in shadow, so that nothing more is denied than before")
    if limit["replaces"]:
        notes.append(f"that it replaces {', '.join(limit['replaces'])}: all rules that match apply")
    if limit["metadata"]:
        notes.append("metadata")
    if limit["detailed_metric"] or any(step.node["value_to_metric"] for step in path):
        notes.append("that metrics show values")
    return notes


def _condition(step: _Step, notes: list[str]) -> Any:  # noqa: ANN401  # a condition of the language
    if step.value is not None:
        if "*" not in step.value:
            return {"exact": step.value} if step.key in _OWN_TESTS else step.value
        return {"regex": _regex(step.value)} if "?" in step.value else {"glob": step.value}
    values, patterns = step.hidden_by()
    if not values and not patterns:
        return None
    if not patterns:
        return {"not": {"exact": values} if step.key in _OWN_TESTS else values}
    if any("?" in text for text in (*values, *patterns)):
        notes.append(f"that {_some(step, (*values, *patterns))} have limits of their own: both count")
        return None
    return {"not": {"glob": [*values, *patterns]}}


def _except(path: tuple[_Step, ...], per: list[str], overrides: dict[str, str], notes: list[str]) -> None:
    """
    A pattern and an exception cannot stand in one condition: the exception becomes an override, where the key is only this value.
    """
    for step in path:
        if step.value is None or step.is_exact:
            continue
        values, patterns = step.hidden_by()
        if per == [step.key]:
            overrides |= dict.fromkeys(values, "unlimited")
        elif values:
            notes.append(f"that {_some(step, values)} have limits of their own: both count")
        if patterns:
            notes.append(f"that {_some(step, patterns)} come before it: both count")


def _some(step: _Step, values: Sequence[str]) -> str:
    shown = ", ".join(f"{step.key}={value}" for value in values[:5])
    return shown if len(values) <= 5 else f"{shown} and {len(values) - 5} more"  # noqa: PLR2004  # as many as a line holds


def _quota(quota: dict[str, Any]) -> str:
    return str(quota["text"]).partition(" max_debt ")[0]


def _name(wanted: str, taken: set[str]) -> str:
    plain = "".join(letter if RULE_NAME.fullmatch(letter) else "_" for letter in wanted)[: _NAME_MAX - 4] or "rule"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}_{number}"
    taken.add(name)
    return name


def fits(pattern: str, text: str) -> bool:
    """
    Whether a text fits a pattern in which each `*` stands for any characters.

    Args:
        pattern: The pattern, with at least one `*`.
        text: The text.

    Returns:
        Whether all of it fits.
    """
    first, *middle, last = pattern.split("*")
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    position, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True


def _overlaps(one: str, other: str) -> bool:
    """
    Whether a text may fit both: only what stands before the first and behind the last `*` can tell them apart.
    """
    prefixes = (one.partition("*")[0], other.partition("*")[0])
    suffixes = (one.rpartition("*")[2], other.rpartition("*")[2])
    return (prefixes[0].startswith(prefixes[1]) or prefixes[1].startswith(prefixes[0])) and (
        suffixes[0].endswith(suffixes[1]) or suffixes[1].endswith(suffixes[0])
    )


def _regex(pattern: str) -> str:
    special = frozenset(r"\.+*?()|[]{}^$#&-~")
    escaped = ("".join(f"\\{letter}" if letter in special else letter for letter in piece) for piece in pattern.split("*"))
    return "(?s)" + ".*".join(escaped)


def _dump(value: Any) -> str:  # noqa: ANN401  # whatever YAML can say
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120, default_flow_style=False).rstrip("\n")
