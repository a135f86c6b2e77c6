# Two processes share one limit: together they admit exactly what the quota says.
# It needs a Redis or Valkey: at REDIS_URL, or at redis://localhost:6379.

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.managers import SyncManager
from threading import Barrier
from uuid import uuid4

from tidegate import Limiter

STORE = os.environ.get("REDIS_URL", "redis://localhost:6379")
LIMIT = 500


def work(key: str, both_are_here: Barrier) -> int:
    # The only change from one process to many is `store`. A patient budget, because this example counts exactly: usually it is 5 ms.
    with Limiter(f"{LIMIT}/minute", store=STORE, budget=2) as limiter:
        assert limiter.health().status == "ok", f"there is no Redis at {STORE}: set REDIS_URL"
        both_are_here.wait()
        return sum(limiter.allow(key) for _ in range(LIMIT))


if __name__ == "__main__":
    context = get_context("spawn")
    key = f"example:{uuid4()}"  # a new one, so that each run starts with nothing used
    with SyncManager(ctx=context) as shared, ProcessPoolExecutor(2, mp_context=context) as processes:
        admitted = list(processes.map(work, [key, key], [shared.Barrier(2)] * 2))
    print(f"asked {2 * LIMIT} times, admitted {' + '.join(map(str, admitted))} = {sum(admitted)}")
    assert sum(admitted) == LIMIT
