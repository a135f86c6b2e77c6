# A hundred tasks on one shared limit: their checks travel together, and the event loop never waits.
# It needs a Redis or Valkey: at REDIS_URL, or at redis://localhost:6379.

import asyncio
import os
from uuid import uuid4

from tidegate import Limiter

STORE = os.environ.get("REDIS_URL", "redis://localhost:6379")
LIMIT = 30


async def main() -> None:
    with Limiter(f"{LIMIT}/minute", store=STORE, budget=2) as limiter:
        assert limiter.health().status == "ok", f"there is no Redis at {STORE}: set REDIS_URL"
        key = f"example:{uuid4()}"
        decisions = await asyncio.gather(*(limiter.check_async(key) for _ in range(100)))
        print(f"{sum(map(bool, decisions))} of {len(decisions)} tasks were allowed")
        assert sum(map(bool, decisions)) == LIMIT

        # Who was denied is denied from memory until its time has come: this costs the store nothing.
        denied = await limiter.check_async(key)
        print(f"retry after {denied.retry_after:.3f} s, {limiter.health().deny_cache_hits} denials without asking")
        assert limiter.health().deny_cache_hits > 0


asyncio.run(main())
