"""
Traffic of before, decided again by other rules.

Requests are decided in the order of their times on a clock that stands where each of them stood, with counters of their own: nothing that
is in use changes or matters.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tidegate.rule_limiter import RuleLimiter
from tidegate.rules.compile import compile_rule
from tidegate.rules.model import ROLLOUT_ALL
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tidegate import Decision
    from tidegate.rule_limiter import Attributes
    from tidegate.rules import RuleSet

_GROUPS: Final = {"header": "headers", "query": "query"}


@dataclass(frozen=True, slots=True)
class Request:
    """
    One request of before.

    Args:
        at_ns: When it came, in nanoseconds since 1970.
        attributes: The facts about it.
        cost: How much it asked for; `None` is what each rule says.
        weight: How many requests it stands for.
    """

    at_ns: int
    attributes: Attributes
    cost: int | None = None
    weight: int = 1


@dataclass(slots=True)
class Outcome:
    """
    What was decided, in requests.

    Args:
        allowed: Those that pass, or that a rule has room for.
        denied: Those that do not.
        shadow_denied: Those that a rule in shadow would deny.
    """

    allowed: int = 0
    denied: int = 0
    shadow_denied: int = 0


@dataclass(slots=True)
class Replayed:
    """
    What became of all requests.

    Args:
        requests: How many were decided.
        stands_for: How many they stand for. All counts are of these.
        total: What was decided on requests.
        rules: What each rule said to those that it applied to.
    """

    requests: int = 0
    stands_for: int = 0
    total: Outcome = field(default_factory=Outcome)
    rules: Mapping[str, Outcome] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """
        The same for programs.

        Returns:
            What JSON can say.
        """
        return asdict(self)


def replay(rule_set: RuleSet, requests: Iterable[Request]) -> Replayed:
    """
    Decides requests again.

    A request of an earlier time than the one before is decided at the time of that one. Slots of `concurrent` quotas are given back at
    once, because nobody knows how long a request took: such quotas deny nothing here.

    Args:
        rule_set: The rules.
        requests: The requests, in the order of their times.

    Returns:
        What was decided.
    """
    clock: ManualClock | None = None
    limiter: RuleLimiter | None = None
    found: defaultdict[str, Outcome] = defaultdict(Outcome)
    told = Replayed(rules=found)
    for request in requests:
        if clock is None or limiter is None:
            clock = ManualClock(0)
            limiter = RuleLimiter(rule_set, clock=clock)
        clock.advance_ns(max(0, request.at_ns - clock.time_ns()))
        decision = limiter.check(request.attributes, request.cost)
        if decision.lease is not None:
            limiter.release(decision)
        told.requests += 1
        told.stands_for += request.weight
        _count(told.total, request.weight, is_allowed=decision.allowed)
        _count_rules(found, decision, request.weight)
    if limiter is not None:
        limiter.close()
    told.rules = dict(found)
    return told


def enforced(rule_set: RuleSet, names: Collection[str]) -> RuleSet:
    """
    Rules with some of them enforced for everybody, whatever they say themselves.

    Args:
        rule_set: The rules.
        names: Those that are enforced.

    Returns:
        The rules.
    """
    rules = tuple(
        replace(rule, mode="enforce", rollout=ROLLOUT_ALL, rollout_from=0) if rule.name in names else rule for rule in rule_set.rules
    )
    return replace(rule_set, rules=rules, ir=rule_set.ir | {"rules": [compile_rule(rule) for rule in rules]})


def facts(flat: Mapping[str, Any]) -> dict[str, Any]:
    """
    Facts whose names say what they are, as a limiter takes them.

    Args:
        flat: Such as `{"path": "/", "header:x-plan": "pro"}`.

    Returns:
        Such as `{"path": "/", "headers": {"x-plan": "pro"}}`.
    """
    made: dict[str, Any] = {}
    for name, value in flat.items():
        group, colon, inner = name.partition(":")
        if colon and group in _GROUPS:
            made.setdefault(_GROUPS[group], {})[inner] = value
        else:
            made[name] = value
    return made


def _count(outcome: Outcome, weight: int, *, is_allowed: bool) -> None:
    if is_allowed:
        outcome.allowed += weight
    else:
        outcome.denied += weight


def _count_rules(found: defaultdict[str, Outcome], decision: Decision, weight: int) -> None:
    denying = {status.rule for status in decision.quotas if status.mode == "enforce" and not status.allowed}
    for name in decision.rules:
        outcome = found[name]
        if name in decision.shadowed:
            outcome.shadow_denied += weight
        else:
            _count(outcome, weight, is_allowed=name not in denying)
