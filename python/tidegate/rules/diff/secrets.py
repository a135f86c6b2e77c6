"""
What must not be told: keys of clients, and values of headers that carry them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate.rules.model import Condition, Source

_SHOWN = 4
# Parts of the names that headers and parameters with a credential have: `x-api-key`, `x-internal-secret`, `access_token`.
_CREDENTIALS: Final = ("auth", "cookie", "credential", "key", "passw", "secret", "session", "signature", "token")


def hidden(value: str) -> str:
    """
    The beginning of a value, if it is long enough not to tell the rest.

    Args:
        value: The value.

    Returns:
        At most a quarter of it.
    """
    return f"{value[: min(_SHOWN, len(value) // 4)]}***"


def shown_key(per: tuple[str, ...], values: tuple[str, ...], identity: tuple[Source, ...]) -> str:
    """
    The key of an override.

    Args:
        per: The attributes that make it.
        values: Their values.
        identity: How clients are named.

    Returns:
        Such as `client=api_key:ab***`.
    """
    return ", ".join(f"{name}={_shown(name, value, identity)}" for name, value in zip(per, values, strict=True))


def _shown(attribute: str, value: str, identity: tuple[Source, ...]) -> str:
    by_attribute = {source.attribute: source for source in identity}
    if attribute != "client":
        return hidden(value) if _is_credential(attribute, by_attribute) else value
    if len(identity) == 1:
        return hidden(value) if identity[0].kind == "header" else value
    # With several sources the name of a client begins with the attribute that it comes from.
    tag, colon, rest = value.partition(":")
    if colon and tag in by_attribute:
        return f"{tag}:{hidden(rest)}" if by_attribute[tag].kind == "header" else value
    return hidden(value)


def _is_credential(attribute: str, by_attribute: dict[str, Source]) -> bool:
    source = by_attribute.get(attribute)
    return (
        attribute.startswith(("header:", "query:"))
        or "key" in attribute
        or "token" in attribute
        or (source is not None and source.kind == "header")
    )


def without_secrets(conditions: Iterable[Condition], identity: tuple[Source, ...]) -> tuple[Condition, ...]:
    """
    Conditions that can be shown.

    Args:
        conditions: The conditions.
        identity: How clients are named.

    Returns:
        The same, with hidden values where a header or a parameter carries a credential.
    """
    sources = [source for source in identity if source.kind == "header"]
    named = {"client", *(f"header:{source.name}" for source in sources), *(source.attribute for source in sources)}
    return tuple(
        replace(condition, texts=tuple(map(hidden, condition.texts)))
        if condition.attribute in named or _carries_credential(condition.attribute)
        else condition
        for condition in conditions
    )


def _carries_credential(attribute: str) -> bool:
    return attribute.startswith(("header:", "query:")) and any(part in attribute.casefold() for part in _CREDENTIALS)
