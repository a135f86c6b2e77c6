"""
What httpcore forgets when many tasks send bodies over one connection of HTTP/2.

A task without room to send waits for its turn to read, and then reads. If whoever read before it has got the room for it meanwhile, it
waits for bytes that nobody sends: about one run in a hundred on a busy machine, of one request in twenty.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from httpcore._async.http2 import AsyncHTTP2Connection

if TYPE_CHECKING:
    import pytest

_SENDING: ContextVar[int | None] = ContextVar("sending", default=None)


def mend(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Lets tasks look once more whether they have room when it is their turn to read.
    """
    wait, read = AsyncHTTP2Connection._wait_for_outgoing_flow, AsyncHTTP2Connection._read_incoming_data

    async def wait_for_room(self: AsyncHTTP2Connection, request: Any, stream_id: int) -> int:  # noqa: ANN401  # whatever it is passed
        token = _SENDING.set(stream_id)
        try:
            return await wait(self, request, stream_id)
        finally:
            _SENDING.reset(token)

    async def read_if_needed(self: AsyncHTTP2Connection, request: Any) -> list[Any]:  # noqa: ANN401  # as above
        stream_id = _SENDING.get()
        has_room = stream_id is not None and self._h2_state.local_flow_control_window(stream_id) > 0
        return [] if has_room else await read(self, request)

    monkeypatch.setattr(AsyncHTTP2Connection, "_wait_for_outgoing_flow", wait_for_room)
    monkeypatch.setattr(AsyncHTTP2Connection, "_read_incoming_data", read_if_needed)
