"""
The ASGI middleware with frameworks and servers as they are: several processes, one store, and a store that is frozen.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.integrations.asgi import RateLimit

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.integrations.serving import Answer, Child, left
    from tests.servers import Single
else:
    from servers import Single
    from serving import Child, left

LIMIT = 20
"""That of `asgi_apps.QUOTA`."""


@pytest.mark.parametrize(
    ("server", "framework"),
    [("uvicorn", "fastapi"), ("hypercorn", "quart"), ("granian", "litestar"), ("uvicorn", "django")],
)
def test_every_server_and_framework_is_limited(server: str, framework: str) -> None:
    """By plain ASGI: counted, told and denied, whoever serves and whoever answers."""
    with Child(server, framework) as child:
        answers = [child.ask("/x", {"x-key": "a"}) for _ in range(LIMIT + 2)]
        other = child.ask("/x", {"x-key": "b"})

    assert [200] * LIMIT + [429] * 2 == [answer.status for answer in answers]
    assert list(range(LIMIT - 1, -1, -1)) == [left(answer)["limit"] for answer in answers[:LIMIT]]
    assert "application/problem+json" == answers[-1].headers["content-type"]
    assert 200 == other.status


def test_four_workers_on_one_store_admit_exactly_the_limit(server: Single, eventually: Eventually) -> None:
    """Each key its quota, however its requests are spread over processes."""
    keys = (f"workers-{number}-{server.pid}" for number in itertools.count())

    def are_several_asked(child: Child, pool: ThreadPoolExecutor) -> bool:
        """
        Asks for three new keys, whose quotas must hold in any case; and whether more than one process had a part in it.
        """
        asked = [(key, pool.submit(child.ask, "/x", {"x-key": key})) for key in itertools.islice(keys, 3) for _ in range(LIMIT + 10)]
        by_key: defaultdict[str, list[Answer]] = defaultdict(list)
        for key, future in asked:
            if (answer := future.result()).status == 200:
                by_key[key].append(answer)

        # What was left was told once for each count, whichever process told it.
        assert [list(range(LIMIT))] * 3 == [sorted(left(answer)["limit"] for answer in admitted) for admitted in by_key.values()]
        return 1 < len({answer.json["pid"] for admitted in by_key.values() for answer in admitted})

    with Child("uvicorn", "fastapi", workers=4, env={"TIDEGATE_TEST_STORE": server.url()}) as child, ThreadPoolExecutor(8) as pool:
        # The first to listen answers alone while the others still start, or stand still.
        eventually(lambda: are_several_asked(child, pool), 30)


@pytest.mark.parametrize("quotas", ["1000/minute", "1000/minute, 1000 concurrent"])
async def test_a_frozen_store_does_not_stop_the_event_loop(quotas: str) -> None:
    """Requests are answered within moments, by this process's share; meanwhile the loop turns."""

    async def app(_scope: Any, _receive: Any, send: Any) -> None:  # noqa: ANN401  # as ASGI has them
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    with Single() as store:
        limit = RateLimit(app, quotas, store=store.url())
        statuses = await _asked(limit, 20)
        store.freeze()
        try:
            ticking = asyncio.create_task(_longest_stall())
            begun = perf_counter()
            statuses += await _asked(limit, 200)
            took = perf_counter() - begun
            ticking.cancel()
            stall = await ticking
        finally:
            store.thaw()
        await limit.guard.close_async()

    assert {204} == set(statuses)
    # A call that blocks would take as long as the store is frozen: until the test is cut off. The bounds are those of a busy machine.
    assert stall < 10.0
    assert took < 20.0


async def _asked(limit: RateLimit, count: int) -> list[int]:
    statuses: list[int] = []

    async def receive() -> Any:  # noqa: ANN401  # as ASGI has it
        return {"type": "http.request"}

    async def send(message: Any) -> None:  # noqa: ANN401  # as ASGI has it
        if "status" in message:
            statuses.append(message["status"])

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": ("192.0.2.1", 1)}
    await asyncio.gather(*(limit(dict(scope), receive, send) for _ in range(count)))
    return statuses


async def _longest_stall() -> float:
    longest = 0.0
    try:
        while True:
            begun = perf_counter()
            await asyncio.sleep(0.001)  # noqa: TID251  # what is late is the loop
            longest = max(longest, perf_counter() - begun)
    except asyncio.CancelledError:
        return longest
