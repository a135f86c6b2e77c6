"""
WebSockets before ASGI applications: checked once, at the handshake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import WebSocketRoute
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tidegate.integrations.asgi import RateLimit

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from tests.conftest import Eventually
    from tests.integrations.serving import Served
else:
    from serving import Served


async def echo(websocket: WebSocket) -> None:
    """
    Answers what it is sent, until it is sent nothing.
    """
    await websocket.accept(headers=[(b"x-own", b"1")])
    async for text in websocket.iter_text():
        await websocket.send_text(text)


def opened(served: Served) -> ClientConnection:
    """
    A WebSocket.
    """
    return connect(f"ws://127.0.0.1:{served.port}/")


APP = Starlette(routes=[WebSocketRoute("/", echo)])


def test_a_denied_handshake_is_a_429() -> None:
    """With problem details and header fields; an accepted one tells what is left, and messages are not counted."""
    with Served(RateLimit(APP, "1/minute")) as served:
        with opened(served) as websocket:
            for text in ("a", "b", "c"):
                websocket.send(text)
                assert text == websocket.recv(20)
            told = websocket.response
        with pytest.raises(InvalidStatus) as denied, opened(served):
            pass
        answer = denied.value.response

    assert told is not None
    assert ("1", '"limit";r=0;t=60') == (told.headers["x-own"], told.headers["ratelimit"])
    assert (429, "application/problem+json") == (answer.status_code, answer.headers["content-type"])
    assert 1 <= int(answer.headers["retry-after"]) <= 60


def test_the_application_can_make_the_denial() -> None:
    """As for requests."""
    with (
        Served(RateLimit(APP, "0/minute", denied=lambda _scope, _decision: PlainTextResponse("no", 503))) as served,
        pytest.raises(InvalidStatus) as denied,
        opened(served),
    ):
        pass

    assert (503, b"no") == (denied.value.response.status_code, denied.value.response.body)


def test_a_slot_is_held_until_the_websocket_is_closed(eventually: Eventually) -> None:
    """However long that is, and whoever closes it."""
    app = RateLimit(APP, "1 concurrent")
    with Served(app) as served:
        with opened(served) as websocket:
            websocket.send("here")
            assert "here" == websocket.recv(20)
            with pytest.raises(InvalidStatus), opened(served):
                pass
        eventually(lambda: app.guard.held == 0)
        with opened(served):
            pass


async def test_without_the_extension_a_denied_handshake_is_closed() -> None:
    """By the code for a policy that was violated; servers make a 403 of it."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:  # noqa: ANN401  # as ASGI has it
        sent.append(message)

    scope: dict[str, Any] = {"type": "websocket", "path": "/", "headers": [], "client": None}
    await RateLimit(APP, "0/minute")(scope, receive, send)

    assert [{"type": "websocket.close", "code": 1008, "reason": "too many requests"}] == sent
