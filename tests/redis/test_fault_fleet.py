"""
Several processes that lose the store at the same moment admit no more together than the rule says.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tests.redis.fault_load import Seen, most_in_window
    from tests.redis.fault_worker import Worker
    from tests.servers import Single
else:
    from fault_load import most_in_window
    from fault_worker import Worker
    from servers import Single

WORKERS = 3
KEYS = ["a", "b", "c", "d"]
BUDGET_S = 0.4
"""Longer than a busy machine stands still: servers that work must not look like ones that do not."""
IN_FLIGHT = 6
"""What each thread asks of the store when it goes away, and may be admitted by both."""


@pytest.fixture
def own_server() -> Iterator[Single]:
    """
    A server that the test may freeze.
    """
    with Single() as server:
        yield server


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    """
    Processes.
    """
    with ExitStack() as stack:
        yield [stack.enter_context(Worker()) for _ in range(WORKERS)]


def open_all(workers: list[Worker], server: Single, quotas: str, eventually: Eventually) -> None:
    """
    Opens a limiter in each, and waits until all know of all.
    """
    for worker in workers:
        worker.ask("open", {"quotas": quotas, "store": server.url(), "budget": BUDGET_S})
    eventually(lambda: all(worker.ask("health")["instances"] == WORKERS for worker in workers))


@pytest.mark.parametrize("quotas", ["90/hour", "90/hour fixed_window", "90/hour sliding_window_counter", "1/hour burst 90"])
def test_fair_shares_add_up_to_the_rule(workers: list[Worker], own_server: Single, eventually: Eventually, quotas: str) -> None:
    """
    Thirty were used before the outage; each process has a third of the rest, and no more after it.
    """
    open_all(workers, own_server, quotas, eventually)
    before = [worker.ask("check", [["a", 1]] * 10) for worker in workers]
    # Each has heard that sixty remain, and a third of that is what it may admit.
    told = [worker.ask("check", [["a", 0]]) for worker in workers]
    own_server.freeze()
    during = [worker.ask("check", [["a", 1]] * 100) for worker in workers]

    assert [10] * WORKERS == [count(answers) for answers in before]
    assert [60] * WORKERS == [answers[0][1] for answers in told]
    assert [20] * WORKERS == [count(answers) for answers in during]

    own_server.thaw()
    eventually(lambda: all(worker.ask("health")["status"] == "ok" and not worker.ask("health")["owed"] for worker in workers), 20)
    eventually(lambda: workers[0].ask("check", [["a", 0]])[0][1] == 0)
    assert 0 == sum(count(worker.ask("check", [["a", 1]] * 10)) for worker in workers)


def test_a_limit_below_the_number_of_instances_is_not_rounded_up(workers: list[Worker], own_server: Single, eventually: Eventually) -> None:
    """
    Of three, two have a share of a limit of two; others for other keys.
    """
    open_all(workers, own_server, "2/s", eventually)
    assert all(not answer[4] for worker in workers for answer in worker.ask("check", [["warm", 0]]))
    own_server.freeze()
    keys = [f"key {number}" for number in range(20)]
    for worker in workers:
        worker.ask("check", [[key, 0] for key in keys])
    # From a window after the last answer on, nothing from before counts.
    eventually(lambda: any(count(worker.ask("check", [["probe", 1]])) for worker in workers))
    admitted = [[answer[0] for answer in worker.ask("check", [[key, 1] for key in keys])] for worker in workers]

    assert {2} == {sum(of_key) for of_key in zip(*admitted, strict=True)}
    own_server.thaw()


def test_no_window_of_the_fleet_has_more_than_the_rule(workers: list[Worker], own_server: Single, eventually: Eventually) -> None:
    """
    Under load, before and during an outage. What the others take after the last answer that a process has, that process does not know.
    """
    open_all(workers, own_server, "60/2s", eventually)
    for worker in workers:
        worker.ask("load", KEYS)
    eventually(lambda: own_server.command("DBSIZE") == len(KEYS) + 1)
    own_server.freeze()
    eventually(lambda: all(worker.ask("health")["status"] == "down" for worker in workers))
    by_worker = [worker.stop() for worker in workers]
    own_server.thaw()
    seen = [one for of_worker in by_worker for one in of_worker]
    unseen = Counter({key: max(unseen_by(own, by_worker, key) for own in by_worker) for key in KEYS})
    most = most_in_window(seen, 2)

    assert any(one.reason and one.is_allowed for one in seen)
    assert all(count <= 60 + IN_FLIGHT + unseen[key] for key, count in most.items()), (most, unseen)


def unseen_by(own: list[Seen], by_worker: list[list[Seen]], key: str) -> int:
    """
    How much of a key the store gave to others after it gave its last answer to this process.
    """
    heard_at = max((one.start for one in own if one.key == key and not one.reason), default=0.0)
    others = (one for of_worker in by_worker if of_worker is not own for one in of_worker)
    return sum(one.key == key and one.is_allowed and not one.reason and one.end > heard_at for one in others)


def count(answers: list[list[object]]) -> int:
    """
    How many were admitted.
    """
    return sum(answer[0] is True for answer in answers)
