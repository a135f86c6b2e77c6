"""
The library as its users see it: what they ask, what they are told, and what happens when quotas, memory and days change.
"""

from __future__ import annotations

import copy
import pickle
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import pytest

from tidegate import Decision, Limiter, Quota, QuotaStatus
from tidegate.errors import Denied
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.oracle import read, window_end
else:  # Tests are scripts in a folder, not a package.
    from oracle import read, window_end

SECOND = 1_000_000_000


def at(instant: str) -> ManualClock:
    """
    A clock that shows an instant such as `2026-03-29T12:00:00Z`.
    """
    return ManualClock(datetime.fromisoformat(instant).timestamp())


# --- Asking -----------------------------------------------------------------------------------------------------------------------------


def test_a_check_takes_and_says_what_is_left(clock: ManualClock) -> None:
    """
    The first example of everybody: so many a minute, and then a wait that is true.
    """
    limiter = Limiter("3/minute", clock=clock)

    assert [2, 1, 0] == [limiter.check("user").remaining for _ in range(3)]
    denial = limiter.check("user")
    assert (False, 0, 60.0, 60.0) == (denial.allowed, denial.remaining, denial.retry_after, denial.reset_after)
    clock.advance(60)
    assert limiter.check("user").allowed


def test_keys_are_counted_apart(clock: ManualClock) -> None:
    """
    One client that is denied does not disturb another.
    """
    limiter = Limiter("1/minute", clock=clock)

    assert [True, True, False, False] == [limiter.allow(key) for key in ("a", "b", "a", "b")]


def test_two_limiters_share_nothing_but_a_clock(clock: ManualClock) -> None:
    """
    Counters belong to a limiter.
    """
    one, other = Limiter("1/minute", clock=clock), Limiter("1/minute", clock=clock)

    assert one.allow("key")
    assert other.allow("key")
    clock.advance(60)
    assert one.allow("key")
    assert other.allow("key")


def test_a_peek_answers_without_taking(clock: ManualClock) -> None:
    """
    However often it is asked, and for a key that was never seen as well.
    """
    limiter = Limiter("3/minute", clock=clock)

    assert [(True, 3)] * 5 == [(limiter.peek("key").allowed, limiter.peek("key").remaining) for _ in range(5)]
    assert not limiter.peek("key", 4)
    assert (0, 0) == (limiter.stats().keys, limiter.stats().allowed)


def test_a_refund_gives_back_and_says_how_much(clock: ManualClock) -> None:
    """
    In parts, and the rest at last.
    """
    limiter = Limiter("5/minute", clock=clock)
    decision = limiter.check("key", 4)

    assert (1, 2) == (limiter.refund("key", decision, 1), limiter.peek("key").remaining)
    assert (3, 5) == (limiter.refund("key", decision), limiter.peek("key").remaining)


def test_a_refund_after_the_window_returns_nothing(clock: ManualClock) -> None:
    """
    Its units are accepted, but what had left by itself does not come back a second time.
    """
    limiter = Limiter("5/minute", clock=clock)
    decision = limiter.check("key", 4)
    clock.advance(60)
    limiter.check("key", 2)

    assert limiter.refund("key", decision) == 4
    assert limiter.peek("key").remaining == 3


def test_a_receipt_of_a_forgotten_log_finds_no_later_charge(clock: ManualClock) -> None:
    """
    A log that was dropped and begun anew does not mistake an old receipt for one of its own.
    """
    limiter = Limiter("3/minute sliding_window_log", clock=clock)
    decision = limiter.check("key")
    clock.advance(61)
    # Other traffic drives the sweep that drops the state.
    for other in range(10_000):
        limiter.allow(f"other:{other}")
    limiter.check("key")
    limiter.refund("key", decision)

    assert limiter.peek("key").remaining == 2


def test_a_refund_gives_slots_back(clock: ManualClock) -> None:
    """
    When all of a decision is refunded its slots are free as well.
    """
    limiter = Limiter("10/minute, 1 concurrent", clock=clock)
    decision = limiter.check("key")
    limiter.refund("key", decision)

    assert [10, 1] == [status.remaining for status in limiter.peek("key").quotas]


def test_a_debit_takes_without_asking(clock: ManualClock) -> None:
    """
    It is allowed also when nothing is left, and the debt delays what comes after.
    """
    limiter = Limiter("60/minute burst 10", clock=clock)
    limiter.check("key", 10)
    debit = limiter.debit("key", 5)

    assert (True, 0, 0.0, 15.0) == (debit.allowed, debit.remaining, debit.retry_after, debit.reset_after)
    assert limiter.check("key").retry_after == 6.0


@pytest.mark.parametrize(("actual", "left"), [(10, 90), (4, 96), (0, 100), (30, 70), (150, 0)])
def test_a_reservation_is_settled_at_its_true_cost(actual: int, left: int, clock: ManualClock) -> None:
    """
    What was too much comes back, what was missing is taken, and the answer says what is left.
    """
    limiter = Limiter("100/minute burst 100", clock=clock)
    decision = limiter.reserve("key", 10)

    settled = limiter.settle("key", decision, actual)

    assert (True, left) == (settled.allowed, settled.remaining)
    assert left == limiter.peek("key").remaining


@pytest.mark.parametrize("quota", ["2/minute", "2/minute fixed_window", "2/minute gcra", "2/minute sliding_window_counter"])
def test_a_refund_from_before_a_reset_gives_nothing_back(clock: ManualClock, quota: str) -> None:
    """
    The reset has forgotten what it would give back; the units that are there now were taken by others.
    """
    limiter = Limiter(quota, clock=clock)
    before = limiter.check("key", 2)
    limiter.reset("key")
    limiter.check("key", 2)

    limiter.refund("key", before)

    assert 0 == limiter.peek("key").remaining


def test_a_reset_forgets_a_key(clock: ManualClock) -> None:
    """
    It is at full credit again; to forget what is not known is no error.
    """
    limiter = Limiter("2/minute, 3/hour", clock=clock)
    limiter.check("key", 2)
    limiter.check("other", 2)

    assert limiter.reset("key")
    assert not limiter.reset("key")
    assert not limiter.reset("unknown")
    assert (2, 0) == (limiter.peek("key").remaining, limiter.peek("other").remaining)


def test_check_or_raise_raises_the_denial(clock: ManualClock) -> None:
    """
    The exception carries the decision and its wait.
    """
    limiter = Limiter("1/minute", clock=clock)
    limiter.check_or_raise("key")

    with pytest.raises(Denied, match=r"retry after 60(\.0)? s") as caught:
        limiter.check_or_raise("key")
    assert (60.0, False) == (caught.value.retry_after, caught.value.decision.allowed)


def test_a_gap_between_requests_is_kept(clock: ManualClock) -> None:
    """
    With `min_interval` a request is denied although there is room, and told when the gap is over.
    """
    limiter = Limiter("100/minute min_interval 250ms", clock=clock)
    limiter.check("key")
    denial = limiter.check("key")

    assert (False, 0, 0.25) == (denial.allowed, denial.remaining, denial.retry_after)
    clock.advance(0.25)
    assert limiter.check("key").allowed


def test_a_queue_tells_when_to_start(clock: ManualClock) -> None:
    """
    A `leaky_bucket` admits with a delay, and denies what would wait too long.
    """
    limiter = Limiter("10/second queue 200ms", clock=clock)

    assert [0.0, 0.1, 0.2] == [limiter.check("key").delay for _ in range(3)]
    assert (False, 0.1, 0.0) == ((denial := limiter.check("key")).allowed, denial.retry_after, denial.delay)


def test_slots_are_taken_and_released(clock: ManualClock) -> None:
    """
    By the decision or by its id; a denial says that its wait is only an estimate.
    """
    limiter = Limiter("2 concurrent ttl 30s", clock=clock)
    first, second = limiter.check("key"), limiter.check("key", lease="0B")
    denial = limiter.check("key")

    assert (32, "0" * 30 + "0b", None) == (len(first.lease or ""), second.lease, denial.lease)
    assert (30.0, True, False) == (denial.retry_after, denial.retry_is_hint, first.retry_is_hint)
    assert limiter.renew("key", first)
    assert limiter.release("key", first)
    assert not limiter.release("key", first)
    assert limiter.release("key", "0b")
    assert limiter.peek("key").remaining == 2
    assert limiter.lease_ttl == 30.0


def test_unlimited_and_nothing_are_two_values(clock: ManualClock) -> None:
    """
    `unlimited` admits everything and says `None`, a limit of 0 admits nothing and says never.
    """
    free, closed = Limiter("unlimited", clock=clock).check("key", 2**53), Limiter("0/minute", clock=clock).check("key")

    assert (True, None, None, 0.0, 0.0) == (free.allowed, free.limit, free.remaining, free.retry_after, free.reset_after)
    assert (False, 0, 0, None, 0.0) == (closed.allowed, closed.limit, closed.remaining, closed.retry_after, closed.reset_after)


# --- Several quotas ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["3/minute, 5/hour", "3/minute; 5/hour", "3/minute,5/hour", " 3 per minute ;5 per hour"])
def test_quotas_are_joined_by_commas_and_semicolons(text: str, clock: ManualClock) -> None:
    """
    Both separators mean the same.
    """
    limiter = Limiter(text, clock=clock)

    assert (Quota(3, 60), Quota(5, 3600)) == limiter.quotas
    assert ["3/minute", "5/hour"] == [status.quota for status in limiter.check("key").quotas]


@pytest.mark.parametrize(
    "suffix", ["", " fixed_window", " sliding_window_log", " sliding_window_counter", " sliding_window_counter buckets 6", " gcra"]
)
def test_a_request_is_charged_to_all_quotas_or_to_none(suffix: str, clock: ManualClock) -> None:
    """
    From the first request on; what the shorter quota denies does not drain the longer.
    """
    limiter = Limiter(f"3/minute{suffix}, 5/hour{suffix}", clock=clock)

    assert [(2, 4), (1, 3), (0, 2)] == [tuple(status.remaining for status in limiter.check("key").quotas) for _ in range(3)]
    denial = limiter.check("key")
    assert [0, 2] == [status.remaining for status in denial.quotas]
    assert [False, True] == [status.allowed for status in denial.quotas]
    assert ["3/minute" + suffix, 3] == [denial.quota and denial.quota.quota, denial.limit]


def test_the_decision_speaks_for_the_quota_that_binds(clock: ManualClock) -> None:
    """
    The smallest share left when allowed, the longest wait when denied.
    """
    limiter = Limiter(["10/second", Quota(12, 60, name="minute")], clock=clock)

    assert "10/second" == _binding(limiter.check("key", 8))
    clock.advance(1)
    assert ("minute", 3) == (_binding(decision := limiter.check("key")), decision.remaining)
    assert ("minute", 59.0) == (_binding(denial := limiter.check("key", 10)), denial.retry_after)


def test_never_is_longer_than_any_wait(clock: ManualClock) -> None:
    """
    If one quota can never admit the cost, neither can all of them together.
    """
    limiter = Limiter("10/minute, 3/hour", clock=clock)
    limiter.check("key", 3)

    assert (None, "3/hour") == ((denial := limiter.check("key", 4)).retry_after, _binding(denial))


def test_a_refund_gives_back_to_all_quotas(clock: ManualClock) -> None:
    """
    As a charge goes to all, so does its refund.
    """
    limiter = Limiter("3/minute fixed_window, 5/hour fixed_window", clock=clock)
    decision = limiter.check("key", 2)
    limiter.refund("key", decision, 1)

    assert [2, 4] == [status.remaining for status in limiter.peek("key").quotas]


# --- Decisions as values ----------------------------------------------------------------------------------------------------------------


def test_a_decision_is_truthy_when_it_is_allowed(clock: ManualClock) -> None:
    """
    So that `if not limiter.check(key)` reads as it should.
    """
    limiter = Limiter("1/minute", clock=clock)

    assert limiter.check("key")
    assert not limiter.check("key")


def second(limiter: Limiter) -> Decision:
    """
    The second check of two.
    """
    limiter.check("key")
    return limiter.check("key")


REPRS: dict[str, tuple[str, Callable[[Limiter], Decision], str]] = {
    "allowed": ("5/minute", lambda limiter: limiter.check("key"), "Decision(allowed, 4 of 5 left, quota='5/minute')"),
    "denied": (
        "1/minute",
        second,
        "Decision(denied, retry after 60 s, quota='1/minute')",
    ),
    "never": (
        "5/minute",
        lambda limiter: limiter.check("key", 6),
        "Decision(denied, never: cost 6 is above the capacity 5, quota='5/minute')",
    ),
    "unlimited": ("unlimited", lambda limiter: limiter.check("key"), "Decision(allowed, unlimited, quota='unlimited')"),
    "slots": (
        "1 concurrent",
        second,
        "Decision(denied, retry after up to 60 s, quota='1 concurrent')",
    ),
}


@pytest.mark.parametrize(("quota", "ask", "expected"), REPRS.values(), ids=REPRS)
def test_a_decision_can_be_read(quota: str, ask: Callable[[Limiter], Decision], expected: str, clock: ManualClock) -> None:
    """
    Its repr is a sentence for a log.
    """
    assert expected == repr(ask(Limiter(quota, clock=clock)))


def test_a_status_and_the_limiter_can_be_read(clock: ManualClock) -> None:
    """
    The other values are readable too.
    """
    limiter = Limiter("5/minute, 9 concurrent", clock=clock)

    assert "QuotaStatus('5/minute', allowed, 4 left)" == repr(limiter.check("key").quotas[0])
    assert "Limiter('5/minute, 9 concurrent')" == repr(limiter)
    assert repr(limiter.stats()).startswith("Stats(allowed=1, denied=0, degraded=0, keys=2, bytes=")
    assert "ManualClock(1767225600)" == repr(clock)


@pytest.mark.parametrize("name", ["allowed", "cost", "limit", "remaining", "retry_after", "quota", "quotas", "anything"])
def test_a_decision_cannot_be_changed(name: str, clock: ManualClock) -> None:
    """
    Neither a field nor a new attribute can be set or deleted; the same is true of a status.
    """
    decision = Limiter("5/minute", clock=clock).check("key")
    assert decision.quota is not None
    for value in (decision, decision.quota):
        with pytest.raises(AttributeError):
            setattr(value, name, 1)
        with pytest.raises(AttributeError):
            delattr(value, name)


def test_a_decision_stays_in_its_process(clock: ManualClock) -> None:
    """
    A receipt cannot be copied or sent away: each is good once.
    """
    decision = Limiter("5/minute", clock=clock).check("key")
    for copy_of in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="Decision"):
            copy_of(decision)


def test_seconds_and_nanoseconds_say_the_same(clock: ManualClock) -> None:
    """
    Each duration exists as a float for people and as an exact integer.
    """
    limiter = Limiter("7/minute queue 10s", clock=clock)
    limiter.check("key")
    decision = limiter.check("key")

    assert (8_571_428_572, 15_714_285_715) == (decision.delay_ns, decision.reset_after_ns)
    assert decision.quota is not None
    for value in (decision, decision.quota):
        assert value.delay == pytest.approx(value.delay_ns / 1e9)
        assert value.reset_after == pytest.approx(value.reset_after_ns / 1e9)
        assert (0, 0.0) == (value.retry_after_ns, value.retry_after)


def test_the_fields_of_a_status(clock: ManualClock) -> None:
    """
    Name, canonical text and algorithm tell the quotas apart.
    """
    limiter = Limiter(["60 per 60 seconds burst 3", Quota(2, 1, name="per-second"), "unlimited"], clock=clock)
    statuses = limiter.check("key").quotas

    assert ["60/minute-burst-3", "per-second", "unlimited"] == [status.name for status in statuses]
    assert ["60/minute burst 3", "2/second", "unlimited"] == [status.quota for status in statuses]
    assert ["gcra", "sliding_window", "unlimited"] == [status.algorithm for status in statuses]
    assert [3, 2, None] == [status.limit for status in statuses]
    assert all(isinstance(status, QuotaStatus) for status in statuses)


HEADERS: dict[str, tuple[str, int, dict[str, str]]] = {
    "allowed": ("10/minute", 1, {"RateLimit-Policy": '"10/minute";q=10;w=60', "RateLimit": '"10/minute";r=9;t=60'}),
    "denied": ("2/minute", 3, {"RateLimit-Policy": '"2/minute";q=2;w=60', "RateLimit": '"2/minute";r=0;t=60', "Retry-After": "60"}),
    "rounded-up": ("1/1500ms", 2, {"RateLimit-Policy": '"1/1500ms";q=1;w=2', "RateLimit": '"1/1500ms";r=0;t=2', "Retry-After": "2"}),
    "burst": ("60/minute burst 3", 1, {"RateLimit-Policy": '"60/minute-burst-3";q=3;w=3', "RateLimit": '"60/minute-burst-3";r=2;t=2'}),
    "calendar": (
        "5/day calendar",
        1,
        {"RateLimit-Policy": '"5/day-calendar";q=5', "RateLimit": '"5/day-calendar";r=4;t=86400'},
    ),
    "slots": (
        "2 concurrent",
        3,
        {"RateLimit-Policy": '"2-concurrent";q=2;qu="concurrent-requests"', "RateLimit": '"2-concurrent";r=0', "Retry-After": "60"},
    ),
    "never": ("0/minute", 1, {"RateLimit-Policy": '"0/minute";q=0;w=60', "RateLimit": '"0/minute";r=0'}),
    "unlimited": ("unlimited", 1, {}),
    "several": (
        "10/second, 12/minute",
        11,
        {"RateLimit-Policy": '"10/second";q=10;w=1, "12/minute";q=12;w=60', "RateLimit": '"10/second";r=0;t=1', "Retry-After": "1"},
    ),
}


@pytest.mark.parametrize(("quota", "checks", "expected"), HEADERS.values(), ids=HEADERS)
def test_the_headers_of_a_decision(quota: str, checks: int, expected: dict[str, str], clock: ManualClock) -> None:
    """
    The fields of the IETF draft: waits are rounded up, and nothing is said of what is not limited.
    """
    limiter = Limiter(quota, clock=clock)

    assert expected == [limiter.check("key") for _ in range(checks)][-1].headers()


# --- Other quotas ----------------------------------------------------------------------------------------------------------------------


def test_another_limit_keeps_what_was_used(clock: ManualClock) -> None:
    """
    A raised limit gives only the difference, a lowered one denies until enough has left.
    """
    limiter = Limiter("5/minute", clock=clock)
    limiter.check("key", 4)

    assert 2 == limiter.load("7/minute")
    assert 3 == limiter.peek("key").remaining
    assert 3 == limiter.load("2/minute")
    assert (0, 60.0) == ((denial := limiter.check("key")).remaining, denial.retry_after)
    assert 3 == denial.generation == limiter.stats().generation


Transition = Literal["safe", "immediate"]
CHANGES = [
    pytest.param("3/minute", "5/second", id="window"),
    pytest.param("3/minute fixed_window", "5/minute", id="algorithm"),
    pytest.param("3/minute sliding_window_counter", "5/minute sliding_window_counter buckets 6", id="buckets"),
    pytest.param("3/day calendar", "5/day calendar Europe/Berlin", id="zone"),
]


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_a_safe_transition_gives_nobody_both(old: str, new: str, clock: ManualClock) -> None:
    """
    While the old window lasts, the old quota counts on with the higher limit, and is shown after the new one.
    """
    limiter = Limiter(old, clock=clock)
    limiter.check("key", 3)
    limiter.load(new)

    decision = limiter.check("key", 2)
    assert (True, 0) == (decision.allowed, decision.remaining)
    assert [3, 0] == [status.remaining for status in decision.quotas]
    assert not limiter.check("key")
    assert Quota.parse(new) == limiter.quotas[0]
    assert 1 == len(limiter.quotas)


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_a_safe_transition_ends(old: str, new: str, clock: ManualClock) -> None:
    """
    After the old window, or two of the interpolated kind, only the new quota is asked.
    """
    limiter = Limiter(old, clock=clock)
    limiter.check("key", 3)
    limiter.load(new)
    clock.advance(86_400 if "day" in old else 120)

    assert [5] == [status.remaining for status in limiter.peek("key").quotas]
    assert limiter.check("key", 5)


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_an_immediate_transition_starts_afresh(old: str, new: str, clock: ManualClock) -> None:
    """
    Whoever asks for it gets one extra limit, and knows.
    """
    limiter = Limiter(old, clock=clock)
    limiter.check("key", 3)
    limiter.load(new, transition="immediate")

    assert [5] == [status.remaining for status in limiter.peek("key").quotas]


def test_the_wait_of_a_transition_is_true(clock: ManualClock) -> None:
    """
    The wait that is told while two quotas count is that of both.
    """
    limiter = Limiter("3/minute", clock=clock)
    limiter.check("key", 3)
    clock.advance(1)
    limiter.load("3/second")
    wait = limiter.check("key").retry_after_ns

    assert wait == 59 * SECOND
    clock.advance_ns(wait - 1)
    assert not limiter.check("key")
    clock.advance_ns(1)
    assert limiter.check("key")


def test_a_change_of_rate_keeps_the_used_share(clock: ManualClock) -> None:
    """
    A bucket that is half empty is half empty under the new rate, whatever its period.
    """
    limiter = Limiter("60/minute burst 10", clock=clock)
    limiter.check("key", 10)
    clock.advance(5)
    limiter.load("7200/hour burst 20")

    assert (10, 1) == ((decision := limiter.peek("key")).remaining, len(decision.quotas))


def test_a_named_quota_is_replaced_by_its_namesake(clock: ManualClock) -> None:
    """
    Names tell which quota follows which; a quota that is gone is not counted any more.
    """
    limiter = Limiter([Quota(3, 60, name="short"), Quota(9, 3600, name="long")], clock=clock)
    limiter.check("key", 3)
    limiter.load([Quota(20, 7200, name="long")])

    assert [("long", 17), ("long", 14)] == sorted(
        [(status.name, status.remaining) for status in limiter.check("key", 3).quotas], key=str, reverse=True
    )


def test_a_refund_reaches_into_the_next_generation(clock: ManualClock) -> None:
    """
    What was taken under the old limit can be given back under the new one.
    """
    limiter = Limiter("5/minute", clock=clock)
    decision = limiter.check("key", 4)
    limiter.load("6/minute")
    limiter.refund("key", decision)

    assert limiter.peek("key").remaining == 6


VOIDING = {
    "another-rate": ("60/minute burst 10", "30/minute burst 10", 0),
    "a-lower-burst": ("60/minute burst 10", "60/minute burst 2", 6),
    "closed-and-another-rate": ("60/minute burst 10", "0/minute burst 10; 30/minute burst 10", 0),
    "another-spacing": ("10/second nodelay 9", "5/second nodelay 9", 0),
}


@pytest.mark.parametrize(("old", "between", "left"), VOIDING.values(), ids=VOIDING)
def test_a_receipt_that_a_change_has_voided_stays_void(old: str, between: str, left: int, clock: ManualClock) -> None:
    """
    A bucket's receipt is a time: under another rate it means other units, and a lowered burst has clamped it, also when it is raised again.
    """
    limiter = Limiter(old, clock=clock)
    limiter.check("key", 6)
    decision = limiter.check("key", 4)
    for quota in between.split("; "):
        limiter.load(quota)
        limiter.check("key")
    limiter.load(old)
    limiter.refund("key", decision)

    assert limiter.peek("key").remaining == left


def test_slots_are_kept_and_released_under_a_limit_of_0(clock: ManualClock) -> None:
    """
    Those who hold slots when the limit becomes 0 drain: they renew and release as ever, and nobody new gets in.
    """
    limiter = Limiter("3 concurrent", clock=clock)
    first, second = limiter.check("key"), limiter.check("key")
    limiter.load("0 concurrent")

    assert limiter.renew("key", first)
    assert limiter.release("key", second)
    assert not limiter.check("key")
    limiter.load("3 concurrent")
    assert limiter.peek("key").remaining == 2


def test_loading_the_same_quotas_changes_nothing(clock: ManualClock) -> None:
    """
    But the generation.
    """
    limiter = Limiter("5/minute, 9/hour burst 3, 2 concurrent", clock=clock)
    limiter.check("key", 2)
    before = [status.remaining for status in limiter.peek("key").quotas]

    assert 2 == limiter.load(limiter.quotas)
    assert before == [status.remaining for status in limiter.peek("key").quotas]


# --- Memory -----------------------------------------------------------------------------------------------------------------------------


def test_stats_count_what_was_done(clock: ManualClock) -> None:
    """
    Checks by `check` and by `allow`, and the states that are held; peeks and debits are no checks.
    """
    limiter = Limiter("2/minute, 100/hour", clock=clock)
    for _ in range(3):
        limiter.check("a")
    limiter.allow("b")
    limiter.peek("c")
    limiter.debit("b", 1)
    stats = limiter.stats()

    assert (3, 1, 0, 4) == (stats.allowed, stats.denied, stats.degraded, stats.keys)
    assert (0, 0, 1) == (stats.expired, stats.evicted, stats.generation)
    assert stats.bytes > 0


def test_idle_keys_are_forgotten_as_traffic_goes_on(clock: ManualClock) -> None:
    """
    Memory follows the keys that are in use, not those that ever were.
    """
    limiter = Limiter("5/second", clock=clock)
    for second in range(20):
        for key in range(2_000):
            limiter.allow(f"{second}:{key}")
        clock.advance(1)

    assert limiter.stats().keys < 10_000
    assert limiter.stats().expired > 25_000
    assert limiter.stats().evicted == 0


def test_the_cap_on_keys_evicts_those_nearest_to_full_credit(clock: ManualClock) -> None:
    """
    A client that made up names pushes out other names that are hardly used, never one that is being limited.
    """
    limiter = Limiter("2/minute", clock=clock, max_keys=100)
    limiter.check("limited", 2)
    for key in range(1_000):
        clock.advance_ns(1)
        assert limiter.allow(f"made-up:{key}")
    stats = limiter.stats()

    assert (100, 901, 0) == (stats.keys, stats.evicted, stats.degraded)
    assert not limiter.allow("limited")
    assert limiter.peek("made-up:999").remaining == 1


@pytest.mark.parametrize(("policy", "allowed"), [("deny", False), ("allow", True)])
def test_a_full_store_decides_by_policy(policy: Literal["deny", "allow"], allowed: bool, clock: ManualClock) -> None:
    """
    When every state is limiting somebody, a new key is decided without the store, and the decision says so.
    """
    limiter = Limiter("1/minute", clock=clock, max_keys=3, on_store_error=policy)
    for key in "abc":
        limiter.check(key)
    decision = limiter.check("d")
    stats = limiter.stats()

    assert (allowed, True, "store_full") == (decision.allowed, decision.degraded, decision.reason)
    assert allowed == limiter.allow("d")
    assert (2, 3, 0) == (limiter.stats().degraded, stats.keys, stats.evicted)
    assert "degraded: store_full" in repr(decision)
    assert (0 if allowed else 60.0) == decision.retry_after
    assert ("Retry-After" in decision.headers()) != allowed


def test_a_full_store_is_as_exact_as_ever_for_the_keys_it_knows(clock: ManualClock) -> None:
    """
    Keys that are held are decided by their counters, and room comes back with time.
    """
    limiter = Limiter("1/minute", clock=clock, max_keys=3)
    for key in "abc":
        limiter.check(key)

    assert not limiter.check("a").degraded
    assert limiter.check("d").degraded
    clock.advance(60)
    decision = limiter.check("d")
    assert (True, False) == (decision.allowed, decision.degraded)


def test_closing_frees_the_memory() -> None:
    """
    A context manager closes, and what it held is gone.
    """
    with Limiter("5/minute") as limiter:
        limiter.check("key")
        assert not limiter.closed

    assert limiter.closed


# --- Days and months --------------------------------------------------------------------------------------------------------------------

CALENDARS = {
    "berlin-winter": ("2/day calendar Europe/Berlin", "2026-01-10T22:59:59Z", 1),
    "berlin-summer": ("2/day calendar Europe/Berlin", "2026-07-10T21:59:30Z", 30),
    "berlin-23-hours": ("2/day calendar Europe/Berlin", "2026-03-28T23:00:00Z", 23 * 3_600),
    "berlin-25-hours": ("2/day calendar Europe/Berlin", "2026-10-24T22:00:00Z", 25 * 3_600),
    "utc-by-default": ("2/day calendar", "2026-03-28T23:00:00Z", 3_600),
    "new-york-february": ("2/month calendar America/New_York", "2028-02-29T04:59:59Z", 86_401),
    "week-begins-on-monday": ("2/week calendar Asia/Tokyo", "2026-11-15T14:59:00Z", 60),
    "year-of-366-days": ("2/year calendar", "2028-01-01T00:00:00Z", 366 * 86_400),
    "hour-of-half-an-hour-zone": ("2/hour calendar Asia/Kolkata", "2026-01-01T00:10:00Z", 20 * 60),
    "minute": ("2/minute calendar Europe/Berlin", "2026-01-01T00:00:59Z", 1),
}


@pytest.mark.parametrize(("quota", "instant", "wait"), CALENDARS.values(), ids=CALENDARS)
def test_a_calendar_window_ends_when_people_expect_it(quota: str, instant: str, wait: int) -> None:
    """
    One tick before the end it denies, and at the end all of it is there again.
    """
    clock = at(instant)
    limiter = Limiter(quota, clock=clock)
    limiter.check("key", 2)

    assert wait == limiter.check("key").retry_after
    clock.advance_ns(wait * SECOND - 1)
    assert not limiter.check("key")
    clock.advance_ns(1)
    assert limiter.check("key", 2)


ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "Pacific/Apia",
    "Pacific/Kiritimati",
    # Where the clocks are changed at midnight.
    "Africa/Cairo",
    "America/Havana",
    "America/Santiago",
    "Asia/Beirut",
]


@pytest.mark.parametrize("zone", ZONES)
def test_days_in_a_zone_are_those_of_the_time_zone_database(zone: str) -> None:
    """
    At many instants, most of them near midnight, the end of the day, week, month and year is that of Python's `zoneinfo`.
    """
    dice = random.Random(zone)
    begin = int(datetime(2011, 12, 1, tzinfo=UTC).timestamp())
    clock = ManualClock(begin)
    limiters = {unit: Limiter(f"1/{unit} calendar {zone}", clock=clock) for unit in ("day", "week", "month", "year")}
    for _ in range(200):
        second = begin + dice.randrange(18 * 365) * 86_400 + dice.choice([0, dice.randrange(86_400)])
        clock.advance_ns(second * SECOND - clock.time_ns())
        for unit, limiter in limiters.items():
            end = window_end(read(f"1/{unit} calendar {zone}"), clock.time_ns())

            assert end - clock.time_ns() == limiter.debit(f"{second}", 1).reset_after_ns, (unit, second)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe"])
def test_hours_in_a_zone_are_those_of_a_clock_on_the_wall(zone: str) -> None:
    """
    Also on the day on which the clocks are changed, by an hour or by half of one.
    """
    for day in ("2026-03-28", "2026-03-29", "2026-04-04", "2026-10-03", "2026-10-24", "2026-10-25"):
        clock = at(f"{day}T00:00:00Z")
        limiter = Limiter(f"1/hour calendar {zone}", clock=clock)
        for step in range(32):
            end = window_end(read(f"1/hour calendar {zone}"), clock.time_ns())

            assert end - clock.time_ns() == limiter.debit(f"{step}", 1).reset_after_ns
            clock.advance(1_799 + step % 3)


def _binding(decision: Decision) -> str:
    assert decision.quota is not None
    return decision.quota.name
