"""
A process that asks a limiter, told what to do by lines of JSON: `python fault_worker.py`, and `Worker` for those who start it.

    {"open": {"quotas": "10/minute", "store": "redis://..."}}    null
    {"health": []}                                               {"status": "ok", "instances": 3, ...}
    {"load": ["a", "b"]}                                         null: asks for these keys from now on
    {"stop": []}                                                 every decision: [key, start, took, is_allowed, reason]
    {"check": [["a", 1], ["a", 2]]}                              [is_allowed, remaining, retry_after, reset_after, is_degraded] of each
    {"time": []}                                                 what the process takes for the time
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tidegate import Limiter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.redis.fault_load import Load, Seen
else:
    from fault_load import Load, Seen


class Worker:
    """
    Such a process, from construction to the end of the `with` block.

    Args:
        environment: More variables of its environment.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)

    def ask(self, what: str, value: object = ()) -> Any:  # noqa: ANN401  # as the table says
        """
        Has it do something, and waits for its answer.
        """
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({what: value}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def stop(self) -> list[Seen]:
        """
        Ends the load.
        """
        return [Seen(*one) for one in self.ask("stop")]


class _Work:
    def __init__(self) -> None:
        self.limiter: Limiter | None = None
        self.running: Load | None = None

    def do(self, what: str, value: Any) -> object:  # noqa: ANN401  # as the table says
        if what == "open":
            self.limiter = Limiter(**value)
            return None
        if what == "time":
            return time.time()  # noqa: TID251  # whether it is wrong is the question
        assert self.limiter
        match what:
            case "health":
                health = self.limiter.health()
                return {"status": health.status, "instances": health.instances, "owed": health.owed, "clock_skew": health.clock_skew}
            case "load":
                self.running = Load(self.limiter, keys=value, threads=2, pause=0.005).__enter__()
                return None
            case "check":
                decisions = [self.limiter.check(key, cost) for key, cost in value]
                return [[one.allowed, one.remaining, one.retry_after, one.reset_after, one.degraded] for one in decisions]
            case _:
                assert self.running
                self.running.__exit__()
                return [[one.key, one.start, one.took, one.is_allowed, one.reason] for one in self.running.seen]


def _main() -> None:
    work = _Work()
    for line in sys.stdin:
        [(what, value)] = json.loads(line).items()
        sys.stdout.write(json.dumps(work.do(what, value)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    _main()
