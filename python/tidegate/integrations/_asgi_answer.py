"""
What an ASGI client is told: header fields on every response, and the response to a denied request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.integrations._problem import PROBLEM_JSON, STATUS, problem

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tidegate import Decision
    from tidegate.integrations._asgi_types import Fields, Message, Receive, Scope, Send

STARTS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
"""Messages that carry the header fields of a response."""

_POLICY_VIOLATION = 1008


def with_fields(send: Send, fields: Fields) -> Send:
    """
    Adds header fields to a response.

    Args:
        send: Where its messages go.
        fields: The fields.

    Returns:
        The same, with the fields.
    """

    # No coroutine of its own: every message of every response passes here, and most of them as they are.
    def send_with_fields(message: Message) -> Awaitable[None]:
        if message["type"] in STARTS:
            # A new message with a new list: applications send the same one again.
            message = {**message, "headers": [*message.get("headers", ()), *fields]}
        return send(message)

    return send_with_fields


async def deny(scope: Scope, receive: Receive, send: Send, decision: Decision) -> None:
    """
    Answers a denied request: 429 with problem details. A handshake of WebSocket gets the same if the server can, else it is closed.

    Args:
        scope: The scope of the connection.
        receive: Where its messages come from.
        send: Where the response goes.
        decision: The denial.
    """
    prefix = ""
    if scope["type"] == "websocket":
        await receive()  # the handshake: before it nothing can be answered
        if not can_answer(scope):
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": "too many requests"})
            return
        prefix = "websocket."
    body = problem(decision)
    headers = [
        (b"content-type", PROBLEM_JSON.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": f"{prefix}http.response.start", "status": STATUS, "headers": headers})
    await send({"type": f"{prefix}http.response.body", "body": b"" if scope.get("method") == "HEAD" else body})


def can_answer(scope: Scope) -> bool:
    """
    Whether a response can be sent: to a handshake of WebSocket only by an extension of the protocol.

    Args:
        scope: The scope of the connection.

    Returns:
        Whether it can.
    """
    return scope["type"] == "http" or "websocket.http.response" in (scope.get("extensions") or {})
