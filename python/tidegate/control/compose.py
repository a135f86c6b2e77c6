"""
From files and the database to the one rule set in force.

Rules of files come first, then stored ones by their names. A stored rule that cannot be taken is left out and told: neither a mistake in
one rule nor a name that a file has taken meanwhile keeps the others from coming into force.

A change that rolls out is two versions of one rule. The new one, `orders~12` after the number of its change, is in shadow at first and then
enforced for a share of the keys; the old one is enforced for the others, and in shadow where it is no longer enforced, so that each goes on
counting for all keys. When the change is finished the new body takes the old name, and with it the old counters.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tidegate.control.bodies import read_stored, tells_keys, to_text
from tidegate.errors import RuleError
from tidegate.rule_limiter import RuleLimiter
from tidegate.rules import Rule, RuleSet
from tidegate.rules.checks import Draft, check_rules
from tidegate.rules.compile import compile_rule, compile_rules
from tidegate.rules.load import DOMAIN_DEFAULT
from tidegate.rules.node import Mapping
from tidegate.rules.problem import TooManyProblems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Mapping as Map

    from tidegate.control.bodies import Reading
    from tidegate.control.models import ChangeRequest, StoredRule
    from tidegate.rules.model import Source
    from tidegate.rules.node import Node

ROLLING: Final = frozenset({"shadow", "rolling"})
"""States of a change in which both versions are in force."""

NO_FILES: Final = RuleSet(compile_rules(DOMAIN_DEFAULT, (), None, ()), (), (), (), DOMAIN_DEFAULT)
"""What there is without files."""

_PERCENT: Final = 100


@dataclass(frozen=True, slots=True)
class Composition:
    """
    What is in force.

    Args:
        rule_set: The rules of all sources.
        left_out: Stored rules that could not be taken, and why.
    """

    rule_set: RuleSet
    left_out: Map[str, str] = field(default_factory=dict)

    @property
    def problem(self) -> str | None:
        """What is left out, in one line; `None` if nothing is."""
        return "; ".join(f"the stored rule `{name}` is left out: {why}" for name, why in self.left_out.items()) or None


def compose(files: RuleSet | None, stored: Sequence[StoredRule], changes: Sequence[ChangeRequest] = ()) -> Composition:
    """
    Puts the rules of all sources together.

    Args:
        files: The rules of files.
        stored: The rules of the database.
        changes: Changes of them; those that roll out are two versions of a rule.

    Returns:
        The rule set, and what had to be left out. It never fails.
    """
    base = NO_FILES if files is None else files
    taken = {rule.name: rule for rule in base.rules}
    bodies = {rule.rule_id: rule.body for rule in stored}
    rolling = {change.rule_id: change for change in changes if change.state in ROLLING}
    found: list[Rule] = []
    left_out: dict[str, str] = {}
    for name in sorted(bodies.keys() | rolling.keys()):
        if name in taken:
            left_out[name] = f"{taken[name].file}:{taken[name].line} has a rule of this name"
            continue
        found.extend(_versions(name, bodies.get(name), rolling.get(name), base.identity, left_out))
    ir = base.ir | {"rules": [*base.ir["rules"], *map(compile_rule, found)]}
    return Composition(replace(base, ir=ir, rules=(*base.rules, *found)), left_out)


def _versions(
    name: str, body: dict[str, object] | None, change: ChangeRequest | None, identity: tuple[Source, ...], left_out: dict[str, str]
) -> Iterator[Rule]:
    old = None if body is None else _rule(name, body, identity, left_out)
    if change is None:
        if old is not None:
            yield old
        return
    new = None if change.body is None else _rule(name, change.body, identity, left_out)
    yield from versions(old, new, change.id, share_of(change))


def share_of(change: ChangeRequest) -> int:
    """
    The share of keys that a change has reached.

    Args:
        change: A change that rolls out.

    Returns:
        Percent; 0 is shadow.
    """
    return int(change.steps[change.step]) if change.step < len(change.steps) else _PERCENT


def versions(old: Rule | None, new: Rule | None, change_id: int, share: int) -> Iterator[Rule]:
    """
    The two versions of a rule while a change of it rolls out.

    Args:
        old: The rule as it was; `None` if there was none.
        new: The rule as it will be; `None` if it is removed.
        change_id: The number of the change.
        share: The percentage of keys that have the new one.

    Yields:
        Those that are in force.
    """
    reached = share * 100
    if old is not None:
        # Keys of other attributes have other places: until the end all of them keep the old one, because some would have neither.
        is_apart = new is not None and new.per != old.per
        yield old if reached == 0 or is_apart else replace(old, rollout_from=reached)
    if new is not None:
        # A rule that nobody had before needs no second name, and keeps its counters.
        name = new.name if old is None else f"{new.name}~{change_id}"
        if reached == 0:
            yield replace(new, name=name, mode="shadow" if new.mode == "enforce" else new.mode)
        else:
            yield replace(new, name=name, rollout=min(new.rollout, reached))


def _rule(name: str, body: dict[str, object], identity: tuple[Source, ...], left_out: dict[str, str]) -> Rule | None:
    rule, problems = read_stored(name, to_text(body), identity)
    if rule is None:
        left_out[name] = problems[0].message if problems else "it cannot be read"
    return rule


class _InForce(Draft):
    """
    A rule that is in force: what is wrong with it was told when it came.
    """

    def add(self, code: str, node: Node, message: str, hint: str | None = None) -> None:
        """
        Tells nobody.
        """


def check(reading: Reading, composed: RuleSet) -> None:
    """
    Compares a rule with those in force, and notes in its report what can be said only then.

    Args:
        reading: The rule.
        composed: The set in force; of its own name only a rule of a file is compared.
    """
    rule, node = reading.rule, reading.node
    if rule is None or node is None:
        return
    others = [one for one in composed.rules if one.name.partition("~")[0] != rule.name or one.file != rule.file]
    place = next((at for at, one in enumerate(others) if one.file == rule.file and one.name > rule.name), len(others))
    drafts: list[Draft] = [_InForce(reading.document, node, one) for one in others]
    drafts.insert(place, Draft(reading.document, node, rule))
    try:
        check_rules(drafts, composed.identity)
        _refuse_keys(reading, rule, composed.identity)
        if not reading.document.report.has_errors:
            _try(reading, composed, rule)
    except TooManyProblems:
        return


def _refuse_keys(reading: Reading, rule: Rule, identity: tuple[Source, ...]) -> None:
    codes = {"overrides": "bad-override", "match": "bad-condition"}
    for part in sorted(tells_keys(rule, identity)):
        node = reading.node.get(part) if isinstance(reading.node, Mapping) else None
        if node is not None:
            message = "the keys of customers, and other credentials, are not stored with rules"
            hint = "give a key its plan with PUT /admin/v1/quotas/{api_key}: of it only a digest is kept; other secrets belong into a file"
            reading.document.add(codes[part], node, message, hint)


def _try(reading: Reading, composed: RuleSet, rule: Rule) -> None:
    # What the engine refuses must not get as far as the instances: they would keep all that they have.
    alone = replace(composed, ir=composed.ir | {"rules": [compile_rule(rule)], "domains": []}, rules=(rule,))
    try:
        RuleLimiter(alone).close()
    except RuleError as error:
        reading.document.add_at("bad-quota", 1, 1, str(error))
