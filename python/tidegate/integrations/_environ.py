"""
The facts about a request, read from the environment that a WSGI server gives to an application. Django's `META` has the same names.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tidegate.integrations._address import peer_address
from tidegate.integrations._target import FACTS_MAX, escaped_path, parameters_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.integrations._reads import Reads

_FACTS = (("method", "REQUEST_METHOD"), ("host", "HTTP_HOST"), ("scheme", "wsgi.url_scheme"))


def attributes_of(environ: Mapping[str, Any], reads: Reads, path: str | None = None) -> dict[str, Any]:
    """
    The attributes of a request, as far as the rules read them.

    Args:
        environ: The environment.
        reads: What the rules read.
        path: The path as the application sees it, where it is known already.

    Returns:
        The attributes, always with `ip`.
    """
    attributes: dict[str, Any] = {"ip": peer_address(environ.get("REMOTE_ADDR"))}
    if reads.is_address_only:
        return attributes
    names = reads.attributes
    if names is None or "path" in names:
        attributes["path"] = escaped_path(path_of(environ) if path is None else path)
    for name, variable in _FACTS:
        if names is None or name in names:
            attributes[name] = environ.get(variable)
    if reads.headers is None:
        attributes["headers"] = _all_headers(environ)
    elif reads.headers:
        attributes["headers"] = {name: environ.get(_variable(name)) for name in reads.headers}
    if reads.query is None or reads.query:
        attributes["query"] = parameters_of(environ.get("QUERY_STRING", ""), reads.query)
    return attributes


def path_of(environ: Mapping[str, Any]) -> str:
    """
    The path that the application sees, mounted or not.

    Args:
        environ: The environment.

    Returns:
        The path, decoded.
    """
    path: str = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "") or "/"
    # In WSGI each character stands for one byte.
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
        if len(found) == FACTS_MAX:
            break
    return found
