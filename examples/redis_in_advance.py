# A key that is asked for all the time: its units are taken in advance, and most checks cost no round trip.
# It needs a Redis or Valkey: at REDIS_URL, or at redis://localhost:6379.

import os
from time import perf_counter
from uuid import uuid4

from tidegate import Limiter

STORE = os.environ.get("REDIS_URL", "redis://localhost:6379")
CHECKS = 5_000


def microseconds_a_check(limiter: Limiter, key: str) -> float:
    started = perf_counter()
    assert all(limiter.check(key) for _ in range(CHECKS))
    return 1e6 * (perf_counter() - started) / CHECKS


key = f"example:{uuid4()}"
with Limiter("1000000/hour", store=STORE, budget=2) as limiter:
    assert limiter.health().status == "ok", f"there is no Redis at {STORE}: set REDIS_URL"
    print(f"asking each time: {microseconds_a_check(limiter, key):.1f} µs a check")

with Limiter("1000000/hour advance 1s", store=STORE, budget=2) as limiter:
    print(f"in advance:       {microseconds_a_check(limiter, key):.1f} µs a check")
    print(f"{limiter.health().advanced} of {CHECKS} checks asked nobody")
    assert limiter.health().advanced > 0

# Both counted together, and what was taken and not spent was given back when the limiter was closed.
with Limiter("1000000/hour", store=STORE, budget=2) as limiter:
    print(f"{limiter.peek(key).remaining} are left")
    assert limiter.peek(key).remaining == 1_000_000 - 2 * CHECKS
