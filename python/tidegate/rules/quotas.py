"""
Quotas in rules: a text, a list, or an object with every parameter.

The parser of quotas is the compiled one, and its messages are shown where the text stands in the file.
"""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tidegate._native import format_quota, parse_quotas
from tidegate.errors import QuotaError
from tidegate.quota import Quota, parameters
from tidegate.rules.fields import QUOTA
from tidegate.rules.model import QuotaText
from tidegate.rules.names import meant
from tidegate.rules.node import Mapping, Node, Scalar, Sequence
from tidegate.rules.scalars import is_null, read_flag, read_text, read_whole

if TYPE_CHECKING:
    from tidegate.rules.document import Document

QUOTAS_MAX = 64
"""The most that one key can be charged for by one rule."""

_WHOLE = frozenset({"limit", "burst", "nodelay", "max_cost", "entries", "buckets", "max_debt"})
_DURATIONS = frozenset({"period", "queue", "ttl", "min_interval", "advance"})
assert QUOTA.keys() == {field.name for field in fields(Quota)} - {"_"}  # noqa: S101  # the table and the class name the same parameters


def read_quotas(document: Document, node: Node, algorithm: str | None) -> tuple[QuotaText, ...]:
    """
    The quotas that a node says.

    Args:
        document: Where problems are noted.
        node: A text, an object or a list of both.
        algorithm: What those use that name none.

    Returns:
        Those that are right, in their order.
    """
    if isinstance(node, Scalar):
        return _from_text(document, node, algorithm)
    if isinstance(node, Mapping):
        return _from_object(document, node, algorithm)
    if not node.items:
        document.add("empty-list", node, "the list has no quota", 'write one such as "100/minute", or "unlimited"')
    found: list[QuotaText] = []
    for item in node.items:
        if isinstance(item, Sequence):
            document.add("wrong-type", item, "a quota is expected, and this is a list", "write the quotas of a rule in one list")
        else:
            found.extend(read_quotas(document, item, algorithm))
    if len(found) > QUOTAS_MAX:
        document.add("bad-quota", node, f"{len(found)} quotas are too many: at most {QUOTAS_MAX} are possible", "make two rules")
    _check_names(document, node, found)
    return tuple(found)


def _from_text(document: Document, scalar: Scalar, algorithm: str | None) -> tuple[QuotaText, ...]:
    if is_null(scalar):
        document.add("missing-value", scalar, "there is no quota", 'write one such as 100/minute, or "unlimited"')
        return ()
    try:
        return parse_text(scalar.text, algorithm)
    except QuotaError as error:
        _add(document, scalar, error)
        return ()


@lru_cache(maxsize=65536)
def parse_text(text: str, algorithm: str | None = None) -> tuple[QuotaText, ...]:
    """
    The quotas that a text says, checked as far as can be without an engine.

    Args:
        text: Such as `100/minute burst 20, 5000/hour`.
        algorithm: What those use that name none.

    Returns:
        The quotas.

    Raises:
        QuotaError: It says none.
    """
    # Rule files repeat the same few texts; and the same text always means the same.
    return tuple(_quota(found, algorithm) for found in parse_quotas(text))


def _quota(found: dict[str, Any], algorithm: str | None) -> QuotaText:
    if algorithm is not None and "algorithm" not in found and not found.get("unlimited"):
        found = found | {"algorithm": algorithm}
    name = found.pop("name", None)
    if "zone" in found:
        _check_zone(found["zone"])
    return QuotaText(format_quota(found), name, found)


@lru_cache(maxsize=1024)
def _check_zone(zone: str) -> None:
    # Only the engine knows its time zones. Imported here: `limiter` offers what this package makes.
    from tidegate.limiter import Limiter  # noqa: PLC0415

    Limiter(f"1/day calendar {zone}").close()


def _from_object(document: Document, node: Mapping, algorithm: str | None) -> tuple[QuotaText, ...]:
    given: dict[str, Any] = {}
    is_wrong = False
    for name, (key, value) in node.entries.items():
        if name not in QUOTA:
            document.add("unknown-key", key, f"a quota has no `{name:.80}`", meant(name, QUOTA))
            is_wrong = True
            continue
        found = _parameter(document, name, value)
        is_wrong = is_wrong or found is None
        given[name] = found
    if is_wrong:
        return ()
    try:
        return (_quota(parameters(Quota(**given)), algorithm),)
    except QuotaError as error:
        _add(document, node, error)
        return ()


def _parameter(document: Document, name: str, node: Node) -> int | str | bool | None:
    if name in _WHOLE:
        return read_whole(document, node)
    if name == "unlimited":
        return read_flag(document, node)
    if name in _DURATIONS and isinstance(node, Scalar) and node.is_plain and node.text.isdecimal():
        return read_whole(document, node)
    return read_text(document, node)


def _add(document: Document, node: Node, error: QuotaError) -> None:
    message = str(error).partition("\n")[0].removeprefix("invalid quota").lstrip()
    if error.text is not None:
        message = message.removeprefix('"' + error.text + '"')
    message = message.removeprefix(": ").partition(" at character ")[0]
    document.add("bad-quota", node, message, error.hint, error.span)


def _check_names(document: Document, node: Node, quotas: list[QuotaText]) -> None:
    names = [quota.name for quota in quotas if quota.name is not None]
    for name in sorted({name for name in names if names.count(name) > 1}):
        document.add("duplicate-name", node, f"two quotas have the name `{name}`", "give each quota a name of its own")
