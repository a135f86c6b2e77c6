"""
What the rules make of one request: which apply, why the others do not, and which quota binds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tidegate.rule_limiter import RuleLimiter
from tidegate.rules import words
from tidegate.rules.diff.secrets import without_secrets
from tidegate.rules.model import ROLLOUT_ALL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate import Decision
    from tidegate.rule_limiter import Attributes
    from tidegate.rules import RuleSet
    from tidegate.rules.model import Rule, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """
    What became of one rule.

    Args:
        rule: Its name.
        outcome: `applies`, `no_match`, `no_key`, `stopped` or `off`.
        why: The reason in words; empty if it simply applies.
        mode: Whether it is enforced for this request: `enforce`, `shadow` or `off`.
        key: Who is counted, as `name=value`; none counts everybody together.
        plan: Which plan the key has: `default`, `tier ...` or `override ...`.
        quotas: The quotas of the plan.
        cost: What the request costs; `None` if the rule does not apply.
        stops: Whether no later rule is looked at because of it.
    """

    rule: str
    outcome: str
    why: str
    mode: str
    key: tuple[str, ...]
    plan: str
    quotas: tuple[str, ...]
    cost: int | None
    stops: bool

    @property
    def applies(self) -> bool:
        """Whether the request is counted by it, or stopped at it."""
        return self.outcome == "applies"


@dataclass(frozen=True, slots=True)
class Binding:
    """
    The quota that comes first to its end, for a client of whom nothing is known yet.

    Args:
        allowed: Whether the request would pass.
        rule: The rule.
        quota: The quota.
        limit: The most that it admits at once; `None` is unlimited.
        remaining: The largest cost that every quota admits after it; `None` is unlimited.
    """

    allowed: bool
    rule: str
    quota: str
    limit: int | None
    remaining: int | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """
    All of it.

    Args:
        attributes: The request as the rules see it, after paths, addresses and names were brought to one spelling.
        verdicts: One for each rule, in the order in which they are looked at.
        binding: What decides; `None` if no enforced rule applies, and so the request is allowed.
        shadowed: Rules in shadow that would deny it.
    """

    attributes: Mapping[str, str]
    verdicts: tuple[Verdict, ...]
    binding: Binding | None
    shadowed: tuple[str, ...]

    @property
    def summary(self) -> str:
        """Who decides, in one sentence."""
        applying = [verdict for verdict in self.verdicts if verdict.applies]
        if self.binding is not None:
            answer = "allowed" if self.binding.allowed else "denied, and never allowed at this cost"
            left = "" if self.binding.remaining is None else f", {self.binding.remaining} left after it"
            return f"{self.binding.rule} binds with {self.binding.quota}: {answer}{left}"
        if not applying:
            return "no rule applies: allowed"
        if applying[-1].stops and not applying[-1].quotas:
            return f"{applying[-1].rule} lets it pass: allowed"
        return "no enforced rule applies: allowed"

    def to_dict(self) -> dict[str, Any]:
        """
        The same for programs.

        Returns:
            What JSON can say.
        """
        return asdict(self) | {"summary": self.summary}


def explain(rule_set: RuleSet, attributes: Attributes, cost: int | None = None) -> Explanation:
    """
    Explains what rules make of a request, on a limiter of its own: no counter that is in use changes or matters.

    Args:
        rule_set: The rules.
        attributes: The facts about the request.
        cost: How much; by default what each rule says.

    Returns:
        The explanation.
    """
    limiter = RuleLimiter(rule_set)
    told = limiter.explain(attributes)
    # Not a peek: while nothing is used, all quotas are equally far from their end.
    decision = limiter.check(attributes, cost)
    by_name = {rule.name: rule for rule in rule_set.rules}
    verdicts = tuple(_verdict(entry, by_name[entry["rule"]], cost, rule_set.identity) for entry in told["rules"])
    return Explanation(told["attributes"], verdicts, _binding(decision), decision.shadowed)


def _binding(decision: Decision) -> Binding | None:
    quota = decision.quota
    if quota is None or quota.rule is None:
        return None
    return Binding(decision.allowed, quota.rule, quota.quota, decision.limit, decision.remaining)


def _verdict(entry: Mapping[str, Any], rule: Rule, cost: int | None, identity: tuple[Source, ...]) -> Verdict:
    applies = entry["outcome"] == "applies"
    stated = entry.get("cost") if cost is None or not applies else cost
    return Verdict(
        rule=rule.name,
        outcome=entry["outcome"],
        why=_why(entry, rule, identity),
        mode="off" if rule.mode == "off" else entry["mode"],
        key=tuple(entry.get("key", ())),
        plan=entry["plan"],
        quotas=tuple(entry["quotas"]),
        cost=stated,
        stops=applies and rule.stop,
    )


def _why(entry: Mapping[str, Any], rule: Rule, identity: tuple[Source, ...]) -> str:
    outcome, why = entry["outcome"], str(entry["why"])
    if outcome == "no_match":
        # The engine names the attribute; what was asked of it stands in the rule, and who asks need not know the value of a credential.
        failed = next(
            (
                one
                for one in without_secrets(rule.match, identity)
                if why.startswith(f"{one.attribute} is ") or why == f"the request has no {one.attribute}"
            ),
            None,
        )
        return why if failed is None else f"{why}, and the rule asks for: {words.asked(failed)}"
    if outcome == "applies" and rule.mode == "enforce" and rule.rollout < ROLLOUT_ALL:
        among = "among" if entry["mode"] == "enforce" else "not among"
        return f"the key is {among} the {words.rollout(rule.rollout)} for which it is enforced"
    return why
