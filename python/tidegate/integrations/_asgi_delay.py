"""
Waiting for the start that a `leaky_bucket` assigned, while listening whether the client is still there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from tidegate._sleep import sleep_async

if TYPE_CHECKING:
    from tidegate.integrations._asgi_types import Message, Receive
    from tidegate.testing import ManualClock


class Waiting:
    """
    A client that waits for its start. What it sends meanwhile is kept for the application: `receive` gives it first.

    Args:
        receive: Where its messages come from.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._kept: deque[Message] = deque()
        self._pending: asyncio.Future[Message] | None = None

    async def wait(self, delay_ns: int, clock: ManualClock | None) -> bool:
        """
        Waits.

        Args:
            delay_ns: How long, in nanoseconds.
            clock: The limiter's clock, if it has one of its own.

        Returns:
            False if the client went away meanwhile.
        """
        sleeping = asyncio.ensure_future(sleep_async(delay_ns, clock))
        try:
            while await self._is_listening(sleeping):
                message = await self._take()
                if message["type"] in {"http.disconnect", "websocket.disconnect"}:
                    return False
                self._kept.append(message)
                # A body is read by the application, at its own pace.
                if message.get("more_body"):
                    await sleeping
                    return True
        except BaseException:
            if self._pending is not None:
                self._pending.cancel()
            raise
        finally:
            sleeping.cancel()
        return True

    async def receive(self) -> Message:
        """
        The next message of the client.

        Returns:
            The message.
        """
        if self._kept:
            return self._kept.popleft()
        return await (self._receive() if self._pending is None else self._take())

    async def _is_listening(self, sleeping: asyncio.Future[Any]) -> bool:
        if self._pending is None:
            self._pending = asyncio.ensure_future(self._receive())
        await asyncio.wait({sleeping, self._pending}, return_when=asyncio.FIRST_COMPLETED)
        return not sleeping.done()

    async def _take(self) -> Message:
        # Begun already, and not to be cancelled before it is done: a server may lose a message that way.
        pending = self._pending
        assert pending is not None  # noqa: S101  # both callers have looked
        message = await pending
        self._pending = None
        return message
