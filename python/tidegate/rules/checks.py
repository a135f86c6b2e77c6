"""
What can be said only when all rules are known: names that clash, rules that nobody reaches, tiers that nobody has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.rules.names import KNOWN_ATTRIBUTES, closest
from tidegate.rules.node import Mapping, Node
from tidegate.rules.patterns import captures_of
from tidegate.rules.plans import check_plans
from tidegate.rules.reach import check_condition, check_reach
from tidegate.rules.rule import is_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.rules.document import Document
    from tidegate.rules.model import Rule, Source

RULES_MAX = 100_000
"""What the engine takes."""


@dataclass(slots=True)
class Draft:
    """
    A rule with the place where it is written.

    Args:
        document: Its file.
        node: Its node.
        rule: What it says.
    """

    document: Document
    node: Node
    rule: Rule

    def at(self, *names: str) -> Node:
        """
        The node of one of its parts.

        Args:
            names: The way to it, key by key.

        Returns:
            The node, or the nearest one above it that exists.
        """
        node = self.node
        for name in names:
            found = node.get(name) if isinstance(node, Mapping) else None
            if found is None:
                break
            node = found
        return node

    def add(self, code: str, node: Node, message: str, hint: str | None = None) -> None:
        """
        Notes a problem; see `Document.add`.
        """
        self.document.add(code, node, message, hint)


def check_set(
    drafts: list[Draft],
    identity: tuple[Source, ...],
    sections: dict[str, tuple[Document, Node]],
    *,
    has_domains: bool,
    documents: Sequence[Document],
) -> None:
    """
    Compares everything with everything.

    Args:
        drafts: All rules.
        identity: How clients are named.
        sections: Where `identity` and `jwt` are written.
        has_domains: Whether there are trees in the reference service's format too.
        documents: The files in the language of rules.
    """
    _check_jwt(identity, sections)
    check_rules(drafts, identity)
    if not drafts and not has_domains and documents and not documents[0].report.has_errors:
        documents[0].add_at("no-rules", 1, 1, "there is no rule, so every request is allowed", "add `rules:` with at least one rule")


def check_rules(drafts: list[Draft], identity: tuple[Source, ...]) -> None:
    """
    Compares rules with each other.

    Args:
        drafts: All rules, in their order.
        identity: How clients are named.
    """
    _check_names(drafts)
    if len(drafts) > RULES_MAX:
        first = drafts[RULES_MAX]
        first.add(
            "too-many-rules",
            first.node,
            f"there are {len(drafts):,} rules, and at most {RULES_MAX:,} are possible",
            "use tiers and overrides",
        )
    known = _known_attributes(drafts, identity)
    captures = {name: draft.rule.name for draft in drafts for name in _captures(draft.rule)}
    for draft in drafts:
        rule = draft.rule
        if rule.match:
            _check_match(draft, known, has_identity=bool(identity))
        _check_captures(draft, captures)
        check_plans(draft)
        if rule.mode != "enforce" and isinstance(draft.node, Mapping) and "rollout" in draft.node.entries:
            draft.add("no-effect", draft.at("rollout"), f"`rollout` has no effect with `mode: {rule.mode}`", "remove one of them")
    check_reach(drafts)


def _check_jwt(identity: tuple[Source, ...], sections: dict[str, tuple[Document, Node]]) -> None:
    claims = [source.name for source in identity if source.kind == "jwt_claim"]
    if claims and "jwt" not in sections:
        document, node = sections["identity"]
        message = f"the claim `{claims[0]}` is used, and nobody says how tokens are verified"
        document.add("jwt-missing", node, message, "add a section `jwt` with a key, or with `verified_by: upstream`")
    if "jwt" in sections and not claims:
        document, node = sections["jwt"]
        document.add(
            "no-effect", node, "`jwt` has no effect: no source of `identity` is a `jwt_claim`", "add `- jwt_claim: sub`, or remove `jwt`"
        )


def _check_names(drafts: list[Draft]) -> None:
    first: dict[str, Rule] = {}
    for draft in drafts:
        rule = draft.rule
        if not is_named(rule):
            continue
        other = first.setdefault(rule.name, rule)
        if other is not rule:
            message = f"the name `{rule.name}` is taken by the rule in {other.file}:{other.line}"
            draft.add("duplicate-name", draft.at("name"), message, "give each rule a name of its own")


def _known_attributes(drafts: list[Draft], identity: tuple[Source, ...]) -> set[str]:
    known = {source.attribute for source in identity} | set(KNOWN_ATTRIBUTES)
    for draft in drafts:
        known.update(draft.rule.per)
    return known


def _captures(rule: Rule, *, is_negated: bool = False) -> set[str]:
    patterns = (condition for condition in rule.match if condition.test == "pattern" and condition.is_negated == is_negated)
    return {name for condition in patterns for text in condition.texts for name in captures_of(text)}


def _check_match(draft: Draft, known: set[str], *, has_identity: bool) -> None:
    for condition in draft.rule.match:
        attribute = condition.attribute
        check_condition(draft, condition)
        if attribute == "client" and not has_identity:
            hint = "add a section `identity`, or let the caller pass `client`"
            draft.add(
                "client-without-identity", draft.at("match", "client"), "`client` is matched, and no `identity` says who that is", hint
            )
        elif attribute not in known and ":" not in attribute:
            meant = closest(attribute, (*KNOWN_ATTRIBUTES, "headers", "query"))
            if meant is not None:
                message = f"`{attribute}` is an attribute that the caller has to pass"
                draft.add("suspicious-attribute", draft.at("match", attribute), message, f"did you mean `{meant}`?")


def _check_captures(draft: Draft, captures: dict[str, str]) -> None:
    rule = draft.rule
    own = _captures(rule)
    for name in rule.per:
        if name in own:
            paths = [text for condition in rule.match if condition.attribute == "path" for text in condition.texts]
            without = [text for text in paths if name not in captures_of(text)]
            if without:
                message = f"`{name}` is not captured by {without[0]:.80}, so the rule does not apply there"
                draft.add("capture-missing", draft.at("per"), message, f"write {{{name}}} into each path, or make two rules")
        elif name in _captures(rule, is_negated=True):
            message = f"`{name}` is captured by a path that must not match, so it is never set"
            draft.add("capture-missing", draft.at("per"), message, "capture it in a path that must match")
        elif name in captures:
            message = f"`{name}` is captured by the path of `{captures[name]}`, and not by that of this rule"
            draft.add("capture-missing", draft.at("per"), message, f"write {{{name}}} into the path, or let the caller pass it")
        elif own and (meant := closest(name, own)) is not None and name not in KNOWN_ATTRIBUTES:
            draft.add("capture-missing", draft.at("per"), f"the path does not capture `{name}`", f"did you mean `{meant}`?")
