"""
Steps that ask as the reference rate limit service is asked: by descriptors.

```yaml
- domain: shop
  descriptors:
    - {tenant: acme, path: /orders}      # entries, in their order
    - [[tenant, acme], [tenant, other]]  # the same as pairs, where a key comes twice
  hits_addend: 1
  expect: {code: OVER_LIMIT, statuses: [{code: OVER_LIMIT, limit_remaining: 0}, OK]}
```
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tidegate.rules.fields import Field, read_fields, table
from tidegate.rules.node import Mapping, Node, Scalar, Sequence, kind_of
from tidegate.rules.scalars import read_choice, read_text, read_whole

if TYPE_CHECKING:
    from collections.abc import Mapping as ReadOnly

    from tidegate.rules.document import Document

CODES: Final = ("OK", "OVER_LIMIT")
EXPECT: Final = table(
    Field("code", "The overall code.", {}, ("OK",)),
    Field("statuses", "What is answered for each descriptor: a code, or more facts.", {}, (["OK"],)),
)
STATUS: Final = table(
    Field("code", "Its code.", {}, ("OVER_LIMIT",)),
    Field("limit_remaining", "Hits that are left.", {}, (0,)),
    Field("duration_until_reset", "Seconds until its window is over.", {}, (60,)),
)

Entries: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """
    A step that asks by descriptors.

    Args:
        domain: Whose tree is asked.
        descriptors: The entries of each.
        line: Where it is written.
        hits_addend: Hits for descriptors that do not say it; 0 is 1.
        times: How often.
        expected: Names of facts, such as `code` and `statuses[0].code`, with what is expected.
    """

    domain: str
    descriptors: tuple[Entries, ...]
    line: int
    hits_addend: int = 0
    times: int = 1
    expected: ReadOnly[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = ("(" + ", ".join(f"{key}={value}" for key, value in entries) + ")" for entries in self.descriptors)
        return " ".join(("descriptors", self.domain, *shown))

    def asked(self) -> list[dict[str, Any]]:
        """
        The descriptors as the engine takes them.

        Returns:
            One mapping each.
        """
        return [{"entries": list(entries)} for entries in self.descriptors]


def facts_of(answer: ReadOnly[str, Any]) -> dict[str, object]:
    """
    What can be expected of an answer.

    Args:
        answer: The engine's answer.

    Returns:
        By the names that `Count.expected` uses.
    """
    found: dict[str, object] = {"code": answer["overall_code"]}
    for number, status in enumerate(answer["statuses"]):
        found |= {f"statuses[{number}].{name}": status[name] for name in STATUS}
    return found


def read_descriptors(document: Document, node: Node) -> tuple[Entries, ...]:
    """
    The descriptors of a step.

    Args:
        document: Where problems are noted.
        node: What stands there.

    Returns:
        Those that are right.
    """
    if not isinstance(node, Sequence):
        document.add("wrong-type", node, f"`descriptors` is a list, and this is {kind_of(node)}", "write [{tenant: acme}]")
        return ()
    if not node.items:
        document.add("empty-list", node, "the list is empty", "write at least one descriptor")
    return tuple(_read_entries(document, item) for item in node.items)


def _read_entries(document: Document, node: Node) -> Entries:
    if isinstance(node, Mapping):
        # Texts as they are written: that is how they arrive.
        return tuple(
            (key, value.text if isinstance(value, Scalar) else read_text(document, value) or "") for key, (_, value) in node.entries.items()
        )
    pairs = node.items if isinstance(node, Sequence) else []
    found = [tuple(one.text for one in pair.items if isinstance(one, Scalar)) for pair in pairs if isinstance(pair, Sequence)]
    if not found or len(found) != len(pairs) or any(len(pair) != 2 for pair in found):  # noqa: PLR2004  # a pair
        document.add("wrong-type", node, "a descriptor is a mapping, or a list of pairs", "write {tenant: acme}, or [[tenant, acme]]")
        return ()
    return tuple((pair[0], pair[1]) for pair in found)


def read_count_expected(document: Document, node: Node) -> dict[str, object]:
    """
    What is expected of an answer.

    Args:
        document: Where problems are noted.
        node: A code, or a mapping.

    Returns:
        By the names of `facts_of`.
    """
    if isinstance(node, Scalar):
        return {"code": read_choice(document, node, CODES)}
    entries = read_fields(document, node, EXPECT, "`expect`") or {}
    found: dict[str, object] = {}
    if "code" in entries:
        found["code"] = read_choice(document, entries["code"][1], CODES)
    if "statuses" in entries:
        statuses = entries["statuses"][1]
        if not isinstance(statuses, Sequence):
            document.add("wrong-type", statuses, f"`statuses` is a list, and this is {kind_of(statuses)}", "write [OK, OVER_LIMIT]")
            return found
        for number, status in enumerate(statuses.items):
            found |= {f"statuses[{number}].{name}": value for name, value in _read_status(document, status).items()}
    return found


def _read_status(document: Document, node: Node) -> dict[str, object]:
    if isinstance(node, Scalar):
        return {"code": read_choice(document, node, CODES)}
    entries = read_fields(document, node, STATUS, "a status") or {}
    return {
        name: read_choice(document, value, CODES) if name == "code" else read_whole(document, value) for name, (_, value) in entries.items()
    }
