"""
Many processes with many threads that press on the same counters at the same time.

As a script it is one of these processes: it reads a job from its standard input, says that it is ready, and begins when it is told to.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from tidegate import Limiter, rules

BUDGET = 20.0
"""More than a busy machine needs: the crowd is about counts, and a fallback would be a failure."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """
    What each process does.

    Args:
        store: The address.
        quotas: For a limiter of keys.
        rule_file: The text of a rule file, for a limiter of requests.
        subjects: Keys or attributes; the threads of all processes walk around them.
        threads: How many in each process.
        calls: How often each thread asks.
        deny_cache: 0: every denial is the store's.
    """

    store: str
    quotas: str = ""
    rule_file: str = ""
    subjects: list[Any]
    threads: int = 8
    calls: int = 25
    deny_cache: int = 0


@dataclass(frozen=True)
class Outcome:
    """
    What all processes saw together.
    """

    admitted: int
    degraded: int


def press(job: Job, processes: int = 4) -> Outcome:
    """
    Runs a job in several processes at once.
    """
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen([sys.executable, Path(__file__)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            )
            for _ in range(processes)
        ]
        for process in started:
            _write(process.stdin, asdict(job))
        for process in started:
            assert _read(process) == "ready"
        for process in started:
            _write(process.stdin, "go")
        said = [_read(process) for process in started]
    return Outcome(sum(one["admitted"] for one in said), sum(one["degraded"] for one in said))


def _write(stream: IO[bytes] | None, value: object) -> None:
    assert stream
    stream.write(json.dumps(value).encode() + b"\n")
    stream.flush()


def _read(process: subprocess.Popen[bytes]) -> Any:  # noqa: ANN401  # JSON
    assert process.stdout
    assert process.stderr
    line = process.stdout.readline()
    assert line, process.stderr.read().decode()
    return json.loads(line)


def main() -> None:
    """
    Is one of the processes.
    """
    job = Job(**json.loads(sys.stdin.readline()))
    options: dict[str, Any] = {"store": job.store, "budget": BUDGET, "deny_cache": job.deny_cache}
    by_rules = rules.load("rules.yaml", text=job.rule_file) if job.rule_file else None
    limiter: Any = Limiter.from_rules(by_rules, **options) if by_rules else Limiter(job.quotas, **options)
    together = threading.Barrier(job.threads)

    def ask(thread: int) -> tuple[int, int]:
        together.wait()
        said = [limiter.check(job.subjects[(thread + number) % len(job.subjects)]) for number in range(job.calls)]
        return sum(decision.allowed for decision in said), sum(decision.degraded for decision in said)

    _write(sys.stdout.buffer, "ready")
    sys.stdin.readline()
    with ThreadPoolExecutor(job.threads) as pool:
        seen = list(pool.map(ask, range(job.threads)))
    # What a denial gives back is sent before this, and arrives before it.
    for subject in job.subjects:
        limiter.peek(subject)
    _write(sys.stdout.buffer, {"admitted": sum(one for one, _ in seen), "degraded": sum(one for _, one in seen)})
    limiter.close()


if __name__ == "__main__":
    main()
