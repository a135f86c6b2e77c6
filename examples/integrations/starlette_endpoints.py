"""
Single endpoints of Starlette with limits of their own, behind a limit for the whole application.

`uvicorn starlette_endpoints:app` serves it; here it is called without a server.
"""

import asyncio

import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tidegate.integrations.starlette import RateLimit, limit


@limit("2/minute")
async def login(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("welcome")


@limit("1 concurrent")
async def report(_request: Request) -> PlainTextResponse:
    await asyncio.sleep(0.1)  # noqa: TID251  # work that takes a while
    return PlainTextResponse("a long report")


app = Starlette(
    routes=[Route("/login", login), Route("/report", report)],
    middleware=[Middleware(RateLimit, "100/minute")],
)


async def main() -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        logins = [await client.get("/login") for _ in range(3)]
        for answer in logins:
            print(f"login  {answer.status_code}  {answer.headers['ratelimit']}")
        reports = await asyncio.gather(*(client.get("/report") for _ in range(3)))
        print(f"three reports at once: {sorted(answer.status_code for answer in reports)}")
        again = await client.get("/report")
        print(f"one after them: {again.status_code}")
    assert [answer.status_code for answer in logins] == [200, 200, 429]
    assert sorted(answer.status_code for answer in reports) == [200, 429, 429]
    assert again.status_code == 200


if __name__ == "__main__":
    asyncio.run(main())
