"""
Answers of a service, hostile until they are checked.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tidegate.client.away import Away
from tidegate.client.decision import RemoteDecision, RemoteQuotaStatus, retry_field

if TYPE_CHECKING:
    from tidegate.client.facts import Question

_SECOND = 1_000_000_000
# Three hundred years: more than any quota can make anybody wait, and its nanoseconds fit into 64 bits.
_SECONDS_MAX = 10**10
_UNITS_MAX = 2**64
_TEXT_MAX = 4_096
_LIST_MAX = 10_000


def read_decision(body: bytes, question: Question) -> RemoteDecision:
    """
    Reads the answer to a check, a peek or a debit.

    Args:
        body: What the service sent.
        question: What it was asked.

    Returns:
        The decision.

    Raises:
        Away: It makes no sense.
    """
    said = _Members(_object(body))
    allowed, retry_after_ns = said.flag("allowed"), said.optional_time("retry_after")
    fields = said.fields("fields")
    return RemoteDecision(
        allowed=allowed,
        cost=said.number("cost"),
        limit=said.optional_number("limit"),
        remaining=said.optional_number("remaining"),
        retry_after_ns=retry_after_ns,
        retry_is_hint=said.flag("retry_is_hint"),
        reset_after_ns=said.time("reset_after"),
        delay_ns=said.time("delay"),
        degraded=said.flag("degraded"),
        reason=said.optional_text("reason"),
        lease=said.optional_text("lease"),
        generation=said.number("generation"),
        rule=said.optional_text("rule"),
        rules=said.texts("rules"),
        shadowed=said.texts("shadowed"),
        quotas=tuple(_quota(_Members(item)) for item in said.items("quotas")),
        header_fields=retry_field(retry_after_ns, allowed=allowed) if fields is None else fields,
        question=question,
    )


def read_flag(body: bytes, name: str) -> bool:
    """
    Reads the answer to a question that is answered by yes or no.

    Args:
        body: What the service sent.
        name: The member that says it, such as `released`.

    Returns:
        What it says.

    Raises:
        Away: It makes no sense.
    """
    return _Members(_object(body)).flag(name)


def _quota(said: _Members) -> RemoteQuotaStatus:
    return RemoteQuotaStatus(
        name=said.text("name"),
        quota=said.text("quota"),
        rule=said.optional_text("rule"),
        mode=said.text("mode"),
        algorithm=said.text("algorithm"),
        allowed=said.flag("allowed"),
        limit=said.optional_number("limit"),
        remaining=said.optional_number("remaining"),
        retry_after_ns=said.optional_time("retry_after"),
        reset_after_ns=said.time("reset_after"),
        delay_ns=said.time("delay") if said.has("delay") else 0,
    )


def _object(body: bytes) -> Any:  # noqa: ANN401  # anything, until it is looked at
    try:
        return json.loads(body)
    # A document that is nested ten thousand deep ends the parser in its own way.
    except (ValueError, RecursionError):
        raise _wrong("the answer is no JSON") from None


class _Members:
    """
    The members of an object that should have them.
    """

    __slots__ = ("_members",)

    def __init__(self, members: object) -> None:
        if not isinstance(members, dict):
            raise _wrong("the answer is no object")
        self._members = members

    def has(self, name: str) -> bool:
        return name in self._members

    def flag(self, name: str) -> bool:
        value = self._members.get(name)
        if value is True or value is False:
            return value
        raise _wrong(f"{name} is neither true nor false")

    def number(self, name: str) -> int:
        value = self._members.get(name)
        if type(value) is int and 0 <= value <= _UNITS_MAX:
            return value
        raise _wrong(f"{name} is no whole number")

    def optional_number(self, name: str) -> int | None:
        return None if self._is_null(name) else self.number(name)

    def time(self, name: str) -> int:
        value = self._members.get(name)
        # Comparing also refuses what is not a number although it is a float.
        if isinstance(value, (int, float)) and type(value) is not bool and 0 <= value <= _SECONDS_MAX:
            return round(value * _SECOND)
        raise _wrong(f"{name} is no time")

    def optional_time(self, name: str) -> int | None:
        return None if self._is_null(name) else self.time(name)

    def text(self, name: str) -> str:
        return _text(self._members.get(name), name)

    def optional_text(self, name: str) -> str | None:
        return None if self._is_null(name) else self.text(name)

    def items(self, name: str) -> list[object]:
        value = self._members.get(name)
        if type(value) is list and len(value) <= _LIST_MAX:
            return value
        raise _wrong(f"{name} is no list, or too long a one")

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(_text(item, name) for item in self.items(name))

    def fields(self, name: str) -> tuple[tuple[str, str], ...] | None:
        """
        Header fields, which go into somebody's response: a line break in one would begin another.
        """
        value = self._members.get(name)
        if value is None:
            return None
        if type(value) is not dict or len(value) > _LIST_MAX:
            raise _wrong(f"{name} is no object, or too large a one")
        found = tuple((field, _text(text, name)) for field, text in value.items())
        if not all(field.replace("-", "").isalnum() and (field + text).isascii() and text.isprintable() for field, text in found):
            raise _wrong(f"{name} holds what no header can")
        return found

    def _is_null(self, name: str) -> bool:
        # A member that is missing is not null: the answer is another one than was expected.
        return name in self._members and self._members[name] is None


def _text(value: object, name: str) -> str:
    if isinstance(value, str) and len(value) <= _TEXT_MAX:
        return value
    raise _wrong(f"{name} is no text, or too long a one")


def _wrong(detail: str) -> Away:
    return Away("service_protocol_error", f"the service answers what makes no sense: {detail}")
