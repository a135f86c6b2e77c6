"""
What the rules want to know of a request, so that nothing else is copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.rules import Rule, RuleSet
    from tidegate.rules.model import Source


@dataclass(frozen=True, slots=True)
class Reads:
    """
    The parts of a request that are looked at.

    Args:
        attributes: Names such as `method`, `path` and `host`; `None` for all of them.
        headers: Names of headers, in lower case; `None` for all of them.
        query: Names of parameters; `None` for all of them.
        has_identity: Whether the rules themselves say who the client is. Otherwise somebody has to tell them.
        is_address_only: Whether they read the address and nothing else; `scope` is not of the request, the route says it.
    """

    attributes: frozenset[str] | None
    headers: frozenset[str] | None
    query: frozenset[str] | None
    has_identity: bool
    is_address_only: bool = False

    @classmethod
    def of(cls, rule_set: RuleSet) -> Reads:
        """
        What the rules of a set read.

        Args:
            rule_set: The rules.

        Returns:
            The names.
        """
        names = {name for rule in rule_set.rules for name in _names(rule)}
        headers = {name.removeprefix("header:").lower() for name in names if name.startswith("header:")}
        for source in rule_set.identity:
            headers.update(_headers(source))
        if rule_set.ir.get("jwt") is not None:
            headers.add(rule_set.ir["jwt"]["header"].lower())
        query = frozenset(name.removeprefix("query:") for name in names if name.startswith("query:"))
        attributes = frozenset(name for name in names if ":" not in name) | {source.attribute for source in rule_set.identity}
        is_address_only = attributes <= {"ip", "client", "scope"} and not headers and not query and bool(rule_set.identity)
        return cls(attributes, frozenset(headers), query, bool(rule_set.identity), is_address_only)


EVERYTHING = Reads(None, None, None, has_identity=False)
"""For rules that are elsewhere. Those that have an identity do not read the client that is named here."""


def _names(rule: Rule) -> Iterator[str]:
    yield from rule.per
    for condition in rule.match:
        yield condition.attribute
    if rule.cost.attribute is not None:
        yield rule.cost.attribute


def _headers(source: Source) -> Iterator[str]:
    if source.kind == "header":
        yield source.name.lower()
    elif source.kind == "ip" and source.trusted_proxies:
        yield "x-forwarded-for"
