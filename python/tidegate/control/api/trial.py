"""
What would be: a draft with its mistakes, and what the rules make of a request.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from tidegate.control.api.access import Caller, Control, InControl, needs
from tidegate.control.api.change_forms import Difference, differences
from tidegate.control.api.problem import Problem, described
from tidegate.control.api.rule_forms import RuleDraft, summary, to_yaml
from tidegate.control.compose import compose
from tidegate.control.models import StoredRule
from tidegate.control.roles import Role
from tidegate.control.simple import of_rule
from tidegate.errors import RuleError, UsageError
from tidegate.rules import RuleSet
from tidegate.rules.compile import compile_rule
from tidegate.rules.explain import explain

if TYPE_CHECKING:
    from collections.abc import Collection

router = APIRouter(prefix="/api/v1/rate-limit/rules", tags=["rules"])

Viewer = Annotated[Caller, needs(Role.VIEWER)]
Fact: TypeAlias = str | int | dict[str, str] | None


class Found(BaseModel):
    """
    One thing that is wrong with a draft, in the words of `tidegate rules lint`.
    """

    path: str
    message: str
    code: str
    severity: str
    hint: str | None
    line: int | None
    column: int | None
    length: int | None


class Verdict(BaseModel):
    """
    What was found out about a draft.
    """

    is_good: bool
    problems: list[Found]
    rule_id: str | None
    rule: dict[str, Any] | None
    """What would be kept."""
    text: str | None
    summary: str | None
    simple: dict[str, Any] | None
    """The same in simple fields."""
    differences: list[Difference]
    """What would change."""


class Question(BaseModel):
    """
    A request to explain.
    """

    model_config = ConfigDict(extra="forbid")
    attributes: dict[str, Fact]
    """The facts about it: `method`, `path`, `host`, `ip`, anything else, and mappings under `headers` and `query`."""
    cost: int | None = Field(default=None, ge=0, le=2**53)
    draft: RuleDraft | None = None
    """A rule that is not in force, to look at as if it were."""


@router.post("/validate", responses=described(401, 403, 413, 422, 503))
def validate(body: RuleDraft, control: InControl, _caller: Viewer) -> Verdict:
    """
    Looks at a draft, and changes nothing. What is wrong with it is the answer, not an error.
    """
    in_force = control.follower.composition.rule_set
    reading = body.read(None, in_force)
    rule = reading.rule if reading.is_good else None
    kept = None if rule is None else reading.body()
    before = None
    if rule is not None:
        with control.database.reading() as session:
            stored = session.get(StoredRule, rule.name)
            before = None if stored is None else stored.body
    return Verdict(
        is_good=rule is not None,
        problems=[Found(**found) for found in body.wrong(reading.problems)],
        rule_id=None if rule is None else rule.name,
        rule=kept,
        text=None if kept is None else to_yaml(kept),
        summary=None if rule is None else summary(rule, in_force.identity),
        simple=None if rule is None else of_rule(rule),
        differences=[] if rule is None else differences(rule.name, before, kept, in_force.identity),
    )


@router.post("/explain", responses=described(401, 403, 413, 422, 503))
def explain_request(body: Question, control: InControl, _caller: Viewer) -> dict[str, Any]:
    """
    Explains what the rules make of a request, rule by rule, for a client of whom nothing is known yet.
    """
    rule_set = control.follower.composition.rule_set if body.draft is None else with_draft(control, body.draft)
    try:
        return explain(rule_set, body.attributes, body.cost).to_dict()
    except (UsageError, RuleError, OverflowError, UnicodeError) as error:
        raise Problem(422, f"the request cannot be explained: {error}") from None


def with_draft(control: Control, draft: RuleDraft) -> RuleSet:
    """
    The rules in force, with one that is not.

    Args:
        control: The control plane.
        draft: The rule; it replaces the stored one of its name.

    Returns:
        The rules.

    Raises:
        Problem: 422 if there is something wrong with it.
    """
    rule, kept = draft.good(None, control.follower.composition.rule_set)
    stored, rolling = control.follower.state
    others = [one for one in stored if one.rule_id != rule.name]
    made = StoredRule(rule_id=rule.name, revision=0, body=kept)
    return compose(control.follower.files, [*others, made], [one for one in rolling if one.rule_id != rule.name]).rule_set


def without(rule_set: RuleSet, names: Collection[str]) -> RuleSet:
    """
    Rules without some of them.

    Args:
        rule_set: The rules.
        names: Those that are left out.

    Returns:
        The rules.
    """
    rules = tuple(rule for rule in rule_set.rules if rule.name not in names)
    return replace(rule_set, rules=rules, ir=rule_set.ir | {"rules": [compile_rule(rule) for rule in rules]})
