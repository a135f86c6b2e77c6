"""
The section `overrides`: plans of single keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.rules.addresses import read_address
from tidegate.rules.fields import OVERRIDE, read_fields
from tidegate.rules.model import Override, QuotaText, Source
from tidegate.rules.names import meant
from tidegate.rules.node import Mapping, Node, Scalar, Sequence, kind_of
from tidegate.rules.quotas import read_quotas
from tidegate.rules.scalars import quoted, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.rules.document import Document
    from tidegate.rules.model import Rule

# As the engine keeps them.
_FOLDS = {"method": str.upper, "host": str.lower}


def read_overrides(document: Document, node: Node, rule: Rule, sources: tuple[Source, ...]) -> tuple[Override, ...]:
    """
    The plans of single keys.

    Args:
        document: Where problems are noted.
        node: What stands under `overrides`.
        rule: The rule, as far as it is known.
        sources: How clients are named, which decides how their keys look.

    Returns:
        Those that are right, in their order.
    """
    if not rule.per:
        document.add(
            "override-key", node, "a rule for everybody together has no keys to override", "remove `overrides`, or name attributes in `per`"
        )
        return ()
    found: dict[tuple[str, ...], Override] = {}
    for place, key, plan in _entries(document, node, rule):
        values = _read_key(document, key, rule, sources)
        quotas, tier = _read_plan(document, plan, rule)
        if values is None or (not quotas and tier is None):
            continue
        if values in found:
            document.add("override-twice", place, f"the key {', '.join(values):.80} is overridden twice", "keep one of them")
        found[values] = Override(values, quotas, tier)
    return tuple(found.values())


def _entries(document: Document, node: Node, rule: Rule) -> Iterator[tuple[Scalar | Mapping, dict[str, Scalar], Node]]:
    if isinstance(node, Mapping):
        if len(rule.per) > 1:
            message = f"a key of this rule has {len(rule.per)} values: {', '.join(rule.per)}"
            document.add("override-key", node, message, f"write a list: `- key: {{{', '.join(f'{name}: ...' for name in rule.per)}}}`")
            return
        for key, plan in node.entries.values():
            yield key, {rule.per[0]: key}, plan
    elif isinstance(node, Sequence):
        for item in node.items:
            entries = read_fields(document, item, OVERRIDE, "an override")
            if entries is not None and "key" in entries and isinstance(item, Mapping):
                values = _key_of(document, entries["key"][1], rule)
                if values is not None:
                    yield item, values, item
    else:
        document.add("wrong-type", node, f"`overrides` is a mapping or a list, and this is {kind_of(node)}", "write {key: 500/minute}")


def _key_of(document: Document, node: Node, rule: Rule) -> dict[str, Scalar] | None:
    if isinstance(node, Scalar) and len(rule.per) == 1:
        return {rule.per[0]: node}
    if not isinstance(node, Mapping) or node.entries.keys() != set(rule.per):
        hint = f"write {{{', '.join(f'{name}: ...' for name in rule.per)}}}"
        document.add("override-key", node, f"a key of this rule has the values {', '.join(rule.per)}", hint)
        return None
    wrong = [value for _, value in node.entries.values() if not isinstance(value, Scalar)]
    for value in wrong:
        document.add("wrong-type", value, f"a text is expected, and this is {kind_of(value)}", "write one value")
    return None if wrong else {name: value for name, (_, value) in node.entries.items() if isinstance(value, Scalar)}


def _read_key(document: Document, key: dict[str, Scalar], rule: Rule, sources: tuple[Source, ...]) -> tuple[str, ...] | None:
    values = []
    for attribute in rule.per:
        scalar = key[attribute]
        text = read_text(document, scalar)
        if text is None:
            return None
        if attribute == "ip":
            value = read_address(document, scalar, text, _ipv6_prefix(sources))
        elif attribute in _FOLDS:
            value = _FOLDS[attribute](text)
        elif attribute == "client":
            value = _read_client(document, scalar, text, sources)
        else:
            value = text
        if value is None:
            return None
        values.append(value)
    return tuple(values)


def _ipv6_prefix(sources: tuple[Source, ...]) -> int:
    return next((source.ipv6_prefix for source in sources if source.kind == "ip"), 64)


def _read_client(document: Document, scalar: Scalar, text: str, sources: tuple[Source, ...]) -> str | None:
    if not sources:
        return text
    if len(sources) == 1:
        return read_address(document, scalar, text, sources[0].ipv6_prefix) if sources[0].kind == "ip" else text
    tag, colon, name = text.partition(":")
    source = next((source for source in sources if source.attribute == tag and colon), None)
    if source is None or not name:
        tags = [f"{source.attribute}:" for source in sources]
        first = next((source.attribute for source in sources if source.kind != "ip"), "ip")
        hint = f"there are several sources, so begin with one of {', '.join(tags)} as in {quoted(f'{first}:{text}')}"
        document.add("override-client", scalar, f"{quoted(text)} does not say which source names this client", hint)
        return None
    if source.kind == "ip":
        address = read_address(document, scalar, name, source.ipv6_prefix)
        return None if address is None else f"{tag}:{address}"
    return text


def _read_plan(document: Document, node: Node, rule: Rule) -> tuple[tuple[QuotaText, ...], str | None]:
    if isinstance(node, Mapping) and ("tier" in node.entries or "quotas" in node.entries or "key" in node.entries):
        return _read_named_plan(document, node, rule)
    return read_quotas(document, node, rule.algorithm), None


def _read_named_plan(document: Document, node: Mapping, rule: Rule) -> tuple[tuple[QuotaText, ...], str | None]:
    for name, (key, _) in node.entries.items():
        # In a list, its own reader has noted the others.
        if name not in OVERRIDE and "key" not in node.entries:
            document.add("unknown-key", key, f"an override has no `{name:.80}`", meant(name, ("quotas", "tier")))
    tier, quotas = node.get("tier"), node.get("quotas")
    if (tier is None) == (quotas is None):
        document.add("bad-override", node, "an override has either `quotas` or `tier`", "write one of them")
        return (), None
    if quotas is not None:
        return read_quotas(document, quotas, rule.algorithm), None
    text = None if tier is None else read_text(document, tier)
    if tier is not None and text is not None and text not in rule.tiers:
        hint = meant(text, rule.tiers) if rule.tiers else "add it to the rule's `tiers`"
        document.add("unknown-tier", tier, f"the rule has no tier `{text:.80}`", hint)
        return (), None
    return (), text
