"""
Celery tasks, limited across real workers on a real broker.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
from celery import Celery  # type: ignore[import-untyped]  # it has no types

from tidegate import Limiter
from tidegate.errors import ConfigError, Denied, UsageError
from tidegate.integrations.celery import COUNTDOWN_MAX, countdown_of, limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Eventually
    from tests.servers import Single
    from tests.servers.process import Process, new_folder
    from tests.servers.waiting import until
    from tidegate.testing import ManualClock
else:
    from servers.process import Process, new_folder
    from servers.waiting import until

HERE = Path(__file__).parent
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Workers:
    """
    Two workers with two processes each, and who sends them tasks.
    """

    url: str
    queue: str
    log: Path

    def send(self, name: str, *arguments: object) -> None:
        """
        Sends a task, as a program that knows only its name.
        """
        with Celery("sender", broker=self.url, set_as_current=False) as app:
            app.send_task(f"celery_tasks.{name}", args=arguments, queue=self.queue)

    def said(self, what: str) -> list[str]:
        """
        What tasks wrote down.
        """
        with redis.Redis.from_url(self.url) as server:
            return [item.decode() for item in server.lrange(f"{self.queue}:{what}", 0, -1)]

    def push(self, what: str, count: int) -> None:
        """
        Lets tasks go on.
        """
        with redis.Redis.from_url(self.url) as server:
            server.rpush(f"{self.queue}:{what}", *range(count))


@pytest.fixture(scope="module")
def workers(server: Single) -> Iterator[Workers]:
    """
    Workers that all tests of this file share: each has tasks of its own.
    """
    folder, queue = new_folder("celery"), f"tidegate-{next(_NUMBERS)}"
    made = Workers(server.url(), queue, folder / "log")
    environment = {"TIDEGATE_TEST_BROKER": made.url, "TIDEGATE_TEST_QUEUE": queue, "PYTHONPATH": ":".join([str(HERE), *sys.path])}
    words = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "celery_tasks",
        "worker",
        "-c",
        "2",
        "-l",
        "INFO",
        "--without-gossip",
        "--without-mingle",
    ]
    with ExitStack() as stack:
        for number in range(2):
            process = Process([*words, "-n", f"worker{number}"], log=made.log, env=environment)
            # Its processes end with it: they read from a pipe of its own.
            stack.callback(process.kill)
        until(lambda: made.log.read_text(encoding="utf-8").count(" ready.") == 2, 40, lambda: made.log.read_text(encoding="utf-8"))
        yield made


@pytest.fixture(autouse=True)
def _log(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "workers" in request.fixturenames:
        print(request.getfixturevalue("workers").log.read_text(encoding="utf-8")[-6000:])  # noqa: T201  # shown when a test fails


def test_exactly_the_limit_runs_in_all_workers(workers: Workers, eventually: Eventually) -> None:
    """
    The others are put off, and none of their own retries is used for it.
    """
    for number in range(40):
        workers.send("hourly", "ab"[number % 2])
    eventually(lambda: len(workers.said("hourly") + workers.said("put off hourly")) >= 40, within=40)

    assert (10, 10) == (workers.said("hourly").count("a"), workers.said("hourly").count("b"))
    assert ["0"] * 20 == workers.said("put off hourly")


def test_what_was_put_off_runs_later(workers: Workers, eventually: Eventually) -> None:
    """
    All of them, without a retry, although the task allows none.
    """
    for number in range(7):
        workers.send("quick", number)
    eventually(lambda: len(workers.said("quick")) == 7, within=40)

    assert sorted(f"{number} 0" for number in range(7)) == sorted(workers.said("quick"))


def test_slots_are_held_while_tasks_run(workers: Workers, eventually: Eventually) -> None:
    """
    Longer than their lease; the third and the fourth wait for the first two.
    """
    for number in range(4):
        workers.send("long", number)
    eventually(lambda: len(workers.said("put off long")) >= 4, within=40)
    assert 2 == len(workers.said("running"))
    workers.push("go", 4)
    eventually(lambda: len(workers.said("long")) == 4, within=40)

    assert max(map(int, workers.said("running"))) <= 2


def test_tasks_can_be_dropped(workers: Workers, eventually: Eventually) -> None:
    """
    One runs, and the others are gone.
    """
    for number in range(5):
        workers.send("dropped", number)
    # The log of a worker tells of each task that it ended, also of those that were ignored.
    eventually(lambda: workers.log.read_text(encoding="utf-8").count("Task celery_tasks.dropped") >= 5, within=40)
    eventually(lambda: len(workers.said("dropped")) >= 1)

    assert 1 == len(workers.said("dropped"))
    assert [] == workers.said("put off dropped")


def test_tasks_can_wait_in_their_worker(workers: Workers, eventually: Eventually) -> None:
    """
    None is sent again.
    """
    for number in range(4):
        workers.send("patient", number)
    eventually(lambda: len(workers.said("patient")) == 4, within=40)

    assert [] == workers.said("put off patient")


def task(**options: Any) -> Callable[..., Any]:  # noqa: ANN401  # as `limit`
    """
    A task that runs in this process, with a name of its own: tasks of one name are counted together.
    """
    app = Celery("here", broker="memory://", set_as_current=False)

    @app.task(name=f"double-{next(_NUMBERS)}")  # type: ignore[untyped-decorator]  # as above
    @limit("1/hour", store="memory://", **options)
    def double(number: int, *, times: int = 2) -> int:
        return number * times

    made: Callable[..., Any] = double
    return made


@pytest.mark.parametrize("denied", ["retry", "drop", "raise"])
def test_a_task_that_is_called_as_a_function_is_denied_as_one(denied: str) -> None:
    """
    There is nobody to send it again.
    """
    double = task(denied=denied)

    assert 6 == double(3)
    with pytest.raises(Denied):
        double(3)


def test_a_task_keeps_its_signature() -> None:
    """
    Celery refuses wrong arguments before it sends a task.
    """
    double = task()

    assert "(number: 'int', *, times: 'int' = 2) -> 'int'" == str(inspect.signature(double.run))  # type: ignore[attr-defined]  # a task
    with pytest.raises(TypeError):
        double.apply_async()  # type: ignore[attr-defined]  # as above


def test_a_key_that_fails_is_not_free() -> None:
    """
    Such tasks are counted together.
    """
    double = task(key=lambda number, **_: {1: "one"}[number])

    assert [2, 4] == [double(1), double(2)]
    for number in (1, 2, 3):
        with pytest.raises(Denied):
            double(number)


def test_a_slot_is_given_back_by_a_task_that_fails() -> None:
    """
    As by any other.
    """
    limited = limit("1 concurrent", store="memory://", denied="raise")(lambda number: 1 // number)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            limited(0)

    assert 1 == limited(1)


def test_how_long_tasks_are_put_off(clock: ManualClock) -> None:
    """
    Never less than the wait, not much more, and spread; for slots soon.
    """
    hourly, slots = Limiter("1/hour", clock=clock), Limiter("1 concurrent", clock=clock)
    minutely = Limiter("1/minute", clock=clock)
    for limiter in (hourly, slots, minutely):
        limiter.check("a")

    assert [60.0, 66.0] == [countdown_of(minutely.check("a"), chance) for chance in (0.0, 1.0)]
    assert COUNTDOWN_MAX == countdown_of(hourly.check("a"), 0.0)
    assert [2.5, 7.5] == [countdown_of(slots.check("a"), chance) for chance in (0.0, 1.0)]


def test_what_makes_no_sense_is_told() -> None:
    """
    When the task is defined.
    """
    with pytest.raises(ConfigError, match="many processes"):
        limit("1/hour")
    with pytest.raises(ConfigError, match=r"below @app\.task"):
        limit("1/hour", store="memory://")(task())
    with pytest.raises(UsageError, match="retry"):
        limit("1/hour", store="memory://", denied="ignore")  # type: ignore[arg-type]  # that is the test
    with pytest.raises(ConfigError, match="timeout"):
        limit("1/hour", store="memory://", timeout=3)
    with pytest.raises(ConfigError):
        limit("many", store="memory://")
