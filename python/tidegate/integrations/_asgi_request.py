"""
What rules can know of an ASGI request.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tidegate.integrations._address import peer_address
from tidegate.integrations._target import FACTS_MAX, escaped_path, parameters_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate.integrations._asgi_types import Scope
    from tidegate.integrations._reads import Reads


def address_of(scope: Scope) -> dict[str, Any]:
    """
    The attributes of a request whose address says all that there is to know.

    Args:
        scope: The scope of the connection.

    Returns:
        The attributes: `ip`.
    """
    client = scope.get("client")
    return {"ip": peer_address(client[0] if client else None)}


def attributes_of(scope: Scope, reads: Reads) -> dict[str, Any]:
    """
    The attributes of a request, as far as the rules read them.

    Args:
        scope: The scope of the connection.
        reads: What the rules read.

    Returns:
        The attributes, always with `ip`.
    """
    attributes = address_of(scope)
    if reads.is_address_only:
        return attributes
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
        attributes["query"] = parameters_of(scope.get("query_string", b"").decode("latin-1"), reads.query)
    return attributes


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
        elif len(found) < FACTS_MAX or wanted is not None:
            found[name] = text
    return found
