"""
Clocks that are wrong: those of clients change nothing, and that of the server no more than one window's worth.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import pytest

from tidegate import Limiter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tests.redis.fault_worker import Worker
    from tests.servers import Missing, Single
    from tests.servers.faketime import library
else:
    from fault_worker import Worker
    from servers import Missing, Single
    from servers.faketime import library

LIMIT, WINDOW_S = 10, 2
STEPPED = {"sliding_window": "10/2s", "fixed_window": "10/2s fixed_window", "gcra": "5/s burst 10"}
SLACK_S = 3.0
"""What a busy machine may add to a wait."""


@pytest.fixture(scope="module")
def clocked() -> Iterator[Single]:
    """
    A server whose clock can be stepped.
    """
    try:
        server = Single(faketime=True)
    except Missing as missing:
        pytest.skip(str(missing))
    with server:
        yield server


@pytest.fixture(params=STEPPED)
def limiter(request: pytest.FixtureRequest, clocked: Single, prefix: str, eventually: Eventually) -> Iterator[Limiter]:
    """
    A limiter on that server, of every algorithm; at the beginning of a window, if those have one.
    """
    with Limiter(STEPPED[request.param], store=f"{clocked.url()}?prefix={prefix}", budget=5.0) as limiter:
        # Not before the limiter is connected: that takes its time on a busy machine.
        if request.param == "fixed_window":
            eventually(lambda: time_of(clocked) % WINDOW_S < 0.2)
        yield limiter


@pytest.mark.parametrize("skew_s", [-60, 60])
@pytest.mark.parametrize(
    "quota",
    [
        "10/day",
        "10/day fixed_window",
        "10/day sliding_window_counter",
        "10/day sliding_window_log",
        "1/day burst 10",
        "10 concurrent ttl 1h",
    ],
)
def test_a_client_whose_clock_is_wrong_has_the_same_answers(url: str, quota: str, skew_s: int) -> None:
    """
    It and another one take turns, and see the same counter.
    """
    try:
        wrong = {"LD_PRELOAD": str(library()), "FAKETIME": f"{skew_s:+}s", "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    except Missing as missing:
        pytest.skip(str(missing))
    with Worker() as right, Worker(wrong) as skewed:
        for worker in (right, skewed):
            worker.ask("open", {"quotas": quota, "store": url, "budget": 5.0})
        turns = [worker.ask("check", [["a", 1]])[0] for _ in range(6) for worker in (right, skewed)]
        times = [worker.ask("time") for worker in (right, skewed)]
        told = skewed.ask("health")["clock_skew"]

    assert abs(times[1] - times[0] - skew_s) < 5
    assert [True] * 10 + [False] * 2 == [allowed for allowed, *_ in turns]
    assert [*range(9, -1, -1), 0, 0] == [remaining for _, remaining, *_ in turns]
    assert abs(turns[10][2] - turns[11][2]) < 5
    assert max(reset for *_, reset, _ in turns) - min(reset for *_, reset, _ in turns[9:]) < 5
    assert not any(is_degraded for *_, is_degraded in turns)
    assert abs(told + skew_s) < 5


@pytest.mark.parametrize("step_s", [-3600, -1])
def test_a_server_clock_that_goes_back_denies_for_one_more_window_at_most(
    limiter: Limiter, clocked: Single, eventually: Eventually, step_s: int
) -> None:
    """
    Not for as long as the step was, and nothing is admitted that was not before.
    """
    began = perf_counter()
    assert LIMIT == admitted(limiter, LIMIT)
    clocked.step_clock(step_s)

    assert admitted(limiter, 50) <= refilled(limiter, began)
    eventually(lambda: limiter.check("a").allowed, within=2 * WINDOW_S + SLACK_S)
    eventually(lambda: limiter.peek("a").remaining == LIMIT, within=2 * WINDOW_S + SLACK_S)


@pytest.mark.parametrize("step_s", [3600, 1])
def test_a_server_clock_that_jumps_forward_grants_one_more_window_at_most(limiter: Limiter, clocked: Single, step_s: int) -> None:
    """
    What was used is forgotten once.
    """
    began = perf_counter()
    assert LIMIT == admitted(limiter, LIMIT)
    clocked.step_clock(step_s)

    assert admitted(limiter, 50) <= LIMIT + refilled(limiter, began)


def test_a_server_clock_that_jumps_to_and_fro_grants_one_more_window_at_most(
    limiter: Limiter, clocked: Single, eventually: Eventually
) -> None:
    """
    The second half of the error takes nothing back, and gives nothing.
    """
    began = perf_counter()
    assert LIMIT == admitted(limiter, LIMIT)
    clocked.step_clock(3600)
    first = admitted(limiter, 50)
    clocked.step_clock(-3600)

    assert first + admitted(limiter, 50) <= LIMIT + refilled(limiter, began)
    eventually(lambda: limiter.check("a").allowed, within=2 * WINDOW_S + SLACK_S)


def time_of(server: Single) -> float:
    """
    What the server takes for the time.
    """
    reply = server.command("TIME")
    assert isinstance(reply, list)
    seconds, microseconds = (int(part) for part in reply if isinstance(part, bytes))
    return seconds + microseconds / 1e6


def admitted(limiter: Limiter, checks: int) -> int:
    """
    How many of so many checks were allowed.
    """
    decisions = [limiter.check("a") for _ in range(checks)]
    assert not any(decision.degraded for decision in decisions)
    return sum(decision.allowed for decision in decisions)


def refilled(limiter: Limiter, since: float) -> int:
    """
    What came back by itself since then, the first charge: of a bucket all the time, of a window when it is over.
    """
    elapsed = perf_counter() - since + 1  # a fixed window has begun before the first charge
    return LIMIT if elapsed >= WINDOW_S else round(elapsed * LIMIT / WINDOW_S) if "burst" in str(limiter.quotas[0]) else 0
