"""
One rule: from its node to the model.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidegate.rules.conditions import read_match
from tidegate.rules.fields import ALGORITHMS, COST, MODES, RULE, STORE_ERROR_POLICIES, lacks, read_fields
from tidegate.rules.model import ROLLOUT_ALL, Cost, QuotaText, Rule, Source
from tidegate.rules.names import RULE_NAME, read_attribute
from tidegate.rules.node import Mapping, Node, Scalar, Sequence, kind_of
from tidegate.rules.overrides import read_overrides
from tidegate.rules.quotas import read_quotas
from tidegate.rules.scalars import is_null, read_choice, read_flag, read_text, read_texts, read_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.rules.document import Document

_PERCENT = re.compile(r"(0|[1-9][0-9]{0,2})(?:\.([0-9]{1,2}))?%")
_NAMELESS = "?"


def read_rule(document: Document, node: Node, sources: tuple[Source, ...]) -> Rule | None:
    """
    Reads one rule and notes everything that is wrong with it.

    Args:
        document: Where problems are noted.
        node: The rule.
        sources: How clients are named.

    Returns:
        The rule as far as it is right, so that others can be compared with it; `None` if it is no mapping.
    """
    entries = read_fields(document, node, RULE, "a rule")
    if entries is None:
        return None
    given: dict[str, Any] = {}
    for name, read in _READERS.items():
        if name in entries:
            value = read(document, entries[name][1])
            if value is not None:
                given[name] = value
    _read_plans(document, entries, given)
    _check_required(document, node, given)
    given.setdefault("name", _NAMELESS)
    rule = Rule(**given, file=document.name, line=node.start.line + 1)
    if "overrides" in entries and "per" in given:
        rule = replace(rule, overrides=read_overrides(document, entries["overrides"][1], rule, sources))
    return rule


def _read_plans(document: Document, entries: dict[str, tuple[Scalar, Node]], given: dict[str, Any]) -> None:
    algorithm = given.get("algorithm")
    if "quotas" in entries:
        given["quotas"] = read_quotas(document, entries["quotas"][1], algorithm)
    if "tiers" in entries:
        given["tiers"] = _read_tiers(document, entries["tiers"][1], algorithm)


def _check_required(document: Document, node: Node, given: dict[str, Any]) -> None:
    if not isinstance(node, Mapping):
        return
    is_pass = given.get("stop", False)
    if not is_pass and lacks(node, "quotas", RULE):
        document.add("missing-key", node, "a rule needs `quotas`", "add `quotas: 100/minute`; only a rule with `stop: true` may have none")
    if not (is_pass and "quotas" not in node.entries) and lacks(node, "per", RULE):
        document.add("missing-key", node, "a rule needs `per`", "add `per: client`, or `per: global` to count everybody together")


def _read_name(document: Document, node: Node) -> str | None:
    text = read_text(document, node)
    if text is not None and not RULE_NAME.fullmatch(text):
        document.add("bad-name", node, f"`{text:.80}` cannot be the name of a rule", "write up to 64 letters, digits, `_`, `-` and `.`")
        return None
    return text


def _read_per(document: Document, node: Node) -> tuple[str, ...] | None:
    found: list[str] = []
    texts = read_texts(document, node)
    for scalar, text in texts:
        if text == "global":
            if len(texts) == 1:
                return ()
            document.add("bad-per", scalar, "`global` counts everybody together and stands alone", "remove it, or remove the others")
            continue
        attribute = read_attribute(document, scalar, text)
        if attribute in found:
            document.add("bad-per", scalar, f"`{attribute}` is named twice", "name each attribute once")
        elif attribute is not None:
            found.append(attribute)
    return tuple(found) or None


def _read_tiers(document: Document, node: Node, algorithm: str | None) -> dict[str, tuple[QuotaText, ...]]:
    if not isinstance(node, Mapping):
        document.add("wrong-type", node, f"`tiers` is a mapping, and this is {kind_of(node)}", "write {pro: 1000/minute}")
        return {}
    found = {}
    for key, value in node.entries.values():
        name = read_text(document, key)
        quotas = read_quotas(document, value, algorithm)
        if name is not None:
            found[name] = quotas
    return found


def _read_cost(document: Document, node: Node) -> Cost | None:
    if isinstance(node, Scalar) and node.text[:1].isalpha() and not is_null(node):
        text = read_text(document, node)
        attribute = None if text is None else read_attribute(document, node, text)
        return None if attribute is None else Cost(None, attribute)
    if not isinstance(node, Mapping):
        units = read_whole(document, node)
        return None if units is None else Cost(units)
    entries = read_fields(document, node, COST, "`cost`")
    if entries is None or "attribute" not in entries:
        return None
    value = entries["attribute"][1]
    text = read_text(document, value)
    attribute = read_attribute(document, value, text) if text is not None and isinstance(value, Scalar) else None
    default = read_whole(document, entries["default"][1]) if "default" in entries else 1
    highest = read_whole(document, entries["max"][1], 1) if "max" in entries else None
    if highest is not None and default is not None and default > highest:
        document.add(
            "out-of-range",
            entries["default"][1] if "default" in entries else node,
            f"the default {default} is above the maximum {highest}",
            "lower it, or raise `max`",
        )
    return None if attribute is None else Cost(None, attribute, default or 0, highest)


def _read_rollout(document: Document, node: Node) -> int | None:
    text = node.text if isinstance(node, Scalar) and not is_null(node) else ""
    match = _PERCENT.fullmatch(text if not text.isdecimal() else f"{text}%")
    if match is not None:
        hundredths = int(match[1]) * 100 + int((match[2] or "").ljust(2, "0"))
        if hundredths <= ROLLOUT_ALL:
            return hundredths
    document.add(
        "bad-percentage",
        node,
        f"a share of keys is expected: {text or kind_of(node):.40}",
        "write 0% to 100%, with at most two decimals: 25%, 0.5%",
    )
    return None


def _choice(choices: tuple[str, ...]) -> Callable[[Document, Node], str | None]:
    return lambda document, node: read_choice(document, node, choices)


def _whole(low: int, high: int) -> Callable[[Document, Node], int | None]:
    return lambda document, node: read_whole(document, node, low, high)


# In the order in which they are needed; quotas, tiers and overrides depend on them.
_READERS: dict[str, Callable[[Document, Node], Any]] = {
    "name": _read_name,
    "description": read_text,
    "owner": read_text,
    "match": read_match,
    "per": _read_per,
    "algorithm": _choice(ALGORITHMS),
    "cost": _read_cost,
    "mode": _choice(MODES),
    "rollout": _read_rollout,
    "priority": _whole(-1000, 1000),
    "stop": read_flag,
    "on_store_error": _choice(STORE_ERROR_POLICIES),
    "budget_ms": _whole(1, 10_000),
    "headers": read_flag,
}


def read_rules(document: Document, node: Node, sources: tuple[Source, ...]) -> list[tuple[Rule, Node]]:
    """
    The section `rules`.

    Args:
        document: Where problems are noted.
        node: What stands there.
        sources: How clients are named.

    Returns:
        Each rule with its node.
    """
    if is_null(node):
        return []
    if not isinstance(node, Sequence):
        document.add("wrong-type", node, f"`rules` is a list, and this is {kind_of(node)}", "begin each rule with `- name: ...`")
        return []
    found = []
    for item in node.items:
        rule = read_rule(document, item, sources)
        if rule is not None:
            found.append((rule, item))
    return found


def is_named(rule: Rule) -> bool:
    """
    Whether a rule has the name that its author gave it.

    Args:
        rule: The rule.

    Returns:
        Whether other names can be compared with it.
    """
    return rule.name != _NAMELESS
