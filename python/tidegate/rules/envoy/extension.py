"""
The block `tidegate:`, which the reference service does not know.

It adds other algorithms, several windows, windows of any length, and charging all or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidegate.rules.envoy.keys import EXTENSION
from tidegate.rules.envoy.scalars import is_nothing, read_flag
from tidegate.rules.names import meant
from tidegate.rules.node import Mapping, Node, kind_of
from tidegate.rules.quotas import read_quotas
from tidegate.rules.scalars import read_choice

if TYPE_CHECKING:
    from tidegate.rules.document import Document
    from tidegate.rules.model import QuotaText

ALGORITHMS: Final = ("fixed_window", "sliding_window", "sliding_window_log", "sliding_window_counter", "gcra", "token_bucket")
"""Those whose whole answer the protocol can carry: it has no word for a delay, and none for giving a slot back."""

_OF_DESCRIPTOR: Final = ("algorithm", "quotas")
_OF_TOP: Final = ("atomic",)


@dataclass(frozen=True, slots=True)
class Extension:
    """
    Our own block of a descriptor.

    Args:
        algorithm: How `rate_limit` is enforced, and quotas that name no algorithm.
        quotas: More windows; all of them and `rate_limit` must have room.
    """

    algorithm: str | None = None
    quotas: tuple[QuotaText, ...] = ()


def read_extension(document: Document, owner: Mapping) -> Extension:
    """
    Our own block of a descriptor.

    Args:
        document: Where problems are noted.
        owner: The descriptor.

    Returns:
        What it says; nothing if there is none.
    """
    block = _block(document, owner, _OF_DESCRIPTOR, "the block `tidegate` of a descriptor")
    if block is None:
        return Extension()
    given = block.get("algorithm")
    algorithm = read_choice(document, given, ALGORITHMS) if given is not None else None
    node = block.get("quotas")
    if node is None:
        if algorithm is not None and is_nothing(owner.get("rate_limit")):
            document.add("no-effect", given or block, "there is no limit that the algorithm could enforce", "add `rate_limit`, or `quotas`")
        return Extension(algorithm)
    quotas = read_quotas(document, node, algorithm)
    for quota in quotas:
        if not _can_be_told(quota):
            message = f"`{quota.text}` cannot be told in this protocol: it knows neither delays nor slots"
            document.add("bad-quota", node, message, f"use one of {', '.join(ALGORITHMS)}")
    return Extension(algorithm, tuple(quota for quota in quotas if _can_be_told(quota)))


def read_atomic(document: Document, root: Mapping) -> bool:
    """
    Whether the descriptors of one request are charged together or not at all.

    Args:
        document: Where problems are noted.
        root: The top of the file.

    Returns:
        What its block says.
    """
    block = _block(document, root, _OF_TOP, "the block `tidegate` at the top")
    return block is not None and read_flag(document, block.get("atomic"))


def _block(document: Document, owner: Mapping, known: tuple[str, ...], what: str) -> Mapping | None:
    node: Node | None = owner.get(EXTENSION)
    if node is None or is_nothing(node):
        return None
    if not isinstance(node, Mapping):
        document.add(
            "wrong-type",
            node,
            f"{what} is a mapping, and this is {kind_of(node)}",
            f"write {' or '.join(f'`{name}: ...`' for name in known)}",
        )
        return None
    for name, (key, _) in node.entries.items():
        if name not in known:
            hint = (
                "it belongs to the top of the file"
                if name in _OF_TOP
                else "it belongs to a descriptor"
                if name in _OF_DESCRIPTOR
                else meant(name, known)
            )
            document.add("unknown-key", key, f"{what} has no `{name:.80}`", hint)
    return node


def _can_be_told(quota: QuotaText) -> bool:
    # The text names every algorithm but those that follow from its other words.
    words = quota.text.split()
    return not quota.parameters.get("unlimited") and not {"concurrent", "queue", "nodelay", "leaky_bucket"} & set(words)
