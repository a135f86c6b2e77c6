"""
What a descriptor allows: `rate_limit`, and the quotas of our own block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidegate.errors import QuotaError
from tidegate.quota import Quota
from tidegate.rules.envoy.scalars import UINT32_MAX, is_nothing, read_flag, read_text, read_uint32
from tidegate.rules.names import meant
from tidegate.rules.node import Mapping, Node, Sequence, kind_of

if TYPE_CHECKING:
    from tidegate.rules.document import Document
    from tidegate.rules.envoy.extension import Extension
    from tidegate.rules.model import QuotaText

UNITS: Final = {"SECOND": "second", "MINUTE": "minute", "HOUR": "hour", "DAY": "day", "WEEK": "week", "MONTH": "30d", "YEAR": "365d"}
"""The units of the format as quota texts write them: months have 30 days, years 365, and all begin at the epoch."""

UNIT_UNKNOWN: Final = "UNKNOWN"
"""What answers say where there is no unit."""

MAX_DEBT: Final = 2**52
"""Hits that are refused count as well, so many that nobody reaches it; limit and debt together stay below 2^53."""

_SECONDS: Final = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800, "MONTH": 2_592_000, "YEAR": 31_536_000}


@dataclass(frozen=True, slots=True)
class _Stated:
    """
    What `rate_limit` says.
    """

    node: Mapping
    unit: str | None
    requests_per_unit: int
    is_unlimited: bool
    name: str
    replaces: list[str]

    @property
    def has_window(self) -> bool:
        return self.unit is not None


def read_limit(document: Document, node: Node | None, extension: Extension) -> dict[str, Any] | None:
    """
    The limit of a descriptor, without what stands beside `rate_limit`.

    Args:
        document: Where problems are noted.
        node: What stands below `rate_limit`, if anything does.
        extension: Our own block of the descriptor.

    Returns:
        Its part of the RuleSet IR; `None` if there is no limit.
    """
    if node is None or is_nothing(node):
        return _shown(None, extension.quotas, ()) if extension.quotas else None
    if not isinstance(node, Mapping):
        document.add("wrong-type", node, f"`rate_limit` is a mapping, and this is {kind_of(node)}", "write `unit` and `requests_per_unit`")
        return None
    stated = _read(document, node, is_extended=bool(extension.quotas))
    if stated.is_unlimited and extension.quotas:
        document.add("unlimited-with-unit", node, "what is unlimited has no quotas", "remove `unlimited`, or the quotas")
    return _shown(stated, extension.quotas, _window(document, stated, extension.algorithm))


def _read(document: Document, node: Mapping, *, is_extended: bool) -> _Stated:
    name = read_text(document, node.get("name"))
    is_unlimited = read_flag(document, node.get("unlimited"))
    # With quotas of its own it need not have a window: then it only gives them a name.
    is_name_only = is_extended and node.get("unit") is None and node.get("requests_per_unit") is None
    unit = None if is_name_only else _unit(document, node, is_unlimited=is_unlimited)
    requests_per_unit = read_uint32(document, node.get("requests_per_unit"))
    return _Stated(node, unit, requests_per_unit, is_unlimited, name, _replaces(document, node.get("replaces"), name))


def _unit(document: Document, node: Mapping, *, is_unlimited: bool) -> str | None:
    given = node.get("unit")
    text = read_text(document, given)
    unit = text.upper()
    if is_unlimited:
        if unit in UNITS:
            document.add("unlimited-with-unit", given or node, "what is unlimited has no unit", "remove `unit`, or `unlimited`")
        elif text:
            document.add("no-effect", given or node, f"`{text:.40}` is no unit, and none is needed here", "remove it")
        return None
    if unit in UNITS:
        return unit
    if given is None or is_nothing(given) or not text:
        document.add("bad-unit", node, "there is no unit", f"add `unit: minute`; known: {', '.join(UNITS).lower()}")
    else:
        document.add("bad-unit", given, f"`{text:.40}` is no unit of a limit", meant(text.lower(), [known.lower() for known in UNITS]))
    return None


def _replaces(document: Document, node: Node | None, own_name: str) -> list[str]:
    if node is None or is_nothing(node):
        return []
    if not isinstance(node, Sequence):
        document.add("wrong-type", node, f"`replaces` is a list, and this is {kind_of(node)}", "write `- name: ...`")
        return []
    found = []
    for item in node.items:
        # Items of other kinds were told when the keys were looked at.
        if not isinstance(item, Mapping):
            continue
        name = read_text(document, item.get("name"))
        if not name:
            document.add("bad-replaces", item, "an item of `replaces` has no name", "write `- name: ...`, or remove it")
        elif name == own_name:
            document.add("bad-replaces", item, f"`{name:.80}` is the limit itself", "name another limit, or remove it")
        else:
            found.append(name)
    return found


def _window(document: Document, stated: _Stated, algorithm: str | None) -> tuple[str, ...]:
    if stated.unit is None or stated.is_unlimited:
        return ()
    rate = f"{stated.requests_per_unit}/{UNITS[stated.unit]}"
    if algorithm is None or algorithm == "fixed_window":
        return (f"{rate} fixed_window max_debt {MAX_DEBT}",)
    try:
        return (str(Quota.parse(f"{rate} {algorithm}")),)
    except QuotaError as error:
        document.add("bad-quota", stated.node, str(error).partition("\n")[0], error.hint)
        return ()


def _shown(stated: _Stated | None, quotas: tuple[QuotaText, ...], window: tuple[str, ...]) -> dict[str, Any]:
    texts = [{"text": text, "name": None} for text in window] + [{"text": quota.text, "name": quota.name} for quota in quotas]
    if stated is not None and (stated.has_window or not quotas):
        requests_per_unit, unit = stated.requests_per_unit, stated.unit or UNIT_UNKNOWN
    else:
        requests_per_unit, unit = _nearest(quotas[0])
    return {
        "unlimited": stated is not None and stated.is_unlimited,
        "quotas": texts,
        "requests_per_unit": requests_per_unit,
        "unit": unit,
        "name": (stated.name or None) if stated is not None else None,
        "replaces": stated.replaces if stated is not None else [],
    }


def _nearest(quota: QuotaText) -> tuple[int, str]:
    """
    A quota in the words of the format, as far as it has them.
    """
    limit = min(int(quota.parameters.get("limit") or 0), UINT32_MAX)
    seconds, rest = divmod(int(quota.parameters.get("period_ns") or 0), 1_000_000_000)
    if rest:
        return limit, UNIT_UNKNOWN
    return limit, next((unit for unit, length in _SECONDS.items() if length == seconds), UNIT_UNKNOWN)
