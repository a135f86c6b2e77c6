"""
`leaky_bucket` before ASGI applications: requests start later, and those who do not wait give their place back.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tidegate.integrations.asgi import RateLimit

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from tests.integrations.serving import Served
    from tidegate.testing import ManualClock
else:
    from serving import Served

QUOTA = "1/minute queue 2m"
SCOPE: dict[str, Any] = {"type": "http", "method": "POST", "path": "/", "headers": [], "client": ("192.0.2.1", 1)}


async def echo(request: Request) -> Response:
    """
    Answers the body.
    """
    return PlainTextResponse(await request.body())


def test_a_request_starts_when_its_turn_comes(clock: ManualClock) -> None:
    """With its body, although it was sent meanwhile; and where the queue is full it is denied."""
    begun = clock.time()
    with Served(RateLimit(Starlette(routes=[Route("/", echo, methods=["POST"])]), QUOTA, clock=clock)) as served:
        answers = [served.ask("/", method="POST", body=b"body") for _ in range(3)]

    assert [(200, b"body")] * 3 == [(answer.status, answer.body) for answer in answers]
    assert 120.0 == clock.time() - begun


class Client:
    """
    A client in this process: what it sends, and whether its request was served.
    """

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.messages = list(messages)
        self.is_served = False

    async def receive(self) -> dict[str, Any]:
        """
        The next message; none after the last.
        """
        if not self.messages:
            await asyncio.Event().wait()
        return self.messages.pop(0)

    async def send(self, message: Any) -> None:  # noqa: ANN401  # as ASGI has it
        """
        Takes the response.
        """

    async def app(self, _scope: Any, _receive: Any, _send: Any) -> None:  # noqa: ANN401  # as ASGI has them
        """
        The application.
        """
        self.is_served = True


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["disconnected", "cancelled"])
async def test_who_goes_away_while_waiting_gives_its_place_back(*, is_cancelled: bool) -> None:
    """The application never sees the request, and the next one waits no longer than without it."""
    body = {"type": "http.request", "body": b"", "more_body": False}
    first, gone = Client(body), Client(body, *([] if is_cancelled else [{"type": "http.disconnect"}]))
    limit = RateLimit(first.app, QUOTA)
    await limit(dict(SCOPE), first.receive, first.send)
    before = limit.guard.limiter.check({"ip": "192.0.2.1"}, 0).reset_after_ns
    limit.app = gone.app
    task = asyncio.create_task(limit(dict(SCOPE), gone.receive, gone.send))
    if is_cancelled:
        for _ in range(5):
            await asyncio.sleep(0)  # noqa: TID251  # turns of the loop, until it waits
        task.cancel()
    async with asyncio.timeout(20):
        await asyncio.gather(task, return_exceptions=True)

    assert (True, False) == (first.is_served, gone.is_served)
    assert limit.guard.limiter.check({"ip": "192.0.2.1"}, 0).reset_after_ns <= before


async def test_a_long_body_is_left_to_the_application(clock: ManualClock) -> None:
    """Only its first part is kept while the request waits; the rest stays where it is."""
    parts = [{"type": "http.request", "body": bytes([65 + number]), "more_body": number < 3} for number in range(4)]
    seen: list[dict[str, Any]] = []

    async def read(_scope: Any, receive: Any, _send: Any) -> None:  # noqa: ANN401  # as ASGI has them
        while not seen or seen[-1]["more_body"]:
            seen.append(await receive())

    client = Client(*parts)
    limit = RateLimit(client.app, QUOTA, clock=clock)
    await limit(dict(SCOPE), client.receive, client.send)
    limit.app = read
    await limit(dict(SCOPE), client.receive, client.send)

    assert parts == seen
