"""
Random histories: the library against the oracle, and against its own promises.

Histories are the same in every run. A failure prints the shortest history that shows it, and a `@reproduce_failure` line that replays it.
For more of them, and others each time: `TIDEGATE_EXAMPLES=5000 pytest tests/test_properties.py --timeout 0`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Self

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tidegate import Limiter
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.oracle import Answer, Oracle, Rule, Taken, read
    from tidegate import Decision, QuotaStatus
else:  # Tests are scripts in a folder, not a package.
    from oracle import Answer, Oracle, read

EXAMPLES = int(os.environ.get("TIDEGATE_EXAMPLES", "0"))
settings.register_profile("tidegate", settings.get_profile("tests"), max_examples=EXAMPLES or 25, derandomize=not EXAMPLES)
settings.load_profile("tidegate")

KEY = "key"
SECOND = 1_000_000_000


# --- What histories are made of ---------------------------------------------------------------------------------------------------------

costs = st.sampled_from([1, 1, 1, 2, 3, 5, 8])
limits = st.integers(1, 12)
periods = st.sampled_from(["second", "7s", "minute", "10us", "1001ns", "13ms"])


@st.composite
def debts(draw: st.DrawFn) -> str:
    """
    Clauses that every quota over time may have.
    """
    debt = draw(st.sampled_from(["", "", " max_debt 0", " max_debt 3"]))
    gap = draw(st.sampled_from(["", "", "", " min_interval 3us", " min_interval 700ms"]))
    return debt + gap


def window(suffix: str) -> st.SearchStrategy[str]:
    """
    Quotas of an algorithm without parameters of its own.
    """
    return st.builds("{}/{} {}{}".format, limits, periods, st.just(suffix), debts())


QUOTAS: dict[str, st.SearchStrategy[str]] = {
    "sliding_window": st.builds("{}/{} entries {}{}".format, limits, periods, st.sampled_from([1, 2, 3, 16]), debts()),
    "sliding_window_log": window("sliding_window_log"),
    "sliding_window_counter": window("sliding_window_counter"),
    "sliding_window_ring": st.builds("{}/{} sliding_window_counter buckets {}{}".format, limits, periods, st.integers(2, 7), debts()),
    "fixed_window": window("fixed_window"),
    "gcra": st.builds("{}/{} burst {}{}".format, limits, periods, st.integers(1, 12), debts()),
    "leaky_bucket": st.builds(
        "{}/{} queue {} nodelay {}{}{}".format,
        limits,
        periods,
        st.sampled_from(["0s", "5us", "350ms", "10s"]),
        st.sampled_from([0, 0, 1, 4]),
        st.sampled_from(["", "", " max_cost 2"]),
        debts(),
    ),
    "concurrency": st.builds("{} concurrent ttl {}".format, limits, st.sampled_from(["1ms", "7s", "60s"])),
}
ALGORITHMS = list(QUOTAS)
RATES = ("gcra", "leaky_bucket")
for_every_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)
for_every_window_and_bucket = pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "concurrency"])


def without_gap(quota: str) -> str:
    """
    The quota without its smallest gap between two requests.
    """
    return re.sub(r" min_interval \w+", "", quota)


@dataclass(frozen=True)
class Stride:
    """
    How far the clock moves: to where the last answer changes (`retry`, `reset`), or by thousandths of a period; and some ticks more.
    """

    to: Literal["now", "retry", "reset", "period"]
    thousandths: int = 0
    ticks: int = 0


def strides(*, back: bool) -> st.SearchStrategy[Stride]:
    """
    Moves of a clock that may be set back, or not.
    """
    forward = [
        st.builds(Stride, st.just("now")),
        st.builds(Stride, st.sampled_from(["now", "retry", "reset"]), ticks=st.integers(-1, 1)),
        st.builds(Stride, st.just("period"), thousandths=st.integers(0, 2500)),
    ]
    backward = [st.builds(Stride, st.just("period"), thousandths=st.integers(-2500, 0))] if back else []
    return st.one_of(*forward, *backward)


@dataclass(frozen=True)
class Step:
    """
    One call, after a move of the clock.
    """

    stride: Stride
    verb: str
    cost: int
    pick: int
    """Which earlier decision is refunded, or which lease is meant."""


VERBS = ["check"] * 6 + ["peek", "refund", "refund", "debit", "load"]
LEASE_VERBS = ["check"] * 4 + ["peek", "renew", "release", "debit", "load"]


def steps(algorithm: str, verbs: list[str] | None = None, *, back: bool = True) -> st.SearchStrategy[list[Step]]:
    """
    A history.
    """
    verbs = verbs or (LEASE_VERBS if algorithm == "concurrency" else VERBS)
    step = st.builds(Step, strides(back=back), st.sampled_from(verbs), costs | st.just(0), st.integers(0, 5))
    return st.lists(step, min_size=1, max_size=30)


class Play:
    """
    A limiter that lives through a history.
    """

    def __init__(self, quota: str, *, is_monotonic: bool = False) -> None:
        self.quota = quota
        self.rule = read(" ".join(quota.split()))
        self.is_monotonic = is_monotonic
        self.clock = ManualClock()
        # Not at the start of every window at once.
        self.clock.advance_ns(123_456_789_012)
        self.limiter = Limiter(quota, clock=self.clock)
        self.taken: list[Decision] = []
        self.last: Answer | None = None

    def now(self) -> int:
        """
        The instant.
        """
        return self.clock.time_ns()

    def live(self, history: list[Step]) -> Self:
        """
        Acts out a whole history.
        """
        for step in history:
            self.act(step)
        return self

    def act(self, step: Step) -> None:
        """
        Moves the clock and acts.
        """
        self.move(step.stride)
        note(f"{self.now()}: {step.verb} {step.cost} {step.pick}")
        getattr(self, step.verb)(step)

    def move(self, stride: Stride) -> None:
        """
        Moves the clock.
        """
        period = self.rule.period_ns or self.rule.ttl_ns
        retry = (self.last.retry_after if self.last else 0) or 0
        reset = self.last.reset_after if self.last else 0
        ticks = {"now": 0, "retry": retry, "reset": reset, "period": period * stride.thousandths // 1000}[stride.to] + stride.ticks
        self.clock.advance_ns(max(0, ticks) if self.is_monotonic else ticks)

    def saw(self, decision: Decision) -> Decision:
        """
        Remembers an answer, because later steps go to where it changes.
        """
        self.last = answer_of(decision)
        return decision

    def lease(self, step: Step) -> str | None:
        """
        The lease that a step is about.
        """
        return f"{step.pick + 1:x}" if self.rule.algorithm == "concurrency" else None

    def check(self, step: Step) -> Decision:
        """
        A check, which may be refunded later.
        """
        decision = self.saw(self.limiter.check(KEY, step.cost, lease=self.lease(step)))
        if decision and step.cost > 0 and decision.lease is None:
            self.taken.append(decision)
        return decision

    def peek(self, step: Step) -> Decision:
        """
        A peek.
        """
        return self.saw(self.limiter.peek(KEY, step.cost))

    def debit(self, step: Step) -> Decision:
        """
        A debit.
        """
        return self.saw(self.limiter.debit(KEY, step.cost))

    def refund(self, step: Step) -> tuple[Decision, int] | None:
        """
        A refund of a part of some earlier check, or of all of it; each is refunded once at most.
        """
        if not self.taken:
            return None
        decision = self.taken.pop(step.pick % len(self.taken))
        cost = min(step.cost, decision.cost) or decision.cost
        assert cost == self.limiter.refund(KEY, decision, cost)
        return decision, cost

    def renew(self, step: Step) -> bool:
        """
        A renewal.
        """
        return self.limiter.renew(KEY, self.lease(step) or "")

    def release(self, step: Step) -> bool:
        """
        A release.
        """
        return self.limiter.release(KEY, self.lease(step) or "")

    def load(self, step: Step) -> str:
        """
        Another limit: what follows it in the quota, the period above all, stays.
        """
        end = next(i for i, letter in enumerate(self.quota) if not letter.isdigit())
        quota = f"{step.cost + step.pick}{self.quota[end:]}"
        self.limiter.load(quota)
        self.rule = read(" ".join(quota.split()))
        return quota


class Watched(Play):
    """
    The same, with an oracle that must agree to everything.
    """

    def __init__(self, quota: str, *, is_monotonic: bool = False) -> None:
        super().__init__(quota, is_monotonic=is_monotonic)
        self.oracle = Oracle(" ".join(quota.split()))
        self.receipts: dict[Decision, Taken] = {}

    def check(self, step: Step) -> Decision:
        """
        Compares a check.
        """
        decision = super().check(step)
        self.receipts[decision] = self.oracle.check(self.now(), KEY, step.cost, self.lease(step))
        assert self.receipts[decision].answer == answer_of(decision)
        return decision

    def peek(self, step: Step) -> Decision:
        """
        Compares a peek.
        """
        decision = super().peek(step)
        assert self.oracle.peek(self.now(), KEY, step.cost) == answer_of(decision)
        return decision

    def debit(self, step: Step) -> Decision:
        """
        Compares a debit.
        """
        decision = super().debit(step)
        assert self.oracle.debit(self.now(), KEY, step.cost) == answer_of(decision)
        return decision

    def refund(self, step: Step) -> tuple[Decision, int] | None:
        """
        Compares what is left after a refund.
        """
        refunded = super().refund(step)
        if refunded:
            self.oracle.refund(self.now(), KEY, self.receipts[refunded[0]], refunded[1])
            self.peek(step)
        return refunded

    def renew(self, step: Step) -> bool:
        """
        Compares a renewal.
        """
        held = super().renew(step)
        assert self.oracle.renew(self.now(), KEY, self.lease(step) or "") == held
        return held

    def release(self, step: Step) -> bool:
        """
        Compares a release.
        """
        held = super().release(step)
        assert self.oracle.release(self.now(), KEY, self.lease(step) or "") == held
        return held

    def load(self, step: Step) -> str:
        """
        Changes the limit of both.
        """
        quota = super().load(step)
        self.oracle.load(" ".join(quota.split()))
        return quota


def answer_of(decision: Decision | QuotaStatus) -> Answer:
    """
    A decision in the form of the oracle.
    """
    return Answer(decision.allowed, decision.limit, decision.remaining, decision.retry_after_ns, decision.reset_after_ns, decision.delay_ns)


# --- Against the oracle -----------------------------------------------------------------------------------------------------------------


@for_every_algorithm
@settings(max_examples=EXAMPLES or 75)
@given(data=st.data())
def test_a_history_is_answered_as_by_the_oracle(algorithm: str, data: st.DataObject) -> None:
    """
    Whatever happened before, every field of every answer is the oracle's; also when the clock goes back.
    """
    Watched(data.draw(QUOTAS[algorithm])).live(data.draw(steps(algorithm)))


@for_every_algorithm
@settings(max_examples=EXAMPLES or 15)
@given(data=st.data())
def test_forgetting_idle_keys_changes_no_answer(algorithm: str, data: st.DataObject) -> None:
    """
    While other keys keep the sweep going, so that states at full credit are dropped, every answer is still the oracle's.
    """
    play = Watched(data.draw(QUOTAS[algorithm]), is_monotonic=True)
    for number, step in enumerate(data.draw(steps(algorithm, back=False))):
        play.act(step)
        if number % 4 == 0:
            for other in range(4_500):
                play.limiter.allow(f"{number}:{other}")


# --- The promises of a decision, by the library's own word ------------------------------------------------------------------------------


@for_every_window_and_bucket
@given(data=st.data())
def test_retry_after_is_true_and_minimal(algorithm: str, data: st.DataObject) -> None:
    """
    After a denial the same cost is admitted exactly at the promised instant, and denied one tick before; never is never.
    """
    play = Play(data.draw(QUOTAS[algorithm])).live(data.draw(steps(algorithm)))
    cost = data.draw(costs)

    wait = play.limiter.check(KEY, cost).retry_after_ns

    if wait is None:
        play.clock.advance(10 * 365 * 86_400)
        assert not play.limiter.check(KEY, cost)
    elif wait > 0:
        play.clock.advance_ns(wait - 1)
        assert not play.limiter.check(KEY, cost)
        play.clock.advance_ns(1)
        assert play.limiter.check(KEY, cost)


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "leaky_bucket"])
@given(data=st.data())
def test_remaining_is_exact_both_ways(algorithm: str, data: st.DataObject) -> None:
    """
    What is left can be taken at once, and one unit more cannot.
    """
    play = Play(data.draw(QUOTAS[algorithm])).live(data.draw(steps(algorithm)))

    remaining = play.limiter.peek(KEY, 0).remaining

    assert remaining is not None
    assert not play.limiter.check(KEY, remaining + 1)
    assert remaining == 0 or play.limiter.check(KEY, remaining)


@given(data=st.data())
def test_remaining_counts_requests_of_cost_1_in_a_queue(data: st.DataObject) -> None:
    """
    As many requests of cost 1 as a `leaky_bucket` says are left are admitted at once, and not one more.
    """
    play = Play(without_gap(data.draw(QUOTAS["leaky_bucket"]))).live(data.draw(steps("leaky_bucket")))

    remaining = play.limiter.peek(KEY, 0).remaining

    assert remaining is not None
    if remaining < 1_000:
        assert remaining == next(count for count in range(1_001) if not play.limiter.check(KEY))


@for_every_algorithm
@given(data=st.data())
def test_reset_after_is_true_and_minimal(algorithm: str, data: st.DataObject) -> None:
    """
    At the promised instant everything is there again, and one tick before it is not.
    """
    play = Play(data.draw(QUOTAS[algorithm])).live(data.draw(steps(algorithm)))

    # A denial, because a peek does not remember that the clock went back.
    decision = play.limiter.check(KEY, 2**53)

    if decision.reset_after_ns > 0:
        play.clock.advance_ns(decision.reset_after_ns - 1)
        assert play.limiter.peek(KEY).remaining != decision.limit
        play.clock.advance_ns(1)
    assert decision.limit == play.limiter.peek(KEY).remaining


@for_every_algorithm
@given(data=st.data())
def test_a_peek_changes_nothing(algorithm: str, data: st.DataObject) -> None:
    """
    With peeks in between, also by a clock that was set back or forth for them, every later answer is the same.
    """
    play = Watched(data.draw(QUOTAS[algorithm]))
    for step in data.draw(steps(algorithm)):
        play.act(step)
        away = data.draw(st.integers(-(10**11), 10**11))
        play.clock.advance_ns(away)
        play.limiter.peek(KEY, step.cost)
        play.limiter.check(KEY, 0)
        play.clock.advance_ns(-away)


@for_every_algorithm
@given(data=st.data())
def test_time_that_goes_back_grants_nothing(algorithm: str, data: st.DataObject) -> None:
    """
    If the clock is set back, no more is left than before.
    """
    play = Play(data.draw(QUOTAS[algorithm])).live(data.draw(steps(algorithm)))
    before = play.limiter.peek(KEY, 0).remaining
    play.clock.advance_ns(-data.draw(st.integers(1, 200 * SECOND)))
    after = play.limiter.peek(KEY, 0).remaining

    assert before is not None
    assert after is not None
    assert after <= before


# --- The promises of the algorithms -----------------------------------------------------------------------------------------------------

NEVER_ABOVE: dict[str, Callable[[Rule], int]] = {
    "sliding_window": lambda rule: rule.limit,
    "sliding_window_log": lambda rule: rule.limit,
    "sliding_window_ring": lambda rule: rule.limit,
    "sliding_window_counter": lambda rule: max(1, 2 * rule.limit - 1),
    "fixed_window": lambda rule: 2 * rule.limit,
    "gcra": lambda rule: rule.burst + rule.limit,
}
"""The most that can be admitted in any interval of one period, from the table in `algorithms.md` §1.0."""


@pytest.mark.parametrize("algorithm", NEVER_ABOVE)
@given(data=st.data())
def test_never_more_is_admitted_in_any_window_than_promised(algorithm: str, data: st.DataObject) -> None:
    """
    In no interval of one period are more units admitted than the algorithm's bound.
    """
    play = Play(data.draw(QUOTAS[algorithm]), is_monotonic=True)
    admitted: list[tuple[int, int]] = []
    for step in data.draw(steps(algorithm, ["check"], back=False)):
        play.move(step.stride)
        if play.check(step):
            admitted.append((play.now(), step.cost))

        begin = play.now() - play.rule.period_ns
        assert sum(cost for at, cost in admitted if at > begin) <= NEVER_ABOVE[algorithm](play.rule)


@for_every_window_and_bucket
@given(data=st.data())
def test_a_refund_is_never_more_permissive_than_never_having_charged(algorithm: str, data: st.DataObject) -> None:
    """
    A key that was charged and refunded, in one part or two, has no more left than its twin that was not charged, then and ever after.
    """
    # With room for every charge the bounded log is exact; which pairs it merges otherwise depends on the charge.
    quota = re.sub(r"entries \d+", "entries 64", without_gap(data.draw(QUOTAS[algorithm])))
    play = Play(quota, is_monotonic=True)
    position = data.draw(st.integers(0, 4))
    refunded = None
    for number, step in enumerate(data.draw(steps(algorithm, ["check"], back=False))):
        play.move(step.stride)
        decision = play.saw(play.limiter.check("charged", step.cost or 1))
        if decision and number >= position and refunded is None:
            refunded = decision
        elif decision:
            # What the charged key was given, its twin is given as well.
            assert play.limiter.check("twin", step.cost or 1)
    if refunded is None:
        return
    first = data.draw(st.integers(1, refunded.cost))
    play.limiter.refund("charged", refunded, first)
    play.clock.advance_ns(data.draw(st.integers(0, 3)))
    if first < refunded.cost:
        play.limiter.refund("charged", refunded)

    for _ in range(12):
        charged, twin = play.limiter.peek("charged"), play.limiter.peek("twin")
        assert charged.remaining is not None
        assert twin.remaining is not None
        assert charged.remaining <= twin.remaining
        play.clock.advance_ns(play.rule.period_ns // 5 + 1)


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name not in ("concurrency", "leaky_bucket")])
@given(data=st.data(), cost=st.integers(1, 12))
def test_a_cost_of_n_is_n_times_a_cost_of_1(algorithm: str, data: st.DataObject, cost: int) -> None:
    """
    At one instant, one dear request is the same as as many cheap ones: admitted together, and with the same left.
    """
    quota = without_gap(data.draw(QUOTAS[algorithm]))
    history = data.draw(steps(algorithm))
    dear, cheap = Play(quota).live(history), Play(quota).live(history)

    dear_decision = dear.limiter.check(KEY, cost)
    if dear_decision:
        cheap_decisions = [cheap.limiter.check(KEY) for _ in range(cost)]
        assert answer_of(dear_decision) == answer_of(cheap_decisions[-1])
        assert all(cheap_decisions)
    else:
        assert not all(cheap.limiter.check(KEY) for _ in range(cost))


@for_every_window_and_bucket
@given(data=st.data(), actual=st.integers(1, 12))
def test_settling_is_as_if_the_true_cost_had_been_known(algorithm: str, data: st.DataObject, actual: int) -> None:
    """
    A reservation that is settled at once leaves what a debit of the true cost leaves.
    """
    quota = without_gap(data.draw(QUOTAS[algorithm]))
    history = data.draw(steps(algorithm))
    reserved, known = Play(quota).live(history), Play(quota).live(history)

    decision = reserved.limiter.reserve(KEY, data.draw(st.integers(1, reserved.limiter.peek(KEY).remaining or 1)))

    if not decision:
        return
    assert answer_of(known.limiter.debit(KEY, actual)) == answer_of(reserved.limiter.settle(KEY, decision, actual))


@for_every_algorithm
@given(data=st.data())
def test_allow_takes_what_check_takes(algorithm: str, data: st.DataObject) -> None:
    """
    The fast path gives the same answers and leaves the same behind.
    """
    quota = data.draw(QUOTAS[algorithm])
    checked, allowed = Play(quota), Play(quota)
    for step in data.draw(steps(algorithm, ["check"])):
        checked.move(step.stride)
        allowed.move(step.stride)
        decision = checked.limiter.check(KEY, step.cost)
        checked.last = allowed.last = answer_of(decision)

        assert decision.allowed == allowed.limiter.allow(KEY, step.cost)
        assert answer_of(checked.limiter.peek(KEY)) == answer_of(allowed.limiter.peek(KEY))


# --- Several quotas in one check --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Together:
    """
    What several quotas say to one check, by their oracles.
    """

    answers: list[Answer]

    def allowed(self) -> bool:
        """
        All or none.
        """
        return all(answer.allowed for answer in self.answers)

    def retry_after(self) -> int | None:
        """
        The longest wait; never is longer than any.
        """
        waits = [answer.retry_after for answer in self.answers]
        return None if None in waits else max(wait for wait in waits if wait is not None)

    def remaining(self) -> int | None:
        """
        What is left of the scarcest.
        """
        return min((answer.remaining for answer in self.answers if answer.remaining is not None), default=None)

    def binding(self) -> int:
        """
        The first of those with the longest wait and, among these, with the smallest share left.
        """
        return max(range(len(self.answers)), key=lambda i: (binds(self.answers[i]), -i))


def binds(answer: Answer) -> tuple[bool, int, Fraction]:
    """
    How much a quota binds: by its wait, then by the share that is used.
    """
    if answer.limit is None or answer.remaining is None:
        used = Fraction(0)
    else:
        used = Fraction(answer.limit - answer.remaining, answer.limit) if answer.limit else Fraction(1)
    return answer.retry_after is None, answer.retry_after or 0, used


several = st.lists(
    st.one_of(
        *(QUOTAS[name] for name in ("sliding_window", "gcra", "fixed_window", "sliding_window_counter", "leaky_bucket")),
        st.sampled_from(["unlimited", "0/minute", "3 concurrent ttl 7s"]),
    ),
    min_size=2,
    max_size=4,
)


def ask_all(oracles: list[Oracle], now: int, cost: int, lease: str) -> list[Answer]:
    """
    Two passes: all are asked, and only if all have room all are charged.
    """
    asked = [oracle.peek(now, KEY, cost) for oracle in oracles]
    if cost == 0 or not all(answer.allowed for answer in asked):
        return asked
    return [oracle.check(now, KEY, cost, lease).answer for oracle in oracles]


def told(quotas: list[str], history: list[Step]) -> Iterator[tuple[Decision, Together]]:
    """
    Lives through a history of checks; with each decision comes what the quotas say one by one.
    """
    clock = ManualClock()
    limiter = Limiter(", ".join(quotas), clock=clock)
    oracles = [Oracle(" ".join(quota.split())) for quota in quotas]
    wait = 0
    for number, step in enumerate(history):
        ticks = {"now": 0, "retry": wait, "reset": 2 * wait, "period": step.stride.thousandths * 10**7}[step.stride.to]
        clock.advance_ns(max(0, ticks + step.stride.ticks))
        lease = f"{number + 1:x}"
        decision = limiter.check(KEY, step.cost, lease=lease)
        wait = decision.retry_after_ns or 0
        yield decision, Together(ask_all(oracles, clock.time_ns(), step.cost, lease))


@settings(max_examples=EXAMPLES or 100)
@given(quotas=several, history=steps("", ["check"], back=False))
def test_several_quotas_are_all_charged_or_none_is(quotas: list[str], history: list[Step]) -> None:
    """
    Each quota's status is what it says alone, in the order in which they were given; a check that one denies is charged to none.
    """
    for decision, together in told(quotas, history):
        assert together.allowed() == decision.allowed
        assert together.answers == [answer_of(status) for status in decision.quotas]


@settings(max_examples=EXAMPLES or 100)
@given(quotas=several, history=steps("", ["check"], back=False))
def test_several_quotas_give_one_answer(quotas: list[str], history: list[Step]) -> None:
    """
    The decision waits for the slowest quota, leaves what the scarcest leaves, and names the one that binds.
    """
    for decision, together in told(quotas, history):
        binding = together.answers[together.binding()]

        assert (together.retry_after(), together.remaining()) == (decision.retry_after_ns, decision.remaining)
        assert max(answer.reset_after for answer in together.answers) == decision.reset_after_ns
        assert (max(answer.delay for answer in together.answers) if decision else 0) == decision.delay_ns
        assert decision.quota is not None
        assert (binding, binding.limit) == (answer_of(decision.quota), decision.limit)


@given(quotas=several, history=steps("", ["check"], back=False), cost=costs)
def test_the_wait_for_several_quotas_is_true_and_minimal(quotas: list[str], history: list[Step], cost: int) -> None:
    """
    When the wait is over all quotas admit the cost, and one tick before at least one does not.
    """
    clock = ManualClock()
    limiter = Limiter([quota for quota in quotas if "concurrent" not in quota] or "1/second", clock=clock)
    for step in history:
        clock.advance_ns(abs(step.stride.thousandths) * 10**7)
        limiter.check(KEY, step.cost)

    wait = limiter.check(KEY, cost).retry_after_ns
    if wait:
        clock.advance_ns(wait - 1)
        assert not limiter.peek(KEY, cost)
        clock.advance_ns(1)
        assert limiter.peek(KEY, cost)


def test_the_profile_is_deterministic() -> None:
    """
    Without `TIDEGATE_EXAMPLES` every run tries the same histories.
    """
    profile: Any = settings.default
    assert bool(EXAMPLES) != profile.derandomize
