"""
At most two at the same time: a slot is held while a block runs, and given back on every path.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

from tidegate import Limiter, errors

SLOTS = 2
limiter = Limiter(f"{SLOTS} concurrent")
lock = threading.Lock()
running: set[int] = set()
seen: list[int] = []


def render(number: int) -> None:
    with limiter.slot("renderer", timeout=5):
        with lock:
            running.add(number)
            seen.append(len(running))
        threading.Event().wait(0.02)  # the work
        with lock:
            running.remove(number)


with ThreadPoolExecutor(8) as pool:
    list(pool.map(render, range(8)))
print(f"{len(seen)} jobs on 8 threads, at most {max(seen)} at the same time")
assert max(seen) <= SLOTS

# Without a timeout a denial is final.
with limiter.slot("renderer"), limiter.slot("renderer"):
    try:
        with limiter.slot("renderer"):
            raise AssertionError("there was no third slot")
    except errors.Denied as denied:
        print(denied)
assert limiter.peek("renderer").remaining == SLOTS
