"""
What a request asks for, as rules take it: the path and the parameters of the query.
"""

from __future__ import annotations

from urllib.parse import unquote_plus

FACTS_MAX = 100
"""How many headers and how many parameters are taken for rules that are elsewhere, which may read any: no honest request has more."""


def escaped_path(path: str) -> str:
    """
    A path that was decoded already, so that the rules decode it to what the application sees and no further.

    Args:
        path: The path as the application sees it.

    Returns:
        The path as the rules take it.
    """
    if "%" in path or "?" in path or "#" in path:
        return path.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
    return path


def parameters_of(query: str, names: frozenset[str] | None) -> dict[str, str]:
    """
    The parameters of a query, as far as the rules read them. The last of several of one name counts, as in the service.

    Args:
        query: The query, as it was sent.
        names: Which ones; `None` for all of them.

    Returns:
        Names and values, decoded.
    """
    found: dict[str, str] = {}
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        name = unquote_plus(name)
        if name and (name in names if names is not None else name in found or len(found) < FACTS_MAX):
            found[name] = unquote_plus(value)
    return found
