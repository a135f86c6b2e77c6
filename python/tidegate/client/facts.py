"""
What is asked of a service, checked as a limiter in this process would check it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from tidegate.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.rule_limiter import Attributes

FACTS_MAX = 1_000
"""The most attributes, headers and query parameters of one request: what is more is an attack or a mistake."""

COST_MAX = 2**53
_LEASE = re.compile(r"[0-9a-fA-F]{1,32}")

Kind: TypeAlias = Literal["check", "peek", "debit", "release", "renew", "reset"]
"""What is asked about a request; the names are those of the methods, and of the calls of the service."""


@dataclass(frozen=True, slots=True)
class Question:
    """
    What is asked of a service.

    Args:
        kind: What.
        facts: The facts about the request, by the names that rules have for them: `path`, `header:x-api-key`, `query:page`.
        cost: How much; by default what each rule says.
        lease: The id of slots.
        max_delay: The longest delay in seconds that is of use.
    """

    kind: Kind
    facts: dict[str, str] = field(repr=False)
    cost: int | None = None
    lease: str | None = None
    max_delay: float | None = None

    @classmethod
    def about(
        cls,
        kind: Kind,
        attributes: Attributes,
        cost: int | None = None,
        *,
        lease: str | None = None,
        max_delay: float | None = None,
    ) -> Question:
        """
        Makes a question of what a caller says.

        Args:
            kind: What is asked.
            attributes: The facts about the request.
            cost: How much.
            lease: The id of slots.
            max_delay: The longest delay.

        Returns:
            The question.

        Raises:
            UsageError: One of them is wrong.
        """
        if cost is not None and (not isinstance(cost, int) or not 0 <= cost <= COST_MAX):
            raise UsageError(f"a cost must be a whole number from 0 to 2**53, not {cost!r:.40}")
        if lease is not None and (not isinstance(lease, str) or not _LEASE.fullmatch(lease)):
            raise UsageError("a lease must be 1 to 32 hexadecimal digits, such as secrets.token_hex(16) makes")
        if max_delay is not None and (not isinstance(max_delay, (int, float)) or not max_delay >= 0):
            raise UsageError("a delay is a number of seconds from 0 up")
        # Infinity is no number of JSON, and means what saying nothing means.
        useful = None if max_delay is None or math.isinf(max_delay) else float(max_delay)
        return cls(kind, facts_of(attributes), None if cost is None else int(cost), lease, useful)


def facts_of(attributes: Attributes) -> dict[str, str]:
    """
    Checks the facts about a request.

    Args:
        attributes: As `RuleLimiter.check` takes them.

    Returns:
        All of them in one table of texts; what is `None` is not among them.

    Raises:
        UsageError: They are no such mapping, or too many.
    """
    facts: dict[str, str] = {}
    for name, value in _items(attributes, "the attributes"):
        if name in {"headers", "query"}:
            space = "header" if name == "headers" else "query"
            for inner, text in () if value is None else _items(value, name):
                _put(facts, f"{space}:{inner}", text)
        else:
            _put(facts, name, value)
    return facts


def _items(mapping: object, what: str) -> Iterator[tuple[str, object]]:
    if not isinstance(mapping, Mapping):
        raise UsageError(f'{what} must be a mapping such as {{"method": "GET"}}, not {type(mapping).__name__}')
    for name, value in mapping.items():
        if not isinstance(name, str):
            raise UsageError(f"the name of an attribute must be a text, not {type(name).__name__}")
        yield name, value


def _put(facts: dict[str, str], name: str, value: object) -> None:
    if value is None:
        return
    if len(facts) >= FACTS_MAX:
        raise UsageError(f"a request has at most {FACTS_MAX} attributes, headers and query parameters")
    if isinstance(value, str):
        facts[name] = value
    elif isinstance(value, bool):
        facts[name] = "true" if value else "false"
    elif isinstance(value, int):
        try:
            facts[name] = str(value)
        except ValueError:
            raise UsageError("an attribute is too large a number") from None
    else:
        raise UsageError(f"the attribute {name!r:.42} must be a text, a whole number or a bool, not {type(value).__name__}")
