"""
Path patterns: what they may say, and what they capture.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.rules.document import Document
    from tidegate.rules.node import Scalar

SEGMENTS_MAX = 64
RESERVED_CAPTURES = frozenset({"method", "path", "host", "ip", "client", "tier", "headers", "query", "global"})
"""A capture of such a name would let whoever writes a path choose who they are."""

_CAPTURE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]{0,63})\}")
# Most patterns are plain: names, `*`, and `**` at the end. One look tells that nothing is wrong with them.
_SIMPLE = re.compile(r"(?:/(?:\*|[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)){1,60}(?:/\*\*)?")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")


def captures_of(pattern: str) -> tuple[str, ...]:
    """
    The names that a pattern captures.

    Args:
        pattern: A pattern that is right.

    Returns:
        The names, from left to right.
    """
    return tuple(_CAPTURE.findall(pattern)) if "{" in pattern else ()


def check_pattern(document: Document, scalar: Scalar, pattern: str) -> bool:
    """
    Notes what is wrong with a path pattern.

    Args:
        document: Where problems are noted.
        scalar: Where it stands.
        pattern: The pattern.

    Returns:
        Whether it is right.
    """
    mistake = None if _SIMPLE.fullmatch(pattern) else _mistake(pattern)
    if mistake is None:
        return True
    message, hint, span = mistake
    document.add("bad-path-pattern", scalar, message, hint, span)
    return False


def _mistake(pattern: str) -> tuple[str, str, tuple[int, int]] | None:
    if not pattern.startswith("/"):
        whole = re.match(r"[a-z]+://[^/]+(/.*)?", pattern)
        path = (whole[1] or "/") if whole else f"/{pattern:.80}"
        return "a path begins with /", f"write {path}", (0, len(pattern))
    segments = pattern[1:].split("/")
    if len(segments) > SEGMENTS_MAX:
        return f"a path has at most {SEGMENTS_MAX} segments", "end it with /**", (0, len(pattern))
    at, seen = 1, set[str]()
    for number, segment in enumerate(segments):
        mistake = _segment_mistake(segment, is_last=number == len(segments) - 1)
        name = _CAPTURE.fullmatch(segment)
        if mistake is None and name is not None:
            mistake = _capture_mistake(name[1], seen)
        if mistake is not None:
            return *mistake, (at, at + max(1, len(segment)))
        at += len(segment) + 1
    return None


def _segment_mistake(segment: str, *, is_last: bool) -> tuple[str, str] | None:  # noqa: PLR0911  # one rule, one message
    if segment.isalnum():
        return None
    if not segment:
        return None if is_last else ("a path has no empty segments: // is read as /", "write one /")
    if segment in {".", ".."}:
        return f"`{segment}` is resolved before paths are compared", "write the path that remains"
    if "**" in segment and not (segment == "**" and is_last):
        return "`**` is the rest of a path and can only be its last segment", "write `*` for one segment"
    if ("{" in segment or "}" in segment) and not _CAPTURE.fullmatch(segment):
        return "a capture is a whole segment with a name: {name}", "write {name}, with letters, digits and _, or `*`"
    if "#" in segment:
        return "a path ends before `#`", "remove `#` and what follows"
    if (escape := _ESCAPE.search(segment)) and (wanted := _unescaped(escape[0])) != escape[0]:
        reason = "has capitals when paths are compared" if wanted.startswith("%") else "is decoded before paths are compared"
        return f"`{escape[0]}` {reason}", f"write `{wanted}`"
    return None


def _capture_mistake(name: str, seen: set[str]) -> tuple[str, str] | None:
    if name in RESERVED_CAPTURES:
        return f"`{name}` has a meaning of its own, and a path cannot set it", f"choose another name, such as {{path_{name}}}"
    if name in seen:
        return f"two captures have the name `{name}`", "give each a name of its own"
    seen.add(name)
    return None


def _unescaped(escape: str) -> str:
    # Slashes, percent signs, blanks and control characters stay escaped, in capitals.
    byte = int(escape[1:], 16)
    if byte in b"/% \x7f" or byte < 0x20:  # noqa: PLR2004  # control characters
        return escape.upper()
    return chr(byte) if byte < 0x80 else "the character itself"  # noqa: PLR2004  # ASCII
