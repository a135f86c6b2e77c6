"""
What rules can know of an ASGI request.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from tidegate.integrations._address import peer_address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate.integrations._asgi_types import Scope
    from tidegate.integrations._reads import Reads

# For rules that are elsewhere, which may read anything: no honest request has more of either.
_FACTS_MAX = 100


def attributes_of(scope: Scope, reads: Reads) -> dict[str, Any]:
    """
    The attributes of a request, as far as the rules read them.

    Args:
        scope: The scope of the connection.
        reads: What the rules read.

    Returns:
        The attributes, always with `ip`.
    """
    client = scope.get("client")
    attributes: dict[str, Any] = {"ip": peer_address(client[0] if client else None)}
    names = reads.attributes
    if names is None or "method" in names:
        attributes["method"] = scope.get("method", "GET")  # a handshake of WebSocket is a GET
    if names is None or "path" in names:
        attributes["path"] = escaped_path(scope["path"])
    if reads.headers is None or reads.headers:
        attributes["headers"] = _headers(scope["headers"], reads.headers)
    if names is None or "host" in names:
        attributes["host"] = _headers(scope["headers"], _HOST).get("host")
    if names is None or "scheme" in names:
        attributes["scheme"] = scope.get("scheme", "http")
    if reads.query is None or reads.query:
        attributes["query"] = _query(scope.get("query_string", b""), reads.query)
    return attributes


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


_HOST = frozenset({"host"})


@lru_cache(maxsize=64)
def _encoded(names: frozenset[str]) -> dict[bytes, str]:
    return {name.encode("latin-1"): name for name in names}


def _headers(fields: Iterable[tuple[bytes, bytes]], names: frozenset[str] | None) -> dict[str, str]:
    wanted = None if names is None else _encoded(names)
    found: dict[str, str] = {}
    for raw, value in fields:
        if wanted is None:
            name: str | None = raw.decode("latin-1")
        else:
            name = wanted.get(raw)
        if name is None:
            continue
        text = value.decode("latin-1")
        # Several fields of one name are one, in their order: a chain of proxies may be spread over them.
        if name in found:
            found[name] = f"{found[name]}, {text}"
        elif len(found) < _FACTS_MAX or wanted is not None:
            found[name] = text
    return found


def _query(query: bytes, names: frozenset[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in query.decode("latin-1").split("&"):
        name, _, value = pair.partition("=")
        name = unquote_plus(name)
        # The last of several counts, as in the service.
        if name and (name in names if names is not None else name in found or len(found) < _FACTS_MAX):
            found[name] = unquote_plus(value)
    return found
