"""
The tasks of the workers that tests start. What becomes of them is written into lists of the server that is also the broker.
"""

from __future__ import annotations

import os
from typing import Any

import redis
from celery import Celery  # type: ignore[import-untyped]  # it has no types
from celery.signals import task_retry  # type: ignore[import-untyped]  # as above

from tidegate.integrations.celery import limit

URL = os.environ.get("TIDEGATE_TEST_BROKER", "memory://")
STORE = URL if URL.startswith("redis") else "memory://"
NAME = os.environ.get("TIDEGATE_TEST_QUEUE", "celery")

app = Celery("tidegate_tests", broker=URL, set_as_current=False)
app.conf.update(task_default_queue=NAME, task_ignore_result=True, worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True)


def note(what: str, value: object = 1) -> None:
    """
    Writes down what happened.
    """
    with redis.Redis.from_url(URL) as server:
        server.rpush(f"{NAME}:{what}", str(value))


@task_retry.connect  # type: ignore[untyped-decorator]  # as above
def _put_off(request: Any, **_: Any) -> None:  # noqa: ANN401  # as Celery has it
    note(f"put off {request.task.rpartition('.')[2]}", request.retries)


@app.task(bind=True)  # type: ignore[untyped-decorator]  # as above
@limit("10/hour", key=lambda customer: customer, store=STORE, budget=5.0)
def hourly(self: Any, customer: str) -> None:  # noqa: ANN401  # a task
    """
    Runs ten times an hour for each customer.
    """
    note("hourly", customer)


@app.task(bind=True, max_retries=0)  # type: ignore[untyped-decorator]  # as above
@limit("3/second", store=STORE, budget=5.0)
def quick(self: Any, number: int) -> None:  # noqa: ANN401  # a task
    """
    Runs again soon, and has no retries of its own.
    """
    note("quick", f"{number} {self.request.retries}")


@app.task  # type: ignore[untyped-decorator]  # as above
@limit("2 concurrent ttl 2s", store=STORE, budget=5.0)
def long(number: int) -> None:
    """
    Runs until it may end; at most two at a time.
    """
    with redis.Redis.from_url(URL) as server:
        note("running", server.incr(f"{NAME}:now"))
        server.blpop([f"{NAME}:go"], timeout=30)
        server.decr(f"{NAME}:now")
    note("long", number)


@app.task  # type: ignore[untyped-decorator]  # as above
@limit("1/hour", store=STORE, denied="drop", budget=5.0)
def dropped(number: int) -> None:
    """
    Runs once an hour, and is forgotten otherwise.
    """
    note("dropped", number)


@app.task  # type: ignore[untyped-decorator]  # as above
@limit("5/second burst 1", store=STORE, denied="wait", timeout=30, budget=5.0)
def patient(number: int) -> None:
    """
    Waits in its worker.
    """
    note("patient", number)


@app.task  # type: ignore[untyped-decorator]  # as above
def last() -> None:
    """
    Says that all before it were looked at, by a worker with one thread.
    """
    note("last")
