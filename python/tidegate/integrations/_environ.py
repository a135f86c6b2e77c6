"""
The facts about a request, read from the environment that a WSGI server gives to an application. Django's `META` has the same names.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

from tidegate.integrations._address import peer_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.integrations._reads import Reads

# Where all headers or parameters are asked for, more are an attack or a mistake. The engine takes a thousand facts.
_NAMES_MAX = 200
# What `quote` would leave as it is, and rules would then read as something else than a part of the path.
_AMBIGUOUS = ("%", "?", "#")


def attributes_of(environ: Mapping[str, Any], path: str, reads: Reads) -> dict[str, Any]:
    """
    The attributes of a request.

    Args:
        environ: The environment.
        path: The path, as `spelled` spells it.
        reads: What the rules want to know.

    Returns:
        The attributes, without `client`.
    """
    attributes: dict[str, Any] = {
        "method": environ.get("REQUEST_METHOD"),
        "path": path,
        "host": environ.get("HTTP_HOST"),
        "ip": peer_address(environ.get("REMOTE_ADDR")),
    }
    if reads.headers is None:
        attributes["headers"] = _all_headers(environ)
    elif reads.headers:
        attributes["headers"] = {name: environ.get(_variable(name)) for name in reads.headers}
    if reads.query != frozenset() and (query := environ.get("QUERY_STRING")):
        attributes["query"] = _parameters(query, reads.query)
    return attributes


def path_of(environ: Mapping[str, Any]) -> str:
    """
    The path that the application sees, mounted or not.

    Args:
        environ: The environment.

    Returns:
        The path, in which every character stands for one byte.
    """
    return environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "") or "/"


def spelled(path: str, encoding: str = "latin-1") -> str:
    """
    A decoded path as clients write it: rules decode it, once.

    Args:
        path: The path.
        encoding: What its characters stand for.

    Returns:
        The same, encoded where it has to be.
    """
    if path.isascii() and not any(mark in path for mark in _AMBIGUOUS):
        return path
    return quote(path, encoding=encoding, errors="replace")


def decoded(path: str) -> str:
    """
    A path as people write it, for comparison with what stands in the code.

    Args:
        path: What `path_of` returned.

    Returns:
        The same as a text.
    """
    return path if path.isascii() else path.encode("latin-1", "replace").decode("utf-8", "replace")


@lru_cache(maxsize=1024)
def _variable(header: str) -> str:
    name = header.upper().replace("-", "_")
    return name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"


def _all_headers(environ: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in environ.items():
        if name.startswith("HTTP_"):
            found[name[5:].replace("_", "-").lower()] = value
        elif name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            found[name.replace("_", "-").lower()] = value
        if len(found) == _NAMES_MAX:
            break
    return found


def _parameters(query: str, names: frozenset[str] | None) -> dict[str, str]:
    # The last of several of one name counts, as in the service.
    pairs = parse_qsl(query, keep_blank_values=True, encoding="utf-8", errors="replace")
    if names is not None:
        return {name: value for name, value in pairs if name in names}
    return dict(pairs[:_NAMES_MAX])
