"""
How names may look, and which known name somebody meant.
"""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate.rules.document import Document
    from tidegate.rules.node import Scalar

RULE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
DOMAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
ATTRIBUTE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")

KNOWN_ATTRIBUTES = ("method", "path", "host", "ip", "client", "tier")
"""Those that mean something by themselves."""

# Longer than every name: nobody misspells one so badly.
_MEANT_MAX = 64


@lru_cache(maxsize=4096)
def _closest(name: str, known: tuple[str, ...]) -> str | None:
    folded = _fold(name)
    candidates = {_fold(candidate): candidate for candidate in known}
    for form, candidate in candidates.items():
        if folded.rstrip("s") == form.rstrip("s"):
            return candidate
    found = difflib.get_close_matches(folded, candidates, n=1, cutoff=0.65)
    return candidates[found[0]] if found else None


def _fold(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")


def closest(name: str, known: Iterable[str]) -> str | None:
    """
    The known name that somebody probably meant.

    Args:
        name: What was written.
        known: What could have been.

    Returns:
        One of them, or `None` if none is like it.
    """
    return _closest(name, tuple(known)) if len(name) <= _MEANT_MAX else None


def meant(name: str, known: Iterable[str]) -> str:
    """
    A hint for a name that nobody knows.

    Args:
        name: What was written.
        known: What could have been.

    Returns:
        A question if one of them is like it, otherwise all of them.
    """
    known = tuple(known)
    found = closest(name, known)
    return f"did you mean `{found}`?" if found else f"known here: {', '.join(known)}"


def read_attribute(document: Document, scalar: Scalar, text: str) -> str | None:
    """
    The name of an attribute where one is asked for: `tier`, `header:x-plan`, `query:page`.

    Args:
        document: Where problems are noted.
        scalar: Where the name stands.
        text: The name.

    Returns:
        The name, of a header in lower case; `None` if it is none.
    """
    group, colon, name = text.partition(":")
    if colon and group == "header" and HEADER_NAME.fullmatch(name):
        return f"header:{name.lower()}"
    if colon and group == "query" and name:
        return text
    if not colon and text in {"headers", "query"}:
        one = text.rstrip("s")
        document.add("bad-attribute", scalar, f"`{text}` are many attributes, and one is asked for", f"name one of them: `{one}:name`")
    elif not colon and ATTRIBUTE_NAME.fullmatch(text):
        return text
    else:
        hint = "write a name of letters, digits, `_`, `-` and `.`, or `header:name`, or `query:name`"
        document.add("bad-attribute", scalar, f"`{text:.80}` is no name of an attribute", hint)
    return None
