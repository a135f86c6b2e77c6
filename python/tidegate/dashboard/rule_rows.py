"""
Rules as pages list them: what is in force, with what each decided in the last hour, and what would change if its mode did.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.control.bodies import DATABASE
from tidegate.dashboard import charts, shown, traffic, words
from tidegate.dashboard.traffic import Count
from tidegate.rules import words as rule_words
from tidegate.rules.diff.secrets import without_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from markupsafe import Markup

    from tidegate.control.models import ChangeRequest, StoredRule
    from tidegate.rules import RuleSet
    from tidegate.rules.model import Rule


@dataclass(frozen=True, slots=True)
class Row:
    """
    One rule in force.

    Args:
        rule: The rule.
        stored: Its row, if it is one of the database.
        change: A change of it that is under way.
        minutes: Its last hour.
    """

    rule: Rule
    stored: StoredRule | None
    change: ChangeRequest | None
    minutes: Sequence[Count]

    @property
    def name(self) -> str:
        """Its name."""
        return self.rule.name

    @property
    def is_file(self) -> bool:
        """Whether it is changed in a file, and not here."""
        return self.rule.file != DATABASE

    @property
    def source(self) -> str:
        """Where it is written."""
        return f"{self.rule.file}, line {self.rule.line}" if self.is_file else "this control plane"

    @property
    def mode(self) -> str:
        """`enforce`, `shadow` or `off`."""
        return self.rule.mode

    @property
    def rollout(self) -> str:
        """The share of keys for which it is enforced."""
        return rule_words.rollout(self.rule.rollout)

    @property
    def matches(self) -> str:
        """What it asks of requests."""
        return rule_words.match(self.rule.match)

    @property
    def per(self) -> str:
        """Who is counted."""
        return rule_words.per(self.rule.per)

    @property
    def quotas(self) -> str:
        """The default plan."""
        return rule_words.quotas(self.rule.quotas)

    @property
    def tiers(self) -> int:
        """How many tiers its text has."""
        return len(self.rule.tiers)

    @property
    def tier_names(self) -> str:
        """The tiers of its text, with their quotas."""
        return "; ".join(f"{tier} {rule_words.quotas(quotas)}" for tier, quotas in self.rule.tiers.items())

    @property
    def on_store_error(self) -> str:
        """What is decided when the store cannot."""
        return self.rule.on_store_error or "as the service says"

    @property
    def revision(self) -> int:
        """The revision in force; 0 for rules of files."""
        return 0 if self.stored is None else self.stored.revision

    @property
    def updated_at(self) -> datetime | None:
        """When it was changed."""
        return None if self.stored is None else self.stored.updated_at

    @property
    def updated_by(self) -> str:
        """Who changed it."""
        return "" if self.stored is None else self.stored.updated_by

    @property
    def text(self) -> str:
        """Its text, as it would stand in a file."""
        if self.stored is not None:
            return shown.text_of(self.stored.body)
        return f"# {self.source}\n{self.matches}\nper {self.per}\n{self.quotas}"

    @property
    def allowed(self) -> int:
        """Requests that it had room for, in the last hour."""
        return sum(count.allowed for count in self.minutes)

    @property
    def denied(self) -> int:
        """Requests that it denied."""
        return sum(count.denied for count in self.minutes)

    @property
    def shadow_denied(self) -> int:
        """Requests that it would have denied, were it not in shadow."""
        return sum(count.shadow_denied for count in self.minutes)

    @property
    def total(self) -> int:
        """Requests that it met."""
        return self.allowed + self.denied

    @property
    def if_changed(self) -> str:
        """What would be different in its other mode, by the last hour."""
        if not self.total:
            return "no traffic to tell by"
        if self.mode == "shadow" or self.shadow_denied:
            return f"enforced, it would deny {words.count(self.shadow_denied)} more ({words.share(self.shadow_denied, self.total)})"
        if self.denied:
            return f"in shadow, {words.count(self.denied)} more would pass ({words.share(self.denied, self.total)})"
        return "nothing: it denied nobody"

    @property
    def spark(self) -> Markup:
        """Its last hour in a row of a table."""
        return charts.sparkline(
            [count.total for count in self.minutes], "tide", f"{words.count(self.total)} decisions of {self.name}, last hour"
        )


def rows(
    rule_set: RuleSet, stored: Sequence[StoredRule], changes: Sequence[ChangeRequest], minutes: Mapping[str, Sequence[Count]]
) -> list[Row]:
    """
    All rules in force, in the order in which they are looked at.

    Args:
        rule_set: The set in force.
        stored: The rules of the database.
        changes: Changes that are under way.
        minutes: The last hour of each rule.

    Returns:
        The rows.
    """
    by_id = {row.rule_id: row for row in stored}
    by_rule = {change.rule_id: change for change in reversed(changes)}
    nothing = [Count()] * traffic.MINUTES
    # What a file asks of headers may be a secret of those who wrote it; everybody with a token sees these rows.
    shown_rules = [replace(rule, match=without_secrets(rule.match, rule_set.identity)) for rule in rule_set.rules]
    # The second version of a rule that is being changed, `orders~12`, belongs to the rule.
    return [
        Row(rule, by_id.get(origin) if rule.file == DATABASE else None, by_rule.get(origin), minutes.get(rule.name, nothing))
        for rule in shown_rules
        for origin in [rule.name.partition("~")[0]]
    ]
