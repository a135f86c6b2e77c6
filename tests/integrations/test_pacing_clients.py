"""
What every client promises, over real HTTP: it waits instead of being refused, retries with care, and never hangs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from email.utils import formatdate
from random import Random
from typing import TYPE_CHECKING

import pytest

from tidegate import Limiter
from tidegate.pacing.throttle import REQUESTS_MIN

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tests.integrations.limited import FORMS, Answer, Asked, Form, LimitedServer, by, draft_11, in_turn
    from tests.integrations.paced import CLIENTS, Send
    from tidegate.testing import ManualClock

    Open = Callable[..., AbstractContextManager[Send]]
else:
    from limited import FORMS, Answer, Asked, LimitedServer, by, draft_11, in_turn
    from paced import CLIENTS

every_client = pytest.mark.parametrize("client", CLIENTS)
NO_JITTER: dict[str, Callable[[], float]] = {"random": lambda: 0.0}


class Elapsed:
    """
    How far a clock has been moved.
    """

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._begin = clock.time_ns()

    @property
    def seconds(self) -> float:
        """
        Since the beginning.
        """
        return (self._clock.time_ns() - self._begin) / 1e9


@pytest.fixture
def elapsed(clock: ManualClock) -> Elapsed:
    """
    Since the beginning of the test.
    """
    return Elapsed(clock)


# --- Pacing -----------------------------------------------------------------------------------------------------------------------------


@every_client
@pytest.mark.parametrize("form", FORMS)
def test_a_batch_is_done_in_the_ideal_time_and_never_refused(client: Open, form: Form, clock: ManualClock, elapsed: Elapsed) -> None:
    """
    Ten requests in ten seconds: 45 need at least forty, whatever the form in which the server says so.
    """
    limiter = Limiter("10/10s fixed_window", clock=clock)
    with LimitedServer(by(limiter, form, clock)) as server, client(clock=clock) as send:
        statuses = [send(server.url).status for _ in range(45)]

    assert [200] * 45 == statuses
    assert 0 == server.statuses[429]
    assert 40 <= elapsed.seconds <= 40 * 1.05


@every_client
@pytest.mark.parametrize("quotas", ["10/10s", "20/10s", "10/10s gcra", "5/10s, 12/30s", "30/minute burst 10"])
def test_every_algorithm_is_kept_to(client: Open, quotas: str, clock: ManualClock) -> None:
    """
    Also where several quotas count, of which the server tells only the tightest.
    """
    limiter = Limiter(quotas, clock=clock)
    with LimitedServer(by(limiter, draft_11, clock)) as server, client(clock=clock) as send:
        statuses = [send(server.url).status for _ in range(40)]

    assert [200] * 40 == statuses
    assert 0 == server.statuses[429]


@every_client
def test_what_is_left_is_used_without_waiting(client: Open, clock: ManualClock, elapsed: Elapsed) -> None:
    """
    A budget is no reason to be slow.
    """
    limiter = Limiter("10/minute", clock=clock)
    with LimitedServer(by(limiter, draft_11, clock)) as server, client(clock=clock) as send:
        for _ in range(10):
            send(server.url)

    assert 0 == elapsed.seconds


@every_client
def test_a_server_without_limits_is_not_slowed_down(client: Open, clock: ManualClock, elapsed: Elapsed) -> None:
    """
    Who says nothing allows everything.
    """
    with LimitedServer(in_turn()) as server, client(clock=clock) as send:
        for _ in range(50):
            send(server.url)

    assert (50, 0) == (server.statuses[200], elapsed.seconds)


@every_client
def test_hosts_have_budgets_of_their_own(client: Open, clock: ManualClock, elapsed: Elapsed) -> None:
    """
    One that is used up does not keep others waiting.
    """
    empty = Answer(fields={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "30"})
    with LimitedServer(in_turn(then=empty)) as used_up, LimitedServer(in_turn()) as other, client(clock=clock) as send:
        send(used_up.url)
        for _ in range(5):
            send(other.url)

        assert 0 == elapsed.seconds
        send(used_up.url)
        assert 30 <= elapsed.seconds < 31


@every_client
def test_a_key_makes_budgets_of_parts_of_a_host(client: Open, clock: ManualClock, elapsed: Elapsed) -> None:
    """
    Such as one for each path.
    """
    empty = Answer(fields={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "30"})
    with LimitedServer(in_turn(then=empty)) as server, client(clock=clock, key=lambda request: str(request.url)) as send:
        send(f"{server.url}/a")
        send(f"{server.url}/b")
        assert 0 == elapsed.seconds
        send(f"{server.url}/a")
        assert 30 <= elapsed.seconds < 31


# --- Quotas of one's own ----------------------------------------------------------------------------------------------------------------


@every_client
def test_quotas_of_ones_own_are_waited_for(client: Open, clock: ManualClock, elapsed: Elapsed) -> None:
    """
    Per host, whatever the hosts say.
    """
    with LimitedServer(in_turn()) as one, LimitedServer(in_turn()) as other, client(clock=clock, quotas="5/second") as send:
        for _ in range(20):
            send(one.url)
        assert 3 == elapsed.seconds
        for _ in range(5):
            send(other.url)
        assert 3 == elapsed.seconds


@every_client
def test_a_wait_for_ones_own_quota_that_is_too_long_is_answered(client: Open, clock: ManualClock, elapsed: Elapsed) -> None:
    """
    With a 429 that was never sent and says how long the wait would be.
    """
    with LimitedServer(in_turn()) as server, client(clock=clock, quotas="1/hour") as send:
        send(server.url)
        got = send(server.url)

    assert (429, "wait", "3600") == (got.status, got.refused, got.fields["Retry-After"])
    assert (1, 0) == (len(server.asked), elapsed.seconds)


# --- Retries ----------------------------------------------------------------------------------------------------------------------------


@every_client
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_kept_with_something_on_top(client: Open, status: int, clock: ManualClock, elapsed: Elapsed) -> None:
    """
    Never a moment less.
    """
    with LimitedServer(in_turn(Answer(status, {"Retry-After": "7"}))) as server, client(clock=clock) as send:
        assert 200 == send(server.url).status

    assert 7 <= elapsed.seconds <= 7.5


@every_client
def test_a_date_is_compared_with_the_clock_of_the_server(client: Open, clock: ManualClock, elapsed: Elapsed) -> None:
    """
    Which is a day behind.
    """
    there = clock.time() - 86_400
    fields = {"Date": formatdate(there, usegmt=True), "Retry-After": formatdate(there + 7, usegmt=True)}
    with LimitedServer(in_turn(Answer(429, fields))) as server, client(clock=clock, **NO_JITTER) as send:
        assert 200 == send(server.url).status

    assert 7 == elapsed.seconds


@every_client
def test_without_a_word_the_waits_double_up_to_the_last_attempt(client: Open, clock: ManualClock, elapsed: Elapsed) -> None:
    """
    At most half a second, one, two; then the caller gets what the server says.
    """
    broken = Answer(503, body=b"down")
    with LimitedServer(in_turn(then=broken)) as server, client(clock=clock, random=lambda: 0.999_999, throttle=None) as send:
        got = send(server.url)

    assert (503, b"down", None) == (got.status, got.body, got.refused)
    assert 4 == len(server.asked)
    assert elapsed.seconds == pytest.approx(3.5, rel=1e-3)


@dataclass(frozen=True)
class Case:
    """
    A request that is refused once, and how often it is sent.
    """

    method: str
    attempts: int
    headers: dict[str, str] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)


@every_client
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case("GET", 2), id="GET"),
        pytest.param(Case("PUT", 2), id="PUT"),
        pytest.param(Case("POST", 1), id="POST"),
        pytest.param(Case("POST", 2, headers={"Idempotency-Key": "42"}), id="POST with a key"),
        pytest.param(Case("POST", 2, options={"retry_methods": ["post"]}), id="POST if told"),
        pytest.param(Case("GET", 1, options={"retry_methods": ["post"]}), id="GET if told otherwise"),
        pytest.param(Case("GET", 1, options={"retries": 0}), id="no retries"),
    ],
)
def test_only_what_is_idempotent_is_sent_again(client: Open, case: Case, clock: ManualClock) -> None:
    """
    Unless told.
    """
    content = None if case.method == "GET" else b"body"
    with LimitedServer(in_turn(Answer(429))) as server, client(clock=clock, **case.options) as send:
        got = send(server.url, case.method, case.headers, content)

    assert case.attempts == len(server.asked)
    assert {content or b""} == {asked.body for asked in server.asked}
    assert (429 if case.attempts == 1 else 200) == got.status


@every_client
def test_a_body_that_cannot_be_replayed_is_not_sent_again(client: Open, clock: ManualClock) -> None:
    """
    Half a file would be worse than none.
    """
    with LimitedServer(in_turn(Answer(503))) as server, client(clock=clock) as send:
        got = send(server.url, "PUT", None, (part for part in [b"one", b"two"]))

    assert 503 == got.status
    assert [Asked("PUT", "/", b"onetwo")] == server.asked


@every_client
def test_responses_that_nobody_sees_give_their_connection_back(client: Open, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    All attempts go over one.
    """
    # By the real clock a response is slow on a machine that stands still.
    monkeypatch.setattr("tidegate.pacing.drain.TIME_MAX_NS", 30 * 10**9)
    refused = Answer(429, {"Retry-After": "1"}, body=b"x" * 10_000)
    with LimitedServer(in_turn(refused, refused, refused)) as server, client(clock=clock) as send:
        assert 200 == send(server.url).status

    assert (4, 1) == (len(server.asked), server.connections)


@every_client
@pytest.mark.parametrize("gap", [0.0, 0.05])
def test_a_response_without_end_does_not_keep_a_client(client: Open, gap: float, clock: ManualClock) -> None:
    """
    Nobody will see it, so it is not read to its end: neither a long one, nor one that comes drop by drop.
    """
    endless = Answer(503, {"Retry-After": "1"}, body=b"x" * 10_000_000, gap=gap)
    with LimitedServer(in_turn(endless)) as server, client(clock=clock) as send:
        assert 200 == send(server.url).status

    assert (2, 2) == (len(server.asked), server.connections)


@every_client
def test_a_timeout_bounds_all_waits_together(client: Open, clock: ManualClock, elapsed: Elapsed) -> None:
    """
    A wait that would end after it is not begun.
    """
    with LimitedServer(in_turn(then=Answer(429, {"Retry-After": "7"}))) as server, client(clock=clock, timeout=20, **NO_JITTER) as send:
        assert 429 == send(server.url).status
        assert (3, 14) == (len(server.asked), elapsed.seconds)

        got = send(server.url)
        assert (429, None) == (got.status, got.refused)


@every_client
def test_a_turn_that_comes_after_the_timeout_is_not_waited_for(client: Open, clock: ManualClock, elapsed: Elapsed) -> None:
    """
    The caller learns at once how long it would be.
    """
    empty = Answer(fields={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "30"})
    with LimitedServer(in_turn(empty)) as server, client(clock=clock, timeout=5, **NO_JITTER) as send:
        send(server.url)
        got = send(server.url)

    assert (429, "wait", "30") == (got.status, got.refused, got.fields["Retry-After"])
    assert (1, 0) == (len(server.asked), elapsed.seconds)


# --- Servers that lie -------------------------------------------------------------------------------------------------------------------


@every_client
def test_a_wait_beyond_the_longest_is_left_to_the_caller(client: Open, clock: ManualClock, elapsed: Elapsed) -> None:
    """
    The 429 is returned. Who asks again is answered here, except for one a second that finds out whether it is true.
    """
    with LimitedServer(in_turn(Answer(429, {"Retry-After": "3600"}))) as server, client(clock=clock, **NO_JITTER) as send:
        first, second = send(server.url), send(server.url)
        assert ((429, None), (429, "wait")) == ((first.status, first.refused), (second.status, second.refused))
        assert "3600" == second.fields["Retry-After"]

        clock.advance(1)
        assert [200, 200] == [send(server.url).status for _ in range(2)]
    assert (3, 1) == (len(server.asked), elapsed.seconds)


LIES = {
    "negative": {"X-RateLimit-Remaining": "-1", "X-RateLimit-Reset": "-5"},
    "huge": {"X-RateLimit-Remaining": "9" * 18, "X-RateLimit-Reset": "9" * 18},
    "huge wait": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "999999999"},
    "garbage": {"RateLimit": '"a";r=x', "RateLimit-Policy": ";;;", "Retry-After": "soon", "X-RateLimit-Remaining": "many"},
    "above the limit": {"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "50", "X-RateLimit-Reset": "10"},
    "reset in the past": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1000000001"},
    "reset now": {"RateLimit": '"a";r=0;t=0'},
    "no quota at all": {"RateLimit": '"a";r=0', "RateLimit-Policy": '"a";q=0;w=1'},
    "no window": {"RateLimit": '"a";r=0', "RateLimit-Policy": '"a";q=1;w=0'},
    "ten thousand policies": {"RateLimit": ", ".join(f'"{number}";r=0;t=9' for number in range(500))},
    "a date of nobody": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "Mon, 99 Foo 99999 99:99:99 GMT"},
}


@every_client
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("status", [200, 429])
def test_a_server_that_lies_costs_at_most_the_longest_wait(
    client: Open, lie: str, status: int, clock: ManualClock, elapsed: Elapsed
) -> None:
    """
    For each attempt, and nothing is raised.
    """
    with LimitedServer(in_turn(then=Answer(status, LIES[lie]))) as server, client(clock=clock, retries=1) as send:
        statuses = {send(server.url).status for _ in range(5)}

    assert statuses <= {status, 429}
    assert elapsed.seconds <= 10 * 61
    assert server.asked


@every_client
def test_a_clock_that_jumps_does_not_stop_a_client(client: Open, clock: ManualClock) -> None:
    """
    Forward or back.
    """
    limiter = Limiter("2/10s", clock=clock)
    jumps = iter([3600, -7200, 1, 86_400 * 365, -86_400])
    with LimitedServer(by(limiter, draft_11, clock)) as server, client(clock=clock) as send:
        for jump in jumps:
            send(server.url)
            send(server.url)
            clock.advance(jump)
        clock.advance(10)

        assert send(server.url).refused is None


# --- Servers that shed load -------------------------------------------------------------------------------------------------------------


@every_client
def test_a_server_that_sheds_load_is_spared(client: Open, clock: ManualClock) -> None:
    """
    Most calls are refused here while it answers nothing but 503, and all are sent two minutes after it is well.
    """
    is_well = False
    with (
        LimitedServer(lambda _: Answer(200 if is_well else 503)) as server,
        client(clock=clock, retries=0, random=Random(7).random) as send,
    ):
        first = [send(server.url) for _ in range(REQUESTS_MIN)]
        rest = [send(server.url) for _ in range(200)]
        spared = [got for got in rest if got.refused == "throttle"]

        assert not any(got.refused for got in first)
        assert {503} == {got.status for got in rest}
        assert len(spared) > 150
        assert 210 - len(spared) == len(server.asked)

        is_well = True
        clock.advance(121)
        assert [200] * 20 == [send(server.url).status for _ in range(20)]


@every_client
def test_a_limit_is_no_reason_to_throttle(client: Open, clock: ManualClock) -> None:
    """
    A 429 says that this client sends too much, and not that the server is not well.
    """
    with LimitedServer(in_turn(then=Answer(429, {"Retry-After": "0"}))) as server, client(clock=clock, retries=0) as send:
        got = []
        for _ in range(30):
            clock.advance(2)
            got.append(send(server.url))

    assert not any(response.refused for response in got)
    assert 30 == len(server.asked)
