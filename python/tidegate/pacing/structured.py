"""
Structured fields (RFC 9651), as much of them as rate limits need: lists and dictionaries of plain values with parameters.

The standard asks for strictness: a field with one mistake in it is a field that was not sent.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import TypeAlias

FIELD_CHARACTERS_MAX = 8192
"""Longer fields are not looked at."""

MEMBERS_MAX = 1024
"""What the standard asks of parsers. Fields with more are not looked at."""

Value: TypeAlias = int | float | str | bytes | bool

_NUMBER = re.compile(r"-?\d{1,15}(?!\d)(?!\.)|-?\d{1,12}\.\d{1,3}(?!\d)")
_STRING = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_TOKEN = re.compile(r"[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*")
_BYTES = re.compile(r":[A-Za-z0-9+/=]*:")
_KEY = re.compile(r"[a-z*][a-z0-9_.*-]*")
_BETWEEN = re.compile(r"[ \t]*,[ \t]*")


@dataclass(frozen=True, slots=True)
class Item:
    """
    A value and what is said about it.

    Args:
        value: The value.
        parameters: By name; the last of several of one name counts.
    """

    value: Value
    parameters: dict[str, Value] = field(default_factory=dict)

    def number(self, *names: str) -> int | None:
        """
        A parameter that is a whole number from 0 up.

        Args:
            names: Its names, in the order of preference: drafts have renamed it.

        Returns:
            The number; `None` if there is none.
        """
        found = next((self.parameters[name] for name in names if name in self.parameters), None)
        return found if type(found) is int and found >= 0 else None


def items(text: str | None) -> list[Item]:
    """
    Reads a list.

    Args:
        text: The field; several lines of it are joined by commas.

    Returns:
        Its members; none if the field is missing or wrong.
    """
    return [item for _, item in _members(text, has_keys=False)]


def dictionary(text: str | None) -> dict[str, Value]:
    """
    Reads a dictionary without the parameters of its members.

    Args:
        text: The field.

    Returns:
        Its members by name; none if the field is missing or wrong.
    """
    return {name: item.value for name, item in _members(text, has_keys=True)}


class _Wrong(Exception):
    """
    The field is not what the standard asks for.
    """


def _members(text: str | None, *, has_keys: bool) -> list[tuple[str, Item]]:
    if text is None or len(text) > FIELD_CHARACTERS_MAX:
        return []
    reader = _Reader(text.strip(" "))
    try:
        return reader.members(has_keys=has_keys)
    except _Wrong:
        return []


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise _Wrong from None


class _Reader:
    """
    Reads from left to right, and gives up at the first mistake.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def members(self, *, has_keys: bool) -> list[tuple[str, Item]]:
        found: list[tuple[str, Item]] = []
        while len(found) < MEMBERS_MAX:
            found.append(self._member(has_keys=has_keys))
            if self._position == len(self._text):
                return found
            if self._take(_BETWEEN) is None:
                raise _Wrong
        raise _Wrong

    def _member(self, *, has_keys: bool) -> tuple[str, Item]:
        key = self._key() if has_keys else ""
        value: Value = True
        if not has_keys or self._skip("="):
            value = self._value()
        return key, Item(value, self._parameters())

    def _parameters(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        while self._skip(";"):
            while self._skip(" "):
                pass
            key = self._key()
            found[key] = self._value() if self._skip("=") else True
        return found

    def _key(self) -> str:
        key = self._take(_KEY)
        if key is None:
            raise _Wrong
        return key[0]

    def _value(self) -> Value:
        if number := self._take(_NUMBER):
            return float(number[0]) if "." in number[0] else int(number[0])
        if string := self._take(_STRING):
            return re.sub(r"\\(.)", r"\1", string[1])
        if found := self._take(_TOKEN):
            return found[0]
        if found := self._take(_BYTES):
            return _bytes(found[0][1:-1])
        if self._skip("?1"):
            return True
        if self._skip("?0"):
            return False
        raise _Wrong

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._position)
        if found is not None:
            self._position = found.end()
        return found

    def _skip(self, text: str) -> bool:
        is_here = self._text.startswith(text, self._position)
        self._position += len(text) if is_here else 0
        return is_here
