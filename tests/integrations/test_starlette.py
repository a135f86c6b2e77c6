"""
The decorator for endpoints of Starlette, over real HTTP.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tidegate.errors import UsageError
from tidegate.integrations.starlette import RateLimit, limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response
    from starlette.websockets import WebSocket

    from tests.conftest import Eventually
    from tests.integrations.serving import Served, left
    from tidegate.testing import ManualClock
else:
    from serving import Served, left


def by_header(request: Any) -> Any:  # noqa: ANN401  # a key function
    """
    A key function that takes a header.
    """
    return request.headers.get("x-api-key")


def test_endpoints_are_limited_by_themselves(clock: ManualClock) -> None:
    """Async and blocking ones, functions and methods; with header fields on errors too."""

    @limit("2/minute", clock=clock)
    async def first(_request: Request) -> Response:
        return PlainTextResponse("first")

    @limit("2/minute", clock=clock)
    def second(_request: Request) -> Response:
        raise HTTPException(404, headers={"x-own": "1"})

    class Third(HTTPEndpoint):
        @limit("1/minute", clock=clock)
        async def get(self, _request: Request) -> Response:
            return PlainTextResponse("third")

    routes = [Route("/first", first), Route("/second", second), Route("/third", Third)]
    with Served(Starlette(routes=routes)) as served:
        answers = {path: [served.ask(path) for _ in range(3)] for path in ("/first", "/second", "/third")}

    assert {"/first": [200, 200, 429], "/second": [404, 404, 429], "/third": [200, 429, 429]} == {
        path: [answer.status for answer in given] for path, given in answers.items()
    }
    assert [1, 0, 0] == [left(answer)["2-per-minute"] for answer in answers["/first"]]
    assert [1, 0, 0] == [left(answer)["2-per-minute"] for answer in answers["/second"]]
    assert "1" == answers["/second"][0].headers["x-own"]
    assert ("application/problem+json", "60") == tuple(answers["/third"][1].headers[name] for name in ("content-type", "retry-after"))


def test_endpoints_of_one_scope_share_their_quota() -> None:
    """And limits of one endpoint charge together: what one took is given back if another denies."""

    @limit("4/minute", scope="shared")
    async def first(_request: Request) -> Response:
        return PlainTextResponse("first")

    @limit("4/minute", scope="shared")
    @limit("1/minute", key=by_header)
    async def second(_request: Request) -> Response:
        return PlainTextResponse("second")

    with Served(Starlette(routes=[Route("/first", first), Route("/second", second)])) as served:
        second_statuses = [served.ask("/second", {"x-api-key": key}).status for key in ("a", "a", "a", "b")]
        answer = served.ask("/first")

    assert [200, 429, 429, 200] == second_statuses
    assert {"4-per-minute": 1} == left(answer)


def test_a_denial_can_be_made_by_the_application() -> None:
    """By a function of the request and the decision."""

    @limit("0/minute", denied=lambda request, _decision: PlainTextResponse(f"no {request.url.path}", 503))
    async def endpoint(_request: Request) -> Response:
        raise AssertionError("it is never called")

    with Served(Starlette(routes=[Route("/path", endpoint)])) as served:
        answer = served.ask("/path")

    assert (503, b"no /path") == (answer.status, answer.body)
    assert {"0-per-minute": 0} == left(answer)


@pytest.mark.parametrize("is_blocking", [False, True], ids=["async", "blocking"])
def test_a_slot_is_held_until_the_response_has_ended(eventually: Eventually, *, is_blocking: bool) -> None:
    """Although the endpoint has returned long before; and given back when it fails."""
    entered, opened = threading.Event(), threading.Event()

    def parts() -> Iterator[bytes]:
        yield b"first"
        entered.set()
        assert opened.wait(20)
        yield b"last"

    def answer(request: Request) -> Response:
        if request.url.query:
            raise ValueError("broken")
        return StreamingResponse(parts())

    async def answer_async(request: Request) -> Response:
        return answer(request)

    endpoint = limit("1 concurrent")(answer) if is_blocking else limit("1 concurrent")(answer_async)
    with Served(Starlette(routes=[Route("/", endpoint)])) as served:
        assert [500, 500] == [served.ask("/?fail").status for _ in range(2)]
        threading.Thread(target=served.ask).start()
        assert entered.wait(20)
        assert 429 == served.ask().status
        opened.set()
        eventually(lambda: served.ask().status == 200)


async def test_a_response_that_is_thrown_away_gives_its_slot_back() -> None:
    """As by another decorator that answers instead."""

    @limit("1 concurrent")
    async def endpoint(_request: Request) -> Response:
        return PlainTextResponse("")

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b"", "client": ("192.0.2.1", 1)}
    statuses = [(await endpoint(Request(dict(scope)))).status_code for _ in range(3)]

    assert [200, 200, 200] == statuses


def test_a_websocket_is_checked_at_its_handshake(eventually: Eventually) -> None:
    """And holds its slot until it is closed."""

    @limit("1 concurrent")
    async def endpoint(websocket: WebSocket) -> None:
        await websocket.accept()
        async for text in websocket.iter_text():
            await websocket.send_text(text)

    told = []

    def is_free(served: Served) -> bool:
        try:
            with connect(f"ws://127.0.0.1:{served.port}/"):
                return True
        except InvalidStatus as denied:
            told.append((denied.response.status_code, denied.response.headers["ratelimit"]))
            return False

    with Served(Starlette(routes=[WebSocketRoute("/", endpoint)])) as served:
        with connect(f"ws://127.0.0.1:{served.port}/") as websocket:
            websocket.send("here")
            assert "here" == websocket.recv(20)
            assert not is_free(served)
        eventually(lambda: is_free(served))

    assert {(429, '"1-concurrent";r=0')} == set(told)


def test_the_middleware_takes_functions_of_a_request() -> None:
    """`key` and `cost` see headers and the query as endpoints do."""
    middleware = Middleware(RateLimit, "5/minute", key=by_header, cost=lambda request: int(request.query_params.get("cost", 1)))

    async def endpoint(_request: Request) -> Response:
        return PlainTextResponse("")

    with Served(Starlette(routes=[Route("/", endpoint)], middleware=[middleware])) as served:
        answers = [served.ask(path, {"x-api-key": key}) for path, key in (("/?cost=4", "a"), ("/", "b"), ("/?cost=2", "a"), ("/", "a"))]

    assert [200, 200, 429, 200] == [answer.status for answer in answers]
    assert [{"limit": 1}, {"limit": 4}] == [left(answer) for answer in answers[:2]]


def test_what_cannot_be_limited_is_refused() -> None:
    """A class has several methods, a function without a request nobody to count, and a blocking one cannot await."""

    async def key(_request: Any) -> str:  # noqa: ANN401  # a key function
        return ""

    with pytest.raises(UsageError, match="make the endpoint async"):
        limit("1/minute", key=key)(lambda _request: None)
    with pytest.raises(UsageError, match="decorate its methods"):
        limit("1/minute")(HTTPEndpoint)
    with pytest.raises(UsageError, match="called with its request"):
        limit("1/minute")(lambda: None)()
