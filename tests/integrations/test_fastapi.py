"""
Limits as dependencies of FastAPI, over real HTTP.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from fastapi import APIRouter, BackgroundTasks, Depends, FastAPI, HTTPException, WebSocket
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.routing import APIRoute, iter_route_contexts
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tidegate import Decision  # noqa: TC001  # FastAPI reads the annotations of endpoints
from tidegate.integrations._fastapi_front import Front, step_forward
from tidegate.integrations.fastapi import RateLimit, TooManyRequests, install, limit

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

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


FIVE = limit("5/minute")


@pytest.fixture
def app() -> FastAPI:
    """
    An application whose limits are visible.
    """
    app = FastAPI()
    install(app)
    return app


def test_a_route_is_limited(app: FastAPI, clock: ManualClock) -> None:
    """Whatever its endpoint answers: a value, a response, or an error."""

    @app.get("/{kind}", dependencies=[Depends(limit("3/minute", clock=clock))])
    async def endpoint(kind: str) -> Any:  # noqa: ANN401  # several
        if kind == "error":
            raise HTTPException(404)
        return JSONResponse({}) if kind == "response" else {}

    with Served(app) as served:
        answers = [served.ask(path) for path in ("/value", "/response", "/error", "/value")]

    assert [200, 200, 404, 429] == [answer.status for answer in answers]
    assert [2, 1, 0, 0] == [left(answer)["3-per-minute"] for answer in answers]
    assert ("application/problem+json", "60", "try again in 60 s") == (
        answers[3].headers["content-type"],
        answers[3].headers["retry-after"],
        answers[3].json["detail"],
    )


def test_without_install_values_and_denials_have_fields(clock: ManualClock) -> None:
    """The rest needs a middleware. Denials are errors in FastAPI's own form."""
    app = FastAPI()

    @app.get("/", dependencies=[Depends(limit("1/minute", clock=clock))])
    async def endpoint() -> dict[str, str]:
        return {}

    with Served(app) as served:
        answers = [served.ask() for _ in range(2)]

    assert [200, 429] == [answer.status for answer in answers]
    assert [{"1-per-minute": 0}] * 2 == [left(answer) for answer in answers]
    assert ("60", {"detail": "try again in 60 s"}) == (answers[1].headers["retry-after"], answers[1].json)


def test_routes_of_a_router_count_by_themselves_or_together(app: FastAPI) -> None:
    """By endpoint, or by a scope."""
    each = APIRouter(prefix="/each", dependencies=[Depends(limit("1/minute"))])
    together = APIRouter(prefix="/together", dependencies=[Depends(limit("1/minute", scope="together"))])
    for router in (each, together):

        @router.get("/a")
        async def first() -> None: ...

        @router.get("/b")
        async def second() -> None: ...

        app.include_router(router)
    with Served(app) as served:
        statuses = [served.ask(path).status for path in ("/each/a", "/each/b", "/each/a", "/together/a", "/together/b")]

    assert [200, 200, 429, 200, 429] == statuses


def test_several_limits_of_a_route_are_charged_together(app: FastAPI) -> None:
    """What one took is given back when another denies; equal quotas with different keys do not mix."""
    limits = [Depends(limit("3/minute")), Depends(limit("3/minute", key=by_header)), Depends(limit("1/minute", key=by_header))]

    @app.get("/", dependencies=limits)
    async def endpoint() -> None: ...

    with Served(app) as served:
        answers = [served.ask(headers={"x-api-key": key}) for key in ("a", "a", "a", "a", "b", "c", "d")]

    assert [200, 429, 429, 429, 200, 200, 429] == [answer.status for answer in answers]
    assert {"1-per-minute": 0} == left(answers[1])
    assert {"3-per-minute": 0} == left(answers[6])


def test_limits_at_the_head_of_a_route_step_in_front_of_it(app: FastAPI) -> None:
    """After the first request FastAPI resolves them no more; counts, fields and errors are the same, alone and of a router."""
    router = APIRouter(prefix="/router", dependencies=[Depends(limit("4/minute"))])
    twice = limit("3/minute")

    @router.get("/{kind}", dependencies=[Depends(twice), Depends(twice)])
    async def inner(kind: str) -> Any:  # noqa: ANN401  # several
        if kind == "error":
            raise HTTPException(404)
        return JSONResponse({}) if kind == "response" else {}

    @app.post("/body", dependencies=[Depends(limit("3/minute"))])
    async def body(values: list[int]) -> int:
        return sum(values)

    app.include_router(router)
    with Served(app) as served:
        answers = [served.ask(f"/router/{path}") for path in ("value", "error", "response", "value", "value")]
        posted = [served.ask("/body", method="POST", body=value) for value in ([1], "wrong", [2], [3])]

    assert [200, 404, 200, 429, 429] == [answer.status for answer in answers]
    assert [{"4-per-minute": whole, "3-per-minute": three} for whole, three in ((3, 2), (2, 1), (1, 0))] == [
        left(answer) for answer in answers[:3]
    ]
    assert [{"3-per-minute": 0}] * 2 == [left(answer) for answer in answers[3:]]
    assert [200, 422, 200, 429] == [answer.status for answer in posted]
    assert [2, 1, 0, 0] == [left(answer)["3-per-minute"] for answer in posted]
    fronts = [route.app for route in iter_route_contexts(app.routes) if route.path in {"/router/{kind}", "/body"}]
    assert [Front, Front] == [type(front) for front in fronts]


def test_limits_stay_where_stepping_forward_would_change_something(app: FastAPI) -> None:
    """Behind another dependency, where the decision is wanted, with a key, and on routes that handle requests in their own way."""

    class Own(APIRoute): ...

    five = Depends(FIVE)
    router = APIRouter(route_class=Own)

    @app.get("/behind", dependencies=[Depends(lambda: None), five])
    async def behind() -> None: ...

    @app.get("/key", dependencies=[Depends(limit("5/minute", key=by_header))])
    async def key() -> None: ...

    @app.get("/wanted", dependencies=[five])
    async def wanted(decision: Annotated[Decision, Depends(FIVE)]) -> None: ...

    @router.get("/own", dependencies=[five])
    async def own() -> None: ...

    app.include_router(router)
    paths = ["/behind", "/key", "/wanted", "/own"]
    with Served(app) as served:
        answers = [served.ask(path) for path in paths * 2]

    assert [4] * 4 + [3] * 4 == [left(answer)["5-per-minute"] for answer in answers]
    assert not [route.path for route in iter_route_contexts(app.routes) if isinstance(getattr(route, "app", None), Front)]


@pytest.mark.parametrize("route", [None, object(), type("Other", (), {})()], ids=["none", "sealed", "other"])
def test_routes_of_another_kind_stay_as_they_are(route: Any) -> None:  # noqa: ANN401  # what FastAPI may have one day
    """Nothing is changed, and nothing is raised."""
    step_forward({"type": "http", "route": route})

    assert not hasattr(route, "app")


def test_a_limit_can_be_replaced_in_tests(app: FastAPI) -> None:
    """By `dependency_overrides`, also after it has stepped forward; and then it is back."""
    one = limit("2/minute")

    @app.get("/", dependencies=[Depends(one)])
    async def endpoint() -> None: ...

    with Served(app) as served:
        before = served.ask().status
        app.dependency_overrides[one] = lambda: None
        replaced = [served.ask().status for _ in range(5)]
        app.dependency_overrides.clear()
        after = [served.ask().status for _ in range(2)]

    assert (200, [200] * 5, [200, 429]) == (before, replaced, after)


def test_a_limit_is_a_value_of_the_endpoint(app: FastAPI) -> None:
    """The decision, which can be read; a limit that is used twice in a request is counted once."""

    @app.get("/", dependencies=[Depends(FIVE)])
    async def endpoint(decision: Annotated[Decision, Depends(FIVE)]) -> int | None:
        return decision.remaining

    with Served(app) as served:
        assert [4, 3] == [served.ask().json for _ in range(2)]


def test_the_application_can_make_the_denial(app: FastAPI) -> None:
    """By an exception handler, as for every error."""

    @app.exception_handler(TooManyRequests)
    async def handler(_request: Request, error: TooManyRequests) -> Response:
        return PlainTextResponse(f"{error.decision.limit} is the limit", 503, headers=error.headers)

    @app.get("/", dependencies=[Depends(limit("0/minute"))])
    async def endpoint() -> None: ...

    with Served(app) as served:
        answer = served.ask()

    assert (503, b"0 is the limit", {"0-per-minute": 0}) == (answer.status, answer.body, left(answer))


def test_the_openapi_document_shows_limits(app: FastAPI) -> None:
    """The response 429 and the header fields, of limited routes only, wherever the limit stands."""
    router = APIRouter(prefix="/router", dependencies=[Depends(limit("1/minute"))])

    @router.post("/inner")
    async def inner() -> None: ...

    @app.get("/route", dependencies=[Depends(limit("1/minute"))], responses={429: {"description": "Own words"}})
    async def route() -> None: ...

    @app.get("/parameter")
    async def parameter(decision: Annotated[Decision, Depends(limit("1 concurrent"))]) -> None: ...

    @app.get("/free")
    async def free() -> None: ...

    app.include_router(router)
    with Served(app) as served:
        document = served.ask("/openapi.json").json
        again = served.ask("/openapi.json").json

    limited = [document["paths"][path][method] for path, method in (("/router/inner", "post"), ("/parameter", "get"), ("/route", "get"))]
    for operation in limited:
        assert {"RateLimit", "RateLimit-Policy"} <= operation["responses"]["200"]["headers"].keys()
    for operation in limited[:2]:
        denied = operation["responses"]["429"]
        assert {"RateLimit", "RateLimit-Policy", "Retry-After"} == denied["headers"].keys()
        assert "application/problem+json" in denied["content"]
    assert "Own words" == limited[2]["responses"]["429"]["description"]
    assert {"200"} == document["paths"]["/free"]["get"]["responses"].keys()
    assert document == again


def test_a_slot_is_held_until_the_response_has_ended(app: FastAPI, eventually: Eventually) -> None:
    """Not by background tasks, and not after an error."""
    entered, opened = threading.Event(), threading.Event()
    slots = limit("1 concurrent")

    @app.get("/{kind}", dependencies=[Depends(slots)])
    def endpoint(kind: str, tasks: BackgroundTasks) -> None:
        if kind == "error":
            raise HTTPException(400)
        if kind == "slow":
            entered.set()
            assert opened.wait(20)
        if kind == "task":
            tasks.add_task(lambda: entered.set() or opened.wait(20))  # type: ignore[func-returns-value]  # one after the other

    with Served(app) as served:
        assert [400, 400] == [served.ask("/error").status for _ in range(2)]
        threading.Thread(target=served.ask, args=("/slow",)).start()
        assert entered.wait(20)
        assert (429, 1) == (served.ask("/quick").status, slots.tidegate_guard.held)
        opened.set()
        eventually(lambda: served.ask("/quick").status == 200)
        entered.clear()
        opened.clear()
        assert 200 == served.ask("/task").status
        assert entered.wait(20)
        assert 200 == served.ask("/quick").status
        opened.set()


def test_a_websocket_is_checked_at_its_handshake(app: FastAPI) -> None:
    """Denied by 429, with the fields."""

    @app.websocket("/", dependencies=[Depends(limit("1/minute"))])
    async def endpoint(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.close()

    with Served(app) as served:
        address = f"ws://127.0.0.1:{served.port}/"
        with connect(address):
            pass
        with pytest.raises(InvalidStatus) as denied, connect(address):
            pass

    response = denied.value.response
    assert 429 == response.status_code
    # A busy machine may need a second until it asks again.
    assert response.headers["ratelimit"].startswith('"1-per-minute";r=0;t=')


def test_applications_of_one_process_count_by_themselves() -> None:
    """As those that a factory makes for each test; also if they have the same limits."""

    def create() -> FastAPI:
        app = FastAPI()

        @app.get("/", dependencies=[Depends(limit("1/minute"))])
        async def endpoint() -> None: ...

        @app.get("/shared", dependencies=[Depends(limit("1/minute", scope="shared"))])
        async def shared() -> None: ...

        return app

    for app in [create() for _ in range(2)]:
        with Served(app) as served:
            assert [200, 429, 200, 429] == [served.ask(path).status for path in ("/", "/", "/shared", "/shared")]


def test_a_key_that_fails_is_no_error(app: FastAPI) -> None:
    """The address is counted instead."""

    @app.get("/", dependencies=[Depends(limit("1/minute", key=lambda request: request.state.user.id))])
    async def endpoint() -> None: ...

    with Served(app) as served:
        assert [200, 429] == [served.ask().status for _ in range(2)]


def test_middleware_and_routes_are_told_together(app: FastAPI) -> None:
    """Each policy by its name."""

    @app.get("/", dependencies=[Depends(limit("2/minute"))])
    async def endpoint() -> None: ...

    app.add_middleware(RateLimit, "10/minute")
    with Served(app) as served:
        answers = [served.ask() for _ in range(3)]

    assert [200, 200, 429] == [answer.status for answer in answers]
    assert [{"2-per-minute": count, "limit": whole} for count, whole in ((1, 9), (0, 8), (0, 7))] == [left(answer) for answer in answers]
