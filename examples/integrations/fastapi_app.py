"""
FastAPI with limits as dependencies: one for a route, one that the routes of a router share, both visible in the OpenAPI document.

`uvicorn fastapi_app:app` serves it; here it is called without a server.
"""

import asyncio
from typing import Annotated

import httpx
from fastapi import APIRouter, Depends, FastAPI, Request

from tidegate import Decision
from tidegate.integrations.fastapi import install, limit

app = FastAPI()
install(app)


def api_key(request: Request) -> str | None:
    return request.headers.get("x-api-key")


@app.get("/search")
async def search(decision: Annotated[Decision, Depends(limit("2/minute"))]) -> dict[str, int | None]:
    return {"searches_left": decision.remaining}


orders = APIRouter(prefix="/orders", dependencies=[Depends(limit("3/minute", key=api_key, scope="orders"))])


@orders.get("/open")
async def open_orders() -> list[str]:
    return ["a", "b"]


@orders.get("/closed")
async def closed_orders() -> list[str]:
    return []


app.include_router(orders)


async def main() -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        searches = [await client.get("/search") for _ in range(3)]
        for answer in searches:
            print(f"search  {answer.status_code}  {answer.json()}")
        listed = [await client.get(f"/orders/{kind}", headers={"x-api-key": "ann"}) for kind in ("open", "closed", "open", "closed")]
        for answer in listed:
            print(f"orders  {answer.status_code}  {answer.headers['ratelimit']}")
    assert [answer.status_code for answer in searches] == [200, 200, 429]
    assert [answer.status_code for answer in listed] == [200, 200, 200, 429]
    assert "429" in app.openapi()["paths"]["/orders/open"]["get"]["responses"]


if __name__ == "__main__":
    asyncio.run(main())
