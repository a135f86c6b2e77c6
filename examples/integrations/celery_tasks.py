# Celery tasks that run at most so often, in all workers together.
# It needs Celery (pip install 'tidegate[celery]'), and a Redis or Valkey: at REDIS_URL, or at redis://localhost:6379.
#
#     $ celery -A celery_tasks worker        # as many as you like
#     $ python celery_tasks.py               # runs one in this process, for a look

import os
from threading import Event
from uuid import uuid4

from celery import Celery
from celery.contrib.testing.worker import start_worker
from celery.signals import task_retry

from tidegate.integrations.celery import limit

STORE = os.environ.get("REDIS_URL", "redis://localhost:6379")

app = Celery("celery_tasks", broker="memory://", backend="cache+memory://")
sent: list[str] = []
put_off: list[float] = []
all_were_looked_at = Event()


# A patient budget, because this example counts exactly: usually it is 5 ms.
@app.task
@limit("3/hour", key=lambda customer: customer, store=STORE, budget=2)
def send_invoice(customer: str) -> None:
    sent.append(customer)
    look()


@task_retry.connect
def tell(reason: Exception, **_: object) -> None:
    put_off.append(reason.when)
    look()


def look() -> None:
    if len(sent) + len(put_off) == 5:
        all_were_looked_at.set()


if __name__ == "__main__":
    customer = f"example:{uuid4()}"  # a new one, so that each run starts with nothing used
    with start_worker(app, pool="solo", perform_ping_check=False, loglevel="ERROR"):
        for _ in range(5):
            send_invoice.delay(customer)
        all_were_looked_at.wait(20)
    print(f"sent {len(sent)} invoices; {len(put_off)} are put off, by {put_off[0]:.0f} s at first")
    assert len(sent) == 3
