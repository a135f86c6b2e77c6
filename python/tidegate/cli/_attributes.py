"""
Attributes of a request as words of a command line: `method=POST path=/orders api_key=abc header:x-plan=pro query:page=1`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.rule_limiter import Attributes
    from tidegate.rules import RuleSet

GROUPS = {"header": "headers", "query": "query"}
HINT = "hint: write name=value, header:name=value or query:name=value, such as method=POST path=/login header:x-plan=pro"


def attributes_of(words: Sequence[str], rule_set: RuleSet) -> Attributes:
    """
    Reads the words.

    A header by which the rules know the client may be given by the name of its attribute: `api_key=abc` for `header:x-api-key=abc`.

    Args:
        words: The words.
        rule_set: The rules that the request is for.

    Returns:
        The attributes.

    Raises:
        UsageError: A word says nothing, or two say the same.
    """
    aliases = {source.attribute: f"header:{source.name}" for source in rule_set.identity if source.kind == "header"}
    plain: dict[str, str] = {}
    grouped: dict[str, dict[str, str]] = {group: {} for group in GROUPS.values()}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not name:
            raise UsageError(f"{word!r} is no attribute\n{HINT}")
        group, colon, inner = aliases.get(name, name).partition(":")
        if colon and (group not in GROUPS or not inner):
            raise UsageError(f"{name!r} is no name of an attribute\n{HINT}")
        # Headers have no case: the second spelling of one would silently win.
        target, key = (grouped[GROUPS[group]], inner.lower() if group == "header" else inner) if colon else (plain, name)
        if key in target:
            raise UsageError(f"{name!r} is given twice\nhint: keep one of them")
        target[key] = value
    return {**plain, **{group: values for group, values in grouped.items() if values}}
