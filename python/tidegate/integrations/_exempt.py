"""
Paths that are not limited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Exemptions:
    """
    Paths that are not limited, such as `/healthz` and `/static/*`.

    A star at the end stands for any rest; elsewhere there is none. A path with `..` in it is never exempt: what it leads to depends on who
    reads it.

    Args:
        patterns: The paths.

    Raises:
        ConfigError: One of them is no path.
    """

    __slots__ = ("_exact", "_prefixes")

    def __init__(self, patterns: Iterable[str]) -> None:
        # A text is also a sequence of texts, and nobody means its letters.
        found = [_checked(pattern) for pattern in ([patterns] if isinstance(patterns, str) else patterns)]
        self._exact = frozenset(pattern for pattern in found if not pattern.endswith("*"))
        self._prefixes = tuple(pattern.rstrip("*") for pattern in found if pattern.endswith("*"))

    def __bool__(self) -> bool:
        return bool(self._exact or self._prefixes)

    def __contains__(self, path: str) -> bool:
        return path in self._exact or (path.startswith(self._prefixes) and "/.." not in path)


def _checked(pattern: str) -> str:
    if not isinstance(pattern, str) or not pattern.startswith("/") or "*" in pattern.rstrip("*"):
        raise ConfigError(f'{pattern!r:.80} exempts nothing: write a path such as "/healthz", or "/static/*" for all that begin so')
    return pattern
