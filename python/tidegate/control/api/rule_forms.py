"""
Rules as the API takes and gives them.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from tidegate.control import bodies, compose, simple
from tidegate.control.api.problem import Problem
from tidegate.control.audit import REASON_MAX
from tidegate.control.changes import STEP_SECONDS_MAX, STEPS_MAX, Rollout
from tidegate.rules import words
from tidegate.rules.diff.secrets import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate.control.bodies import Reading
    from tidegate.control.models import StoredRule
    from tidegate.rules import Problem as RuleProblem
    from tidegate.rules import Rule, RuleSet
    from tidegate.rules.model import Source

Reason = Annotated[str, Field(max_length=REASON_MAX)]


def _said(kind: dict[str, Any], example: str | int) -> Any:  # noqa: ANN401  # a default of pydantic
    # What is wrong with a value is told by the readers of rules, in their words and with their hints: pydantic takes whatever comes.
    return Field(default=None, json_schema_extra={**kind, "examples": [example]})


class Steps(BaseModel):
    """
    How a change comes into force.
    """

    model_config = ConfigDict(extra="forbid")
    steps: list[Annotated[int, Field(ge=0, le=100)]] = Field(default_factory=list, max_length=STEPS_MAX)
    """Shares of keys in percent, rising; 0 is shadow. Without any the change is in force at once."""
    step_seconds: int = Field(default=0, ge=0, le=STEP_SECONDS_MAX)
    """How long each step lasts; 0 waits to be told."""

    def rollout(self) -> Rollout:
        """
        The same for `changes`.
        """
        return Rollout(tuple(self.steps), self.step_seconds)


class RuleDraft(BaseModel):
    """
    A rule in one of three ways: `text`, `rule`, or the simple fields.
    """

    model_config = ConfigDict(extra="forbid")
    rule_id: str | None = Field(default=None, max_length=128)
    text: str | None = None
    """The rule in YAML, as in a file."""
    rule: dict[str, Any] | None = None
    """The same as JSON."""
    endpoint_pattern: Any = _said({"type": "string"}, "/api/v1/orders/**")
    method: Any = _said({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, "POST")
    limit: Any = _said({"type": "integer", "minimum": 0}, 100)
    window_seconds: Any = _said({"type": "number", "exclusiveMinimum": 0}, 60)
    algorithm: Any = _said({"type": "string"}, "sliding_window")
    scope: Any = _said({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, "client")
    priority: Any = _said({"type": "integer"}, 0)

    def read(self, rule_id: str | None, in_force: RuleSet) -> Reading:
        """
        Reads the rule and compares it with those in force.

        Args:
            rule_id: Its name, if the address says it.
            in_force: The rules in force.

        Returns:
            The rule and what is wrong with it.

        Raises:
            Problem: 422 if it is given in more than one way, or under two names.
        """
        if rule_id is not None and self.rule_id not in {None, rule_id}:
            raise Problem(422, f"the address names the rule `{rule_id:.80}`, and the body names it otherwise")
        fields = {name: value for name in simple.FIELDS if (value := getattr(self, name)) is not None}
        if sum((self.text is not None, self.rule is not None, bool(fields))) != 1:
            raise Problem(422, f"give a rule in one way: `text`, `rule`, or the fields {', '.join(simple.FIELDS)}")
        name = rule_id or self.rule_id
        text = self.text if self.text is not None else bodies.to_text(self.rule if self.rule is not None else simple.to_body(fields))
        reading = bodies.read(name, text, in_force.identity)
        compose.check(reading, in_force)
        return reading

    def wrong(self, problems: Iterable[RuleProblem]) -> list[dict[str, Any]]:
        """
        Problems of a rule, with their places in what was sent.

        Args:
            problems: The problems.

        Returns:
            What JSON can say. Lines are those of `text`; without one there are only paths.
        """
        return [
            {
                "path": problem.path if self.text is not None or self.rule is not None else simple.field_of(problem.path),
                "message": problem.message,
                "code": problem.code,
                "severity": problem.severity,
                "hint": problem.hint,
                "line": problem.line if self.text is not None else None,
                "column": problem.column if self.text is not None else None,
                "length": problem.length if self.text is not None else None,
            }
            for problem in problems
        ]

    def good(self, rule_id: str | None, in_force: RuleSet) -> tuple[Rule, dict[str, Any]]:
        """
        Reads a rule that has to be good.

        Args:
            rule_id: Its name, if the address says it.
            in_force: The rules in force.

        Returns:
            The rule, and the body that is kept.

        Raises:
            Problem: 422 with everything that is wrong.
        """
        reading = self.read(rule_id, in_force)
        if reading.rule is None or not reading.is_good:
            errors = [problem for problem in reading.problems if problem.is_error]
            count = "1 problem" if len(errors) == 1 else f"{len(errors)} problems"
            first = f": {errors[0].message}" if errors else ""
            raise Problem(422, f"the rule cannot be taken, it has {count}{first}", problems=self.wrong(reading.problems))
        return reading.rule, reading.body()


class RuleChange(RuleDraft):
    """
    A rule to put into force.
    """

    reason: Reason = ""
    """Why, for the audit log."""
    rollout: Steps | None = None


class ShownRule(BaseModel):
    """
    A rule, of the database or of a file.
    """

    rule_id: str
    source: Literal["database", "file"]
    is_read_only: bool
    """Whether only its file can change it."""
    revision: int | None
    endpoint_pattern: str | None
    method: str | list[str] | None
    limit: int | None
    window_seconds: float | None
    algorithm: str | None
    scope: str | list[str]
    priority: int
    is_simple: bool
    """Whether the simple fields say all of it."""
    mode: str
    rollout: float
    """The share of keys for which it is enforced, in percent."""
    summary: str
    description: str | None
    owner: str | None
    rule: dict[str, Any] | None
    """All of it; of a file's rule without the keys of customers."""
    text: str | None
    """The same in YAML."""
    updated_at: datetime | None
    updated_by: str | None
    file: str | None
    line: int | None
    change_id: int | None
    """The change of it that waits or rolls out."""
    problem: str | None
    """Why it is not in force, if it is not."""


def shown(rule: Rule, stored: StoredRule | None, identity: tuple[Source, ...], *, change_id: int | None, problem: str | None) -> ShownRule:
    """
    A rule to show.

    Args:
        rule: The rule.
        stored: The row that it comes from; `None` if it is one of a file.
        identity: How clients are named.
        change_id: The change of it that waits or rolls out.
        problem: Why it is not in force.

    Returns:
        What people see.
    """
    body = None if stored is None else stored.body
    return ShownRule(
        rule_id=rule.name,
        source="file" if stored is None else "database",
        is_read_only=stored is None,
        revision=None if stored is None else stored.revision,
        **simple.of_rule(rule),
        mode=rule.mode,
        rollout=rule.rollout / 100,
        summary=summary(rule, identity),
        description=rule.description,
        owner=rule.owner,
        rule=body,
        text=None if body is None else to_yaml(body),
        updated_at=None if stored is None else stored.updated_at,
        updated_by=None if stored is None else stored.updated_by,
        file=rule.file if stored is None else None,
        line=rule.line if stored is None else None,
        change_id=change_id,
        problem=problem,
    )


def summary(rule: Rule, identity: tuple[Source, ...]) -> str:
    """
    A rule in one line.

    Args:
        rule: The rule.
        identity: How clients are named: what of a condition may be shown depends on it.

    Returns:
        Such as `5/minute per ip for method POST, path /login`.
    """
    quotas = words.quotas(rule.quotas) if rule.quotas else "passes"
    return f"{quotas} per {words.per(rule.per)} for {words.match(without_secrets(rule.match, identity))}"


def to_yaml(body: dict[str, Any]) -> str:
    """
    A body as people edit it.

    Args:
        body: The body.

    Returns:
        YAML.
    """
    return yaml.safe_dump(body, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
