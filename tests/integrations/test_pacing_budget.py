"""
Who may send, and who waits: the budget of a host by itself, with time passed in.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.errors import ConfigError, UsageError
from tidegate.pacing import Limit, Pacer, Told
from tidegate.pacing.backoff import Backoff
from tidegate.pacing.budget import FIRST_NS, METERS_MAX, Budget
from tidegate.pacing.pacer import HOSTS_MAX
from tidegate.pacing.throttle import Throttle

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""

SECOND = 1_000_000_000
NOTHING = Told()


def left(remaining: int | None, reset: int | None = 10, quota: int | None = None, window: int | None = None, name: str = "a") -> Told:
    """
    An answer that tells what is left, times in seconds.
    """
    return Told((Limit(name, remaining, _ns(reset), quota, _ns(window)),))


def _ns(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * SECOND


@pytest.fixture
def budget() -> Budget:
    """
    Of a host that nobody has talked to.
    """
    return Budget(None, lambda: 0.0)


def send(budget: Budget, now: int = 0) -> int:
    """
    Joins, and is under way.
    """
    ticket = budget.join()
    assert 0 == budget.turn(ticket, now)
    return ticket


def learned(budget: Budget, told: Told, now: int = 0) -> Budget:
    """
    The same after a first answer.
    """
    budget.answered(send(budget, now), told, now)
    return budget


def test_the_first_request_goes_alone_until_it_is_answered(budget: Budget) -> None:
    """
    The others learn from it.
    """
    first, others = send(budget), [budget.join() for _ in range(5)]
    assert {None} == {budget.turn(ticket, 0) for ticket in others}

    budget.answered(first, left(3), SECOND // 2)
    assert [0, 0, 0, None, None] == [budget.turn(ticket, SECOND // 2) for ticket in others]


def test_a_first_answer_that_is_late_stops_nobody_for_long(budget: Budget) -> None:
    """
    A host that has never told of limits may hold a request until there is news.
    """
    send(budget)
    others = [budget.join() for _ in range(5)]

    assert [0] * 5 == [budget.turn(ticket, FIRST_NS) for ticket in others]


def test_what_is_left_is_given_in_the_order_of_tickets(budget: Budget) -> None:
    """
    Whoever asks first.
    """
    learned(budget, left(2))
    first, second, third = budget.join(), budget.join(), budget.join()

    assert budget.turn(third, 0) is None
    assert (0, 0) == (budget.turn(second, 0), budget.turn(first, 0))
    assert budget.turn(third, 0) is None


def test_answers_in_another_order_do_not_grant_too_much(budget: Budget) -> None:
    """
    Of answers whose requests were under way together, the smallest counts.
    """
    learned(budget, left(9))
    one, two = send(budget), send(budget)
    budget.answered(two, left(1), 0)
    budget.answered(one, left(2), 0)

    send(budget)
    assert budget.turn(budget.join(), 0) is None


def test_an_answer_to_a_later_request_surpasses_earlier_ones(budget: Budget) -> None:
    """
    Also when it says that there is more.
    """
    learned(budget, left(1))
    learned(budget, left(5))

    assert [0] * 5 == [budget.turn(budget.join(), 0) for _ in range(5)]


def test_nothing_left_waits_for_the_time_that_was_told(budget: Budget) -> None:
    """
    Then one finds out, and the others wait for its answer.
    """
    learned(budget, left(0, reset=10))
    head, other = budget.join(), budget.join()

    assert (10 * SECOND, 10 * SECOND) == (budget.turn(head, 0), budget.turn(other, 0))
    assert (0, None) == (budget.turn(head, 10 * SECOND), budget.turn(other, 10 * SECOND))
    budget.answered(head, left(4), 10 * SECOND)
    assert 0 == budget.turn(other, 10 * SECOND)


def test_a_probe_that_hangs_is_followed_at_the_pace_of_the_policy(budget: Budget) -> None:
    """
    One by one, and not all at once.
    """
    learned(budget, left(0, reset=10, quota=5, window=20))
    tickets = [budget.join() for _ in range(3)]
    assert 0 == budget.turn(tickets[0], 10 * SECOND)

    assert [None, None] == [budget.turn(ticket, 13 * SECOND) for ticket in tickets[1:]]
    assert [0, None] == [budget.turn(ticket, 14 * SECOND) for ticket in tickets[1:]]


def test_a_probe_waits_for_every_limit(budget: Budget) -> None:
    """
    The time of one is over, and that of the other is not.
    """
    second, minute = left(0, reset=1, name="second").limits[0], left(0, reset=30, name="minute").limits[0]
    learned(budget, Told((second, minute)))

    assert 28 * SECOND == budget.turn(budget.join(), 2 * SECOND)


def test_a_limit_of_which_only_the_policy_is_told_is_kept_by_a_log(budget: Budget) -> None:
    """
    Two in ten seconds, counted from their answers.
    """
    learned(budget, left(None, None, quota=2, window=10), 0)
    learned(budget, left(None, None, quota=2, window=10), SECOND)
    ticket = budget.join()

    assert 8 * SECOND == budget.turn(ticket, 2 * SECOND)
    assert 0 == budget.turn(ticket, 10 * SECOND)


def test_a_log_that_explains_everything_knows_better_than_whole_seconds(budget: Budget) -> None:
    """
    Until it is refused: then somebody else uses the limit as well, and the server is believed.
    """
    told = left(0, reset=10, quota=2, window=10)
    learned(budget, left(1, quota=2, window=10), 0)
    learned(budget, told, 3 * SECOND)
    assert 7 * SECOND == budget.turn(budget.join(), 3 * SECOND)
    budget.leave(3, is_sent=False)

    refused = send(budget, 10 * SECOND)
    budget.answered(refused, told, 10 * SECOND)
    budget.block(11 * SECOND)
    learned(budget, told, 12 * SECOND)
    assert 10 * SECOND == budget.turn(budget.join(), 12 * SECOND)


def test_an_answer_that_comes_after_its_time_is_not_believed(budget: Budget) -> None:
    """
    It says what was left before others were counted; the log knows that of five in ten seconds four are used.
    """
    learned(budget, left(4, reset=1, quota=5, window=10))
    late = send(budget)
    learned(budget, left(1, reset=1, quota=5, window=10))
    other = send(budget, 2 * SECOND)
    budget.answered(late, left(3, reset=1, quota=5, window=10), 2 * SECOND)
    budget.answered(other, left(None, None, quota=5, window=10), 2 * SECOND)

    send(budget, 2 * SECOND)
    assert 8 * SECOND == budget.turn(budget.join(), 2 * SECOND)


def test_a_block_stops_everybody_and_then_lets_one_find_out(budget: Budget) -> None:
    """
    An answer to what was sent before it does not lift it.
    """
    learned(budget, left(50))
    refused, early = send(budget), send(budget)
    budget.answered(refused, NOTHING, 0)
    budget.block(5 * SECOND)
    budget.answered(early, left(49), 0)
    tickets = [budget.join() for _ in range(3)]

    assert {5 * SECOND} == {budget.turn(ticket, 0) for ticket in tickets}
    assert [0, None, None] == [budget.turn(ticket, 5 * SECOND) for ticket in tickets]


def test_who_is_sent_again_keeps_its_place(budget: Budget) -> None:
    """
    Before those who came later.
    """
    learned(budget, NOTHING)
    refused = send(budget)
    later = budget.join()
    budget.answered(refused, NOTHING, 0)
    budget.block(SECOND)
    budget.rejoin(refused)

    assert budget.turn(later, SECOND) is None
    assert 0 == budget.turn(refused, SECOND)


def test_a_place_that_is_given_up_is_free(budget: Budget) -> None:
    """
    Also one that was under way; what was sent may have been counted.
    """
    learned(budget, left(3))
    waiting, sent, unsent = budget.join(), send(budget), send(budget)
    budget.leave(waiting, is_sent=False)
    budget.leave(unsent, is_sent=False)
    budget.leave(sent, is_sent=True)
    budget.leave(sent, is_sent=True)

    assert budget.is_idle
    send(budget)
    send(budget)
    assert budget.turn(budget.join(), 0) is None


def test_a_server_with_ever_new_limits_does_not_fill_the_memory(budget: Budget) -> None:
    """
    The oldest go.
    """
    for number in range(1000):
        learned(budget, left(5, name=str(number)), number)

    assert len(budget._meters) == METERS_MAX


@unhurried
@given(seed=st.integers(), steps=st.integers(1, 60))
def test_a_window_never_sees_more_than_its_quota(seed: int, steps: int) -> None:
    """
    Of a server that counts five in ten seconds and tells what is left, whatever the order of answers and however long they take.
    """
    random, budget, now = Random(seed), Budget(None, lambda: 0.0), 0
    waiting: list[int] = []
    under_way: list[tuple[int, Told]] = []
    counted: list[int] = []
    for _ in range(steps):
        now += random.choice([0, 1, SECOND // 3, 2 * SECOND])
        waiting += [budget.join() for _ in range(random.randrange(3))]
        for ticket in random.sample(waiting, len(waiting)):
            # Of a host that has not told of limits nobody knows them: its first answer comes in time.
            if under_way and not budget._is_limited:
                break
            if budget.turn(ticket, now) == 0:
                waiting.remove(ticket)
                counted.append(now)
                recent = [time for time in counted if time > now - 10 * SECOND]
                assert len(recent) <= 5
                under_way.append((ticket, left(5 - len(recent), 10, quota=5, window=10)))
        random.shuffle(under_way)
        for _ in range(random.randrange(len(under_way) + 1)):
            ticket, told = under_way.pop()
            budget.answered(ticket, told, now)


# --- Back-off and throttle --------------------------------------------------------------------------------------------------------------


@unhurried
@given(attempt=st.integers(1, 10_000), told=st.none() | st.integers(0, 10**20), draw=st.floats(0, 1, exclude_max=True))
def test_a_wait_is_capped_and_never_below_what_was_told(attempt: int, told: int | None, draw: float) -> None:
    """
    Whatever is drawn.
    """
    wait = Backoff(SECOND // 2, 60 * SECOND, lambda: draw).wait_ns(attempt, told)

    assert (told or 0) <= wait <= (60 * SECOND if told is None else told + SECOND)


@pytest.mark.parametrize(
    ("requests", "accepts", "refusal"),
    [(10, 10, 0.0), (100, 50, 0.0), (100, 40, 20 / 101), (100, 0, 100 / 101), (9, 0, 0.0), (0, 0, 0.0)],
)
def test_the_throttle_refuses_as_its_formula_says(requests: int, accepts: int, refusal: float) -> None:
    """
    (requests - 2 * accepts) / (requests + 1), of the last two minutes.
    """
    throttle = Throttle(2.0)
    for number in range(requests):
        throttle.count(0, is_accepted=number < accepts)

    assert refusal == throttle.refusal(0)
    assert refusal == throttle.refusal(119 * SECOND)
    assert 0.0 == throttle.refusal(121 * SECOND)


# --- The pacer --------------------------------------------------------------------------------------------------------------------------


def test_a_client_of_ever_new_hosts_does_not_fill_the_memory() -> None:
    """
    Those that nobody uses go first.
    """
    pacer = Pacer()
    kept = pacer.enter("kept")
    for number in range(HOSTS_MAX + 10):
        pacer.enter(str(number)).leave(is_sent=False)

    assert len(pacer._budgets) == HOSTS_MAX
    assert "kept" in pacer._budgets
    kept.leave(is_sent=False)


def test_a_forked_child_begins_afresh() -> None:
    """
    It has none of its parent's requests under way.
    """
    pacer = Pacer()
    pacer.enter("host")
    pacer._process = -1
    pacer.enter("host")

    assert 1 == pacer._budgets["host"].crowd


@pytest.mark.parametrize(
    "options",
    [
        {"retries": -1},
        {"retries": 1.5},
        {"retries": 101},
        {"throttle": 0.5},
        {"throttle": float("nan")},
        {"max_wait": -1},
        {"max_wait": "60"},
        {"timeout": float("inf")},
        {"backoff": None},
        {"retry_methods": "GET"},
        {"clock": 5},
        {"quotas": "5 concurrent"},
    ],
    ids=str,
)
def test_wrong_options_are_refused(options: dict[str, object]) -> None:
    """
    When the client is made, and not when it is used.
    """
    with pytest.raises(UsageError):
        Pacer(**options)  # type: ignore[arg-type]  # that is the point


def test_an_unknown_option_and_a_wrong_quota_are_refused() -> None:
    """
    With the errors of a limiter.
    """
    with pytest.raises(TypeError, match="unknown option 'retry'"):
        Pacer(retry=5)  # type: ignore[call-arg]  # that is the point
    with pytest.raises(ConfigError):
        Pacer(quotas="5/minuet")
