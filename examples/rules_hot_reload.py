# Rules that change on disk come into force by themselves; a bad edit is refused, and the old rules stay.

import logging
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from tidegate import Limiter

RULES = "version: 1\nrules: [{name: all, per: client, quotas: %s}]\n"


logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")


def wait_for(condition: Callable[[], bool]) -> None:
    # In a service nobody waits: the next request is decided by the new rules.
    for _ in range(1000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise TimeoutError


with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "rules.yaml"
    file.write_text(RULES % "10/minute")
    with Limiter.from_rules(file, watch=True) as limiter:
        request = {"client": "abc"}
        assert limiter.check(request).remaining == 9

        file.write_text(RULES % "20/minute")
        wait_for(lambda: limiter.peek(request).limit == 20)
        assert limiter.check(request).remaining == 18
        print(f"generation {limiter.generation}: counters survive, 18 left")

        file.write_text(RULES % "20/minuet")
        wait_for(lambda: limiter.watcher.problem is not None)
        print(f"refused: {limiter.watcher.problem.problems[0].message}")
        assert limiter.check(request).remaining == 17
