"""
What one call of gRPC says about itself, and what it is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidegate.errors import ConfigError
from tidegate.integrations._address import peer_address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate import Decision
    from tidegate.integrations._guard import Guard
    from tidegate.integrations._reads import Reads

METADATA_MAX = 200
"""The most entries of metadata that are looked at where the rules may ask for any. The engine takes a thousand facts."""

_SECOND = 1_000_000_000
_RESOURCE_EXHAUSTED = 8
_DETAILS = "grpc-status-details-bin"
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


def attributes_of(method: str, context: Any, reads: Reads) -> dict[str, Any]:  # noqa: ANN401  # of either kind of server
    """
    The attributes of a call.

    Args:
        method: Its full name, such as `/shop.Orders/List`.
        context: Its context.
        reads: What the rules want to know.

    Returns:
        The attributes, without `client`. Metadata is among them as headers.
    """
    headers: dict[str, str] = {}
    for key, value in list(context.invocation_metadata() or ())[:METADATA_MAX]:
        name = key.lower()
        if isinstance(value, str) and (reads.headers is None or name in reads.headers):
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return {"method": "POST", "path": method, "ip": peer_address(_host(context.peer())), "headers": headers}


def _host(peer: str | None) -> str | None:
    """
    The address in `ipv4:127.0.0.1:50000` or `ipv6:%5B::1%5D:50000`; a socket in the file system has none.
    """
    kind, _, address = unquote(peer or "").partition(":")
    return address if kind in {"ipv4", "ipv6"} else None


def metadata_of(fields: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """
    Header fields as metadata, whose names are in lower case.

    Args:
        fields: Names and values.

    Returns:
        Keys and values.
    """
    return tuple((name.lower(), value) for name, value in fields)


def denial(guard: Guard, decision: Decision) -> tuple[str, tuple[tuple[str, str | bytes], ...]]:
    """
    What a denied call is told.

    Args:
        guard: Who denied it.
        decision: The denial.

    Returns:
        The text of the status, and trailing metadata: `retry-after` and the fields of HTTP by their names, and the wait as
        `google.rpc.RetryInfo`, by which clients of gRPC that retry by themselves go, if protobuf is there.
    """
    wait_ns = decision.retry_after_ns
    text = "quota exceeded" if wait_ns is None else f"quota exceeded: try again in {max(1, -(-wait_ns // _SECOND))} s"
    fields = metadata_of(guard.fields(decision))
    # Who denies says for how long, even if what is left is nobody's business.
    if wait_ns is not None and not any(name == "retry-after" for name, _ in fields):
        fields = (*fields, ("retry-after", str(max(1, -(-wait_ns // _SECOND)))))
    details = None if wait_ns is None else _details(text, wait_ns)
    return text, fields if details is None else (*fields, (_DETAILS, details))


def _details(text: str, wait_ns: int) -> bytes | None:
    try:
        from tidegate._protobuf import messages  # noqa: PLC0415  # grpcio does not need protobuf, and neither does a denial

        make = messages()
    except ConfigError:
        return None
    wait = make["google.protobuf.Duration"](seconds=wait_ns // _SECOND, nanos=wait_ns % _SECOND)
    info = make["google.rpc.RetryInfo"](retry_delay=wait).SerializeToString()
    detail = make["google.protobuf.Any"](type_url=_RETRY_INFO, value=info)
    encoded: bytes = make["google.rpc.Status"](code=_RESOURCE_EXHAUSTED, message=text, details=[detail]).SerializeToString()
    return encoded
