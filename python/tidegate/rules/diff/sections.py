"""
What stands before the rules: the domain, how clients are named, how tokens are verified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.rules import words
from tidegate.rules.diff.change import Change

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.rules import RuleSet
    from tidegate.rules.model import Source

_SECRET = {"secret": "the secret", "public_key": "the public key"}
_NAMED = {
    "header": "the header",
    "algorithms": "algorithms",
    "issuer": "the issuer",
    "audience": "the audience",
    "leeway_s": "the leeway in seconds",
}
_CLIENTS = "clients who get another name start with fresh counters"


def section_changes(old: RuleSet, new: RuleSet) -> Iterator[Change]:
    """
    Compares the sections of two sets.

    Args:
        old: The set in force.
        new: The set to follow.

    Yields:
        The changes. Keys are never shown.
    """
    if old.domain != new.domain:
        yield Change("domain", "domain", f"{new.domain}, was {old.domain}")
    yield from _identity_changes(old.identity, new.identity)
    yield from _jwt_changes(old.ir.get("jwt"), new.ir.get("jwt"))


def _identity_changes(old: tuple[Source, ...], new: tuple[Source, ...]) -> Iterator[Change]:
    if old == new:
        return
    was, now = ("; ".join(map(words.source, sources)) or "whatever the caller says" for sources in (old, new))
    # With several sources a client's name begins with the source that it comes from.
    is_tagged = len(old) <= 1 < len(new) or len(new) <= 1 < len(old)
    note = f"{_CLIENTS}: names {'now' if len(new) > 1 else 'no longer'} say which source they come from" if is_tagged else _CLIENTS
    yield Change("identity", "identity", f"clients are named by {now}, was {was}", None, note)


def _jwt_changes(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterator[Change]:
    if old is None or new is None:
        if old is not new:
            text = "tokens are now looked at" if new else "tokens are no longer looked at"
            yield Change("jwt", "jwt", f"{text}{_by_upstream(new)}")
        return
    was, now = old.get("verified_by"), new.get("verified_by")
    if was != now:
        text = (
            "signatures are no longer verified here: an upstream does it"
            if now
            else "signatures are now verified here, and no longer by an upstream"
        )
        yield Change("jwt", "verified_by", text, "looser" if now else "tighter")
    for name, shown in _SECRET.items():
        if old.get(name) != new.get(name) and was == now:
            yield Change("jwt", name, f"{shown} changes", None, "tokens that only the old one verifies name nobody any more")
    for name, shown in _NAMED.items():
        if old.get(name) != new.get(name) and (was == now or name == "header"):
            yield Change("jwt", name, f"{shown} {_text(new.get(name))}, was {_text(old.get(name))}")


def _by_upstream(jwt: dict[str, Any] | None) -> str:
    return ", without verifying signatures: an upstream does it" if jwt and jwt.get("verified_by") else ""


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "any"
    return "any" if value is None else str(value)
