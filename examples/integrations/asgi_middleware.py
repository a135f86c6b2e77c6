"""
A plain ASGI application behind `RateLimit`: counted by API key, with a health check that is never limited.

`uvicorn asgi_middleware:app` serves it; here it is called without a server.
"""

import asyncio

import httpx

from tidegate.integrations.asgi import RateLimit


async def hello(scope, receive, send):  # noqa: ANN001, ANN201, ARG001  # as ASGI has them
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"hello"})


def api_key(scope):  # noqa: ANN001, ANN201  # as above
    return dict(scope["headers"]).get(b"x-api-key", b"").decode("latin-1")


app = RateLimit(hello, "3/minute", key=api_key, exempt=["/healthz"])


async def main() -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        for path, key in [("/", "ann")] * 4 + [("/", "bob"), ("/healthz", "ann")]:
            answer = await client.get(path, headers={"x-api-key": key})
            print(f"{key} {path:9} {answer.status_code}  {answer.headers.get('ratelimit', 'not limited')}")
        denied = await client.get("/", headers={"x-api-key": "ann"})
    print(denied.text)
    assert denied.status_code == 429
    assert 1 <= int(denied.headers["retry-after"]) <= 60


if __name__ == "__main__":
    asyncio.run(main())
