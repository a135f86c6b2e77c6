"""
One trivial FastAPI application for each limiter: `GET /` answers a small JSON, and nobody is ever denied.

Every limiter is used as its own documentation shows it, in its fastest configuration where there is a choice; what each of them tells the
client stands beside it.
"""

# ruff: noqa: PLC0415 - a peer is imported where it is used: one that is not installed is left out

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

from fastapi import Depends, FastAPI, Request, Response
from starlette.requests import HTTPConnection

Application = Callable[[dict[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]
Make = Callable[[str | None, float], Awaitable[FastAPI]]
"""Makes the application, on the store of this address or in memory, inside the event loop that will serve it. Tidegate has a budget."""

AMOUNT = 1_000_000_000
QUOTA = f"{AMOUNT}/day"
IN_ADVANCE = f"{QUOTA} advance 1s"
"""The same, of which units are taken in advance: nothing extra is admitted, and a busy key is decided in the process."""
BUDGET_S = 0.005
"""What one gets without asking."""
PATIENT_S = 5.0
"""Nothing is decided without the store, however busy the machine is: that would be faster, and would not be what is measured."""
ONE_COMMAND = "return redis.call('INCR', KEYS[1])"
"""The least that a limiter can ask of a server: a script of one command."""
ONE_CALL = b"*4\r\n$4\r\nEVAL\r\n$%d\r\n%b\r\n$1\r\n1\r\n$8\r\nbaseline\r\n" % (len(ONE_COMMAND), ONE_COMMAND.encode())
"""How it is asked. By its text, which the server digests: by its hash it would be a microsecond less."""


@dataclass(frozen=True)
class Subject:
    """A limiter before an application."""

    library: str
    note: str
    make: Make
    is_for_shared: bool = False
    """Whether it means nothing on a store in the same process."""

    @property
    def name(self) -> str:
        """How tables call it."""
        return f"{self.library}, {self.note}" if self.note else self.library

    def is_installed(self) -> bool:
        """Whether it can be measured here."""
        try:
            metadata.version({"bare": "fastapi"}.get(self.library, self.library))
        except metadata.PackageNotFoundError:
            return False
        return True


async def _bare(_store: str | None, _budget: float) -> FastAPI:
    app = FastAPI()

    @app.get("/")
    async def root() -> dict[str, bool]:
        return {"ok": True}

    return app


def _tidegate(quota: str) -> Make:
    """The middleware: header fields on every response."""

    async def make(store: str | None, budget: float) -> FastAPI:
        from tidegate.integrations.fastapi import RateLimit

        app = await _bare(None, budget)
        app.add_middleware(RateLimit, quota, store=store or "memory://", budget=budget)
        return app

    return make


def _tidegate_route(quota: str) -> Make:
    """A limit of the route: header fields on every response of it."""

    async def make(store: str | None, budget: float) -> FastAPI:
        from tidegate.integrations.fastapi import install, limit

        app = FastAPI()
        install(app)

        @app.get("/", dependencies=[Depends(limit(quota, store=store or "memory://", budget=budget))])
        async def root() -> dict[str, bool]:
            return {"ok": True}

        return app

    return make


def _slowapi(*, headers: bool) -> Make:
    async def make(store: str | None, _budget: float) -> FastAPI:
        from slowapi import Limiter, _rate_limit_exceeded_handler
        from slowapi.errors import RateLimitExceeded
        from slowapi.util import get_remote_address

        limiter = Limiter(key_func=get_remote_address, headers_enabled=headers, storage_uri=store)
        app = FastAPI()
        app.state.limiter = limiter
        app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)  # type: ignore[arg-type]

        @app.get("/")
        @limiter.limit(f"{AMOUNT}/day")
        async def root(request: Request, response: Response) -> dict[str, bool]:  # noqa: ARG001 - it asks for both
            return {"ok": True}

        return app

    return make


async def _fastapi_limiter(store: str | None, _budget: float) -> FastAPI:
    """It tells the client nothing."""
    from fastapi_limiter.depends import RateLimiter
    from pyrate_limiter import Duration, Limiter, Rate, RedisBucket

    rates = [Rate(AMOUNT, Duration.DAY)]
    if store is None:
        limiter = Limiter(rates)
    else:
        from redis.asyncio import Redis

        limiter = Limiter(await RedisBucket.init(rates, Redis.from_url(store), "bench"))
    app = FastAPI()

    @app.get("/", dependencies=[Depends(RateLimiter(limiter=limiter))])
    async def root() -> dict[str, bool]:
        return {"ok": True}

    return app


async def _throttled_headers(store: str | None, _budget: float) -> FastAPI:
    """Its own integration: a decorator that decides, and middleware that tells."""
    from throttled.asyncio import MemoryStore, RedisStore, rate_limiter
    from throttled.asyncio.contrib.fastapi import Limiter, RateLimitMiddleware, get_remote_address

    where = MemoryStore() if store is None else RedisStore(server=store)
    limiter = Limiter(rate_limiter.per_day(AMOUNT), store=where, using="fixed_window", key_func=get_remote_address)
    app = FastAPI()
    app.add_middleware(RateLimitMiddleware)

    @app.get("/")
    @limiter.limit()
    async def root(request: Request) -> dict[str, bool]:  # noqa: ARG001 - it asks for it
        return {"ok": True}

    return app


async def _throttled(store: str | None, _budget: float) -> FastAPI:
    """A dependency of three lines, which tells the client nothing."""
    from throttled.asyncio import MemoryStore, RedisStore, Throttled, rate_limiter

    where = MemoryStore() if store is None else RedisStore(server=store)
    throttle = Throttled(using="fixed_window", quota=rate_limiter.per_day(AMOUNT), store=where)

    async def check(request: Request) -> None:
        assert request.client is not None
        assert not (await throttle.limit(request.client.host)).limited

    app = FastAPI()

    @app.get("/", dependencies=[Depends(check)])
    async def root() -> dict[str, bool]:
        return {"ok": True}

    return app


async def _empty_dependency(_store: str | None, _budget: float) -> FastAPI:
    """What FastAPI itself needs for a dependency that takes the request and the response."""

    async def nothing(connection: HTTPConnection, response: Response) -> None:
        pass

    app = FastAPI()

    @app.get("/", dependencies=[Depends(nothing)])
    async def root() -> dict[str, bool]:
        return {"ok": True}

    return app


async def _one_script(store: str | None, _budget: float) -> FastAPI:
    """What the usual client needs to have a server run a script of one command, and nothing else."""
    from redis.asyncio import Redis

    assert store is not None
    redis = Redis.from_url(store)
    script = await redis.script_load(ONE_COMMAND)
    return await _asking(lambda: redis.evalsha(script, 1, "baseline"))


async def _one_trip(store: str | None, _budget: float) -> FastAPI:
    """The same without a client: bytes made before go out, and what comes back is not read. Nothing in Python can come below it."""
    assert store is not None
    where = urlsplit(store)
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(_Bytes, where.hostname, where.port)
    return await _asking(lambda: protocol.ask(transport))


class _Bytes(asyncio.Protocol):
    """One question after the other."""

    def __init__(self) -> None:
        self._answers: deque[asyncio.Future[bytes]] = deque()

    def data_received(self, data: bytes) -> None:
        for _ in range(data.count(b"\n")):
            self._answers.popleft().set_result(data)

    def ask(self, transport: asyncio.WriteTransport) -> asyncio.Future[bytes]:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        transport.write(ONE_CALL)
        return answer


async def _asking(ask: Callable[[], Awaitable[Any]]) -> FastAPI:
    """The application behind a middleware that waits for this."""
    app = await _bare(None, 0)

    class Ask:
        def __init__(self, app: Application) -> None:
            self._app = app

        async def __call__(
            self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
        ) -> None:
            await ask()
            await self._app(scope, receive, send)

    app.add_middleware(Ask)
    return app


SUBJECTS = (
    Subject("bare", "", _bare),
    Subject("tidegate", "middleware, with headers", _tidegate(QUOTA)),
    Subject("tidegate", "route, with headers", _tidegate_route(QUOTA)),
    Subject("tidegate", "middleware, with headers, in advance", _tidegate(IN_ADVANCE), is_for_shared=True),
    Subject("tidegate", "route, with headers, in advance", _tidegate_route(IN_ADVANCE), is_for_shared=True),
    Subject("slowapi", "with headers", _slowapi(headers=True)),
    Subject("slowapi", "without headers", _slowapi(headers=False)),
    Subject("fastapi-limiter", "without headers", _fastapi_limiter),
    Subject("throttled-py", "with headers", _throttled_headers),
    Subject("throttled-py", "without headers", _throttled),
)

BASELINES = {
    "memory": (Subject("bare", "an empty dependency", _empty_dependency),),
    "redis": (Subject("bare", "one script by redis-py", _one_script), Subject("bare", "one script without a client", _one_trip)),
}
"""What is no limiter, but part of one: below it nobody can come."""


def installed() -> list[Subject]:
    """Return those that can be measured here; the first is the application without a limiter."""
    return [subject for subject in SUBJECTS if subject.is_installed()]


def on(store: str | None, subjects: Sequence[Subject]) -> list[Subject]:
    """Return those that mean something on the store of this address, or in memory."""
    return [subject for subject in subjects if store or not subject.is_for_shared]
