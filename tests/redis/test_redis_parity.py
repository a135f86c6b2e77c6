"""
The same calls give the same answers on `memory://` and on a shared store, blocking and async.

Windows are long, so that only the calls matter and not the moment at which they come.
That both agree tick by tick is shown in Rust, with a clock that the test moves.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tidegate import Limiter, rules
from tidegate.errors import Denied, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.redis.conftest import Make
    from tidegate import Decision, RuleLimiter

CLOSE = 5.0
"""Seconds between the same call on one store and on the other, on a busy machine."""

QUOTAS = {
    "sliding_window": "9/day",
    "sliding_window_log": "9/day sliding_window_log",
    "sliding_window_counter": "9/day sliding_window_counter",
    "sliding_window_ring": "9/day sliding_window_counter buckets 6",
    "fixed_window": "9/day fixed_window",
    "calendar": "9/year calendar Europe/Berlin",
    "gcra": "9/day burst 9",
    "gcra-fraction": "7/day burst 5",
    "leaky_bucket": "9/day queue 12h nodelay 2",
    "concurrency": "9 concurrent ttl 1d",
    "max_debt": "9/day max_debt 2",
    "min_interval": "9/day min_interval 1h",
    "several": "9/day, 12/day fixed_window, 20/month calendar, 7/day burst 11",
    "several with slots": "9/day; 6 concurrent ttl 1d",
    "unlimited": "unlimited",
    "nothing": "0/day",
}


@dataclass
class Told:
    """
    What a call answered: what must be the same, and times that must be close.
    """

    same: Any
    times: list[float | None] = field(default_factory=list)

    def agrees(self, other: Told) -> bool:
        """
        Whether another store may answer so.
        """
        if self.same != other.same or len(self.times) != len(other.times):
            return False
        pairs = zip(self.times, other.times, strict=True)
        return all(a == b or (a is not None and b is not None and abs(a - b) < CLOSE) for a, b in pairs)


def told(answer: object) -> Told:
    """
    Any answer of a limiter, in a form that can be compared.
    """
    match answer:
        case bool() | int() | None:
            return Told(answer)
        case UsageError() | Denied():
            return Told((type(answer), str(answer) if isinstance(answer, UsageError) else None))
    decision: Any = answer
    statuses = [(one.quota, one.rule, one.allowed, one.limit, one.remaining) for one in decision.quotas]
    same = (
        decision.allowed,
        decision.limit,
        decision.remaining,
        decision.rule,
        decision.rules,
        decision.shadowed,
        decision.degraded,
        statuses,
    )
    times = [time for one in (decision, *decision.quotas) for time in (one.retry_after, one.reset_after, one.delay)]
    return Told(same, times)


class Face:
    """
    A limiter whose methods are called by name, blocking or async.
    """

    def __init__(self, limiter: Limiter | RuleLimiter, runner: asyncio.Runner | None) -> None:
        self._limiter = limiter
        self._runner = runner

    def call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401  # whatever the method returns
        """
        Calls one; a refusal is an answer.
        """
        method = getattr(self._limiter, f"{name}_async" if self._runner and hasattr(self._limiter, f"{name}_async") else name)
        try:
            answer = method(*arguments)
            return self._runner.run(answer) if self._runner and inspect.isawaitable(answer) else answer  # type: ignore[arg-type]  # a coroutine
        except (UsageError, Denied) as error:
            return error


@pytest.fixture(params=["blocking", "async"])
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner | None]:
    """
    What runs coroutines; nothing for the blocking face.
    """
    if request.param == "blocking":
        yield None
        return
    with asyncio.Runner() as runner:
        yield runner


def steps(seed: int, subjects: list[Any], count: int) -> Iterator[tuple[str, Any, int, int]]:
    """
    Random calls: what, about whom, how much, and which earlier decision.
    """
    dice = random.Random(seed)
    verbs = ["check"] * 8 + ["peek", "allow", "debit", "reserve", "refund", "refund", "settle", "renew", "release", "reset"]
    for _ in range(count):
        yield dice.choice(verbs), dice.choice(subjects), dice.choice((0, 1, 1, 1, 2, 3, 12)), dice.randrange(1 << 30)


def play(face: Face, seed: int, subjects: list[Any], *, by_rules: bool) -> list[Told]:
    """
    Everything that a random history answers.
    """
    receipts: list[tuple[Any, Decision]] = []
    said: list[Told] = []
    for verb, subject, cost, which in steps(seed, subjects, 60):
        arguments: tuple[Any, ...] = (subject, cost)
        if verb == "reset":
            arguments = (subject,)
        if verb in ("refund", "settle", "renew", "release"):
            if not receipts:
                continue
            of, receipt = receipts[which % len(receipts)]
            arguments = (receipt,) if by_rules else (of, receipt)
            arguments += {"refund": (cost,) if which % 2 else (), "settle": (cost,)}.get(verb, ())
        answer = face.call(verb, *arguments)
        if verb in ("check", "reserve"):
            receipts.append((subject, answer))
        said.append(told(answer))
    return said


def without_bystanders(answer: Told) -> Told:
    """
    Of a denial only what denied; everything else as it is.
    """
    if not isinstance(answer.same, tuple) or answer.same[0] is not False:
        return answer
    return Told((*answer.same[:-1], [status for status in answer.same[-1] if not status[2]]), answer.times[:1])


def assert_same(expected: list[Told], actual: list[Told]) -> None:
    """
    Step by step, so that the first difference is shown.
    """
    assert len(expected) == len(actual)
    for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
        assert one.agrees(other), f"step {number}: memory:// says {one}, the shared store {other}"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("quotas", QUOTAS.values(), ids=QUOTAS)
def test_a_random_history_is_answered_alike(quotas: str, seed: int, runner: asyncio.Runner | None, make: Make) -> None:
    """
    Every algorithm, every verb; denials are the store's, so that nothing is remembered that a later call changed.
    """
    expected = play(Face(Limiter(quotas), runner), seed, ["a", "b"], by_rules=False)
    actual = play(Face(make(quotas, deny_cache=0), runner), seed, ["a", "b"], by_rules=False)

    assert_same(expected, actual)


@pytest.mark.parametrize("quotas", QUOTAS.values(), ids=QUOTAS)
def test_remembered_denials_admit_and_deny_alike(quotas: str, make: Make) -> None:
    """
    With the cache of denials on; what else a denial tells may be as old as the denial.
    """
    expected = play(Face(Limiter(quotas), None), 99, ["a", "b"], by_rules=False)
    actual = play(Face(make(quotas), None), 99, ["a", "b"], by_rules=False)

    assert [one.same[0] for one in expected if isinstance(one.same, tuple)] == [
        one.same[0] for one in actual if isinstance(one.same, tuple)
    ]


RULES = """
version: 1
rules:
  - {name: clients, per: client, quotas: 6/day, tiers: {pro: 12/day burst 10, free: "4/day, 5/month calendar"}}
  - {name: everybody, per: global, quotas: 20/day fixed_window}
  - {name: paths, per: path, quotas: 5/day, mode: shadow}
  - {name: tokens, per: client, match: {path: /llm}, quotas: 30/day, cost: 3}
  - {name: flights, per: client, match: {path: /slow}, quotas: 3 concurrent ttl 1d}
  - {name: banned, per: client, match: {client: mallory}, quotas: 0/day}
"""
REQUESTS: list[Any] = [
    {"client": "ada", "path": "/", "tier": "pro"},
    {"client": "bob", "path": "/", "tier": "free"},
    {"client": "bob", "path": "/llm"},
    {"client": "eve", "path": "/slow"},
    {"client": "mallory", "path": "/"},
    {"path": "/nobody"},
]


@pytest.mark.parametrize("seed", range(6))
def test_a_random_history_under_rules_is_answered_alike(seed: int, runner: asyncio.Runner | None, url: str) -> None:
    """
    Several rules, plans, shadow, limits for each and for all.
    """
    found = rules.load("rules.yaml", text=RULES)
    expected = play(Face(Limiter.from_rules(found), runner), seed, REQUESTS, by_rules=True)
    with Limiter.from_rules(found, store=url, budget=5, deny_cache=0) as limiter:
        assert_same(expected, play(Face(limiter, runner), seed, REQUESTS, by_rules=True))


@pytest.mark.parametrize("seed", range(6, 9))
def test_a_random_history_on_a_cluster_is_answered_alike(seed: int, cluster_url: str) -> None:
    """
    Although the rules count on different servers: whoever asks alone does not notice.

    Only of a denial, what rules have left that were charged and got it back is told as it was in between.
    """
    found = rules.load("rules.yaml", text=RULES)
    expected = play(Face(Limiter.from_rules(found), None), seed, REQUESTS, by_rules=True)
    with Limiter.from_rules(found, store=cluster_url, budget=5, deny_cache=0) as limiter:
        actual = play(Face(limiter, None), seed, REQUESTS, by_rules=True)

    assert_same([without_bystanders(one) for one in expected], [without_bystanders(one) for one in actual])


ENVOY = """
domain: shop
descriptors:
  - {key: tenant, rate_limit: {unit: day, requests_per_unit: 4}}
  - {key: tenant, value: big, rate_limit: {unit: day, requests_per_unit: 8}}
  - {key: path, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: free, rate_limit: {unlimited: true}}
  - key: tenant
    value: nested
    descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 3}}]
"""
ENTRIES = [("tenant", "a"), ("tenant", "big"), ("path", "/"), ("free", "x"), ("unknown", "y")]


def descriptors(dice: random.Random) -> list[dict[str, Any]]:
    """
    Those of a random request.
    """
    found: list[dict[str, Any]] = [{"entries": [entry]} for entry in dice.sample(ENTRIES, dice.randint(1, 3))]
    if dice.random() < 0.3:
        found.append({"entries": [("tenant", "nested"), ("user", "u")]})
    if dice.random() < 0.2:
        found[0]["hits_addend"] = dice.randint(0, 3)
    if dice.random() < 0.1:
        found[0]["limit"] = {"requests_per_unit": 5, "unit": "day"}
    if dice.random() < 0.1:
        found[0] |= {"hits_addend": 1, "is_negative_hits": True}
    return found


def without_times(answer: dict[str, Any]) -> dict[str, Any]:
    """
    What must be the same on every store.
    """
    statuses = [{name: value for name, value in status.items() if name != "duration_until_reset"} for status in answer["statuses"]]
    return {**answer, "statuses": statuses}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("topology", ["url", "cluster_url"])
def test_descriptors_are_answered_alike(seed: int, topology: str, request: pytest.FixtureRequest) -> None:
    """
    As the reference rate limit service counts them.
    """
    found = rules.load("shop.yaml", text=ENVOY)
    memory = Limiter.from_rules(found)
    dice = random.Random(seed)
    with Limiter.from_rules(found, store=request.getfixturevalue(topology), budget=5) as shared:
        for number in range(40):
            asked, addend, domain = descriptors(dice), dice.randint(0, 2), dice.choice(["shop"] * 9 + ["other"])
            expected, actual = (limiter.check_descriptors(domain, asked, addend) for limiter in (memory, shared))

            assert without_times(expected) == without_times(actual), f"request {number}: {asked}"
            for one, other in zip(expected["statuses"], actual["statuses"], strict=True):
                assert (one["duration_until_reset"] or 0) == pytest.approx(other["duration_until_reset"] or 0, abs=CLOSE)


# --- Single verbs -----------------------------------------------------------------------------------------------------------------------


def both(quotas: str, make: Make, act: Callable[[Limiter], object]) -> tuple[object, object]:
    """
    What something answers on either store.
    """
    return act(Limiter(quotas)), act(make(quotas))


def hold(limiter: Limiter) -> list[object]:
    """
    Slots one inside the other.
    """
    seen: list[object] = []
    with limiter.slot("key") as outer, limiter.slot("key"):
        seen += [outer.held, limiter.peek("key").allowed]
        try:
            with limiter.slot("key"):
                seen.append("entered")
        except Denied as denied:
            seen.append(denied.decision.remaining)
    return [*seen, outer.held, limiter.peek("key").remaining]


async def hold_async(limiter: Limiter) -> list[object]:
    """
    The same with `async with`.
    """
    seen: list[object] = []
    async with limiter.slot("key") as outer, limiter.slot("key"):
        seen += [outer.held, (await limiter.peek_async("key")).allowed]
    return [*seen, outer.held, (await limiter.peek_async("key")).remaining]


def test_slots_are_held_alike(make: Make) -> None:
    """
    And given back.
    """
    expected, actual = both("2 concurrent", make, hold)

    assert [True, False, 0, False, 2] == expected == actual


async def test_slots_are_held_alike_by_tasks(make: Make) -> None:
    """
    And given back.
    """
    assert [True, False, False, 2] == await hold_async(Limiter("2 concurrent")) == await hold_async(make("2 concurrent"))


def test_waits_end_alike(make: Make) -> None:
    """
    Admitted after a while, or denied at once because it takes too long.
    """

    def wait(limiter: Limiter) -> bool:
        limiter.check("key")
        return limiter.wait("key").allowed

    def wait_in_vain(limiter: Limiter) -> list[bool]:
        limiter.check("key")
        return [limiter.wait("key", timeout=0.01).allowed, limiter.wait("key", 5).allowed]

    assert (True, True) == both("1/200ms", make, wait)
    assert ([False, False], [False, False]) == both("1/hour", make, wait_in_vain)


async def test_waits_end_alike_in_tasks(make: Make) -> None:
    """
    Each waiter is admitted in the end.
    """
    for limiter in (Limiter("2/100ms"), make("2/100ms")):
        said = await asyncio.gather(*(limiter.wait_async("key") for _ in range(6)))

        assert [True] * 6 == [decision.allowed for decision in said]


def test_headers_are_alike(make: Make) -> None:
    """
    Clients do not see where the counters are.
    """

    def act(limiter: Limiter) -> list[dict[str, str]]:
        return [limiter.check("key", 2).headers() for _ in range(3)]

    expected, actual = both("5/day fixed_window; 50/day burst 50", make, act)
    assert isinstance(expected, list)
    assert isinstance(actual, list)

    assert [sorted(one) for one in expected] == [sorted(one) for one in actual]
    assert [one["RateLimit-Policy"] for one in expected] == [one["RateLimit-Policy"] for one in actual]


@pytest.mark.parametrize(
    ("first", "second", "transition", "left"),
    [
        ("5/day", "8/day", "safe", 5),
        ("8/day", "5/day", "safe", 2),
        ("5/day", "8/hour", "safe", 5),
        ("5/day", "8/hour", "immediate", 8),
        ("5/day", "5/day fixed_window", "safe", 2),
        ("5/day", "8/day, 4/hour", "safe", 4),
    ],
)
def test_new_quotas_keep_what_was_counted_alike(first: str, second: str, transition: Any, left: int, make: Make) -> None:  # noqa: ANN401
    """
    Another limit keeps the counters; another window counts beside the old one for a while.
    """

    def act(limiter: Limiter) -> int | None:
        limiter.check("key", 3)
        limiter.load(second, transition=transition)
        return limiter.peek("key").remaining

    expected, actual = both(first, make, act)

    assert left == expected == actual
