"""
Scenarios as they were written: immutable, and each part knows its line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tidegate.rule_limiter import Attributes
    from tidegate.rules import RuleSet
    from tidegate.rules.scenario.descriptors import Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """
    A step that asks.

    Args:
        attributes: The request.
        line: Where it is written.
        cost: How much; `None` is what the rules say.
        times: How often.
        expected: What the decision must say, by the names of `tidegate.rules.scenario.facts`.
    """

    attributes: Attributes
    line: int
    cost: int | None = None
    times: int = 1
    expected: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        named = [str(self.attributes[name]) for name in ("method", "path") if name in self.attributes]
        others = (f"{name}={value}" for name, value in self.attributes.items() if name not in {"method", "path", "headers", "query"})
        nested = (
            f"{one}:{name}={value}"
            for one, group in (("header", "headers"), ("query", "query"))
            for name, value in _mapping(self.attributes.get(group)).items()
        )
        cost = [] if self.cost is None else [f"cost {self.cost}"]
        return " ".join(("request", *named, *others, *nested, *cost))


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """
    A step that moves the clock.

    Args:
        nanoseconds: By how much.
        line: Where it is written.
    """

    nanoseconds: int
    line: int


Step: TypeAlias = "Ask | Advance | Count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """
    A story with its own clock and its own counters.

    Args:
        name: Unique in its file.
        steps: What happens, in this order.
        file: Where it is written.
        line: The line in which it begins.
        start: When it begins, in seconds since the epoch; `None` is a fixed instant, at midnight in UTC.
    """

    name: str
    steps: tuple[Step, ...]
    file: str
    line: int
    start: float | None = None


@dataclass(frozen=True, slots=True)
class Suite:
    """
    A file of scenarios.

    Args:
        path: The file.
        rule_set: The rules that they are about.
        scenarios: The scenarios, in their order.
    """

    path: Path
    rule_set: RuleSet
    scenarios: tuple[Scenario, ...]


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
