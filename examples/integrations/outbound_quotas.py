"""
Quotas of one's own for calls to other people's servers: five requests a second, evenly spaced, whatever the server would allow.
"""

import asyncio
from itertools import pairwise

import httpx

from tidegate.integrations.httpx import AsyncPacedTransport
from tidegate.testing import ManualClock

clock = ManualClock()
begin = clock.time()
times: list[float] = []


def answer(_: httpx.Request) -> httpx.Response:
    times.append(clock.time() - begin)
    return httpx.Response(200)


async def main() -> None:
    # Any transport can be wrapped; this one answers by itself.
    transport = AsyncPacedTransport(httpx.MockTransport(answer), quotas="5/second queue 10s", clock=clock)
    async with httpx.AsyncClient(transport=transport) as client:
        for _ in range(10):
            await client.get("https://api.example.com/items")


asyncio.run(main())
print("requests leave at", ", ".join(f"{time:.1f}" for time in times), "s")
assert all(later - earlier >= 0.199 for earlier, later in pairwise(times))
