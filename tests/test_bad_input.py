"""
Bad input gets a clear error that says what to do, and nothing is lost: the counters are as they were.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tidegate import Limiter, Quota
from tidegate.errors import ConfigError, QuotaError, TidegateError, UsageError
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidegate import Decision

KEY = "key"


@dataclass(frozen=True)
class Number:
    """
    Somebody else's whole number.
    """

    value: int

    def __index__(self) -> int:
        return self.value


class Unprintable:
    """
    A value that cannot even be shown.
    """

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def seen(limiter: Limiter) -> tuple[object, ...]:
    """
    Everything that a caller can see of the counters.
    """
    decision, stats = limiter.peek(KEY, 0), limiter.stats()
    return decision.remaining, decision.reset_after_ns, stats.keys, stats.allowed, stats.denied, stats.generation


@pytest.fixture
def limiter(clock: ManualClock) -> Iterator[Limiter]:
    """
    A limiter with something in use, which must be as it was when the test is over.
    """
    limiter = Limiter("5/minute", clock=clock)
    limiter.check(KEY, 2)
    clock.advance(1)
    before = seen(limiter)
    yield limiter
    assert before == seen(limiter)


@pytest.fixture
def slots(clock: ManualClock) -> Iterator[Limiter]:
    """
    The same with slots.
    """
    limiter = Limiter("3 concurrent", clock=clock)
    limiter.check(KEY, lease="0a")
    before = seen(limiter)
    yield limiter
    assert before == seen(limiter)


# --- Costs ------------------------------------------------------------------------------------------------------------------------------

CALLS_WITH_A_COST: dict[str, Callable[[Limiter, Any], object]] = {
    "check": lambda limiter, cost: limiter.check(KEY, cost),
    "allow": lambda limiter, cost: limiter.allow(KEY, cost),
    "peek": lambda limiter, cost: limiter.peek(KEY, cost),
    "debit": lambda limiter, cost: limiter.debit(KEY, cost),
    "reserve": lambda limiter, cost: limiter.reserve(KEY, cost),
    "check_or_raise": lambda limiter, cost: limiter.check_or_raise(KEY, cost),
    "wait": lambda limiter, cost: limiter.wait(KEY, cost, timeout=0),
}
WRONG_COSTS = {
    "negative": -1,
    "very-negative": -(2**70),
    "above-2-to-the-53": 2**53 + 1,
    "2-to-the-64": 2**64,
    "astronomic": 10**5000,
    "whole-float": 1.0,
    "fraction": 1.5,
    "nan": math.nan,
    "text": "1",
    "bytes": b"1",
    "list": [1],
    "unprintable": Unprintable(),
}


@pytest.mark.parametrize("call", CALLS_WITH_A_COST.values(), ids=CALLS_WITH_A_COST)
@pytest.mark.parametrize("cost", WRONG_COSTS.values(), ids=WRONG_COSTS)
def test_a_wrong_cost_is_refused_with_the_range(limiter: Limiter, call: Callable[[Limiter, Any], object], cost: object) -> None:
    """
    Every call says from where to where a cost may be.
    """
    with pytest.raises(UsageError, match=r"(from 0 to 2\*\*53|at most 9007199254740992)"):
        call(limiter, cost)


def test_the_error_shows_the_cost_but_not_all_of_it(limiter: Limiter) -> None:
    """
    The message names the value, shortened so that a client cannot fill a log with it.
    """
    with pytest.raises(UsageError) as caught:
        limiter.check(KEY, "x" * 10_000)  # type: ignore[arg-type]  # the point

    assert "xxx" in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_wrong_cost_of_a_refund_leaves_the_receipt_good(clock: ManualClock) -> None:
    """
    After a refused refund or settlement the same decision can still be refunded.
    """
    limiter = Limiter("5/minute", clock=clock)
    decision = limiter.check(KEY, 3)
    wrong: list[Any] = [-1, 2**64, 1.5, "1"]
    for cost in [*wrong, 4]:
        with pytest.raises(UsageError):
            limiter.refund(KEY, decision, cost)
    for cost in [*wrong, None]:
        with pytest.raises(UsageError):
            limiter.settle(KEY, decision, cost)

    assert limiter.peek(KEY).remaining == 2
    assert limiter.refund(KEY, decision) == 3
    assert limiter.peek(KEY).remaining == 5


def test_a_cost_of_0_asks_without_taking(limiter: Limiter) -> None:
    """
    Zero is a legal cost: an answer, and no charge.
    """
    assert limiter.check(KEY, 0).remaining == 3
    assert limiter.allow(KEY, 0)
    assert limiter.debit(KEY, 0).remaining == 3


def test_the_largest_cost_is_answered_with_never(clock: ManualClock) -> None:
    """
    2**53 is a legal cost; here it is above the capacity, which is an answer and not an error.
    """
    decision = Limiter("5/minute", clock=clock).check(KEY, 2**53)

    assert (False, None) == (decision.allowed, decision.retry_after)
    assert "never" in repr(decision)


def test_a_whole_number_of_another_library_is_a_cost(clock: ManualClock) -> None:
    """
    What has `__index__` is a whole number, as everywhere in Python.
    """
    limiter: Any = Limiter("5/minute", clock=clock)

    assert limiter.check(KEY, Number(2)).remaining == 3
    with pytest.raises(UsageError):
        limiter.check(KEY, Number(-1))


# --- Keys -------------------------------------------------------------------------------------------------------------------------------

CALLS_WITH_A_KEY: dict[str, Callable[[Limiter, Any], object]] = {
    "check": lambda limiter, key: limiter.check(key),
    "allow": lambda limiter, key: limiter.allow(key),
    "peek": lambda limiter, key: limiter.peek(key),
    "debit": lambda limiter, key: limiter.debit(key, 1),
    "reserve": lambda limiter, key: limiter.reserve(key, 1),
    "reset": lambda limiter, key: limiter.reset(key),
    "renew": lambda limiter, key: limiter.renew(key, "0a"),
    "release": lambda limiter, key: limiter.release(key, "0a"),
    "wait": lambda limiter, key: limiter.wait(key, timeout=0),
}


@pytest.mark.parametrize("call", CALLS_WITH_A_KEY.values(), ids=CALLS_WITH_A_KEY)
@pytest.mark.parametrize("key", ["", b""], ids=["text", "bytes"])
def test_an_empty_key_is_refused(limiter: Limiter, call: Callable[[Limiter, Any], object], key: object) -> None:
    """
    Nobody to count is a mistake, and the message says how to count everybody.
    """
    with pytest.raises(UsageError, match="the key is empty; name who is counted, or use one fixed word to count everybody"):
        call(limiter, key)


@pytest.mark.parametrize("call", CALLS_WITH_A_KEY.values(), ids=CALLS_WITH_A_KEY)
@pytest.mark.parametrize("key", [None, 42, 1.5, ["a"], bytearray(b"a"), object()], ids=lambda key: type(key).__name__)
def test_a_key_that_is_no_text_is_refused(limiter: Limiter, call: Callable[[Limiter, Any], object], key: object) -> None:
    """
    The message says what a key must be, and what was given.
    """
    with pytest.raises(UsageError, match=f"a key must be str or bytes, not {type(key).__name__}"):
        call(limiter, key)


STRANGE_KEYS = {
    "a-megabyte": "x" * 1_000_000,
    "nul": "a\0b",
    "only-nul": "\0",
    "surrogate": "a\ud800b",
    "emoji": "🦀" * 10,
    "bytes": b"\xff\xfe",
    "spaces": "   ",
    "newline": "a\nb",
}


@pytest.mark.parametrize("key", STRANGE_KEYS.values(), ids=STRANGE_KEYS)
def test_a_strange_key_is_still_a_key(key: str | bytes, clock: ManualClock) -> None:
    """
    A client must not be able to cause an error, or to escape the limit, with the name it gives.
    """
    limiter = Limiter("2/minute", clock=clock)

    assert [True, True, False] == [limiter.allow(key) for _ in range(3)]
    assert limiter.reset(key)


def test_keys_that_look_alike_are_counted_apart(clock: ManualClock) -> None:
    """
    What differs in one byte, at the end of a megabyte or after a NUL, is another key.
    """
    limiter = Limiter("1/minute", clock=clock)
    keys: list[str | bytes] = [
        "a",
        "a\0",
        "a\0b",
        "a\0c",
        "A",
        "a ",
        "é",
        "e\u0301",
        "\ud800",
        "\udfff",
        "x" * 10**6,
        "x" * (10**6 - 1) + "y",
    ]

    assert all(limiter.allow(key) for key in keys)
    assert not any(limiter.allow(key) for key in keys)


def test_text_and_its_utf_8_bytes_are_one_key(clock: ManualClock) -> None:
    """
    A key from a header and the same key as text are counted together.
    """
    limiter = Limiter("1/minute", clock=clock)

    assert limiter.allow("münchen")
    assert not limiter.allow("münchen".encode())


def test_a_missing_argument_is_a_type_error(limiter: Limiter) -> None:
    """
    As for any Python function.
    """
    incomplete: Any = limiter
    for call in (incomplete.check, incomplete.allow, incomplete.peek, incomplete.reset):
        with pytest.raises(TypeError, match="key"):
            call()


# --- Quotas -----------------------------------------------------------------------------------------------------------------------------

LEGAL_LIMITS = {"0": 0, "1": 1, "2-to-the-53": 2**53}


@pytest.mark.parametrize("limit", LEGAL_LIMITS.values(), ids=LEGAL_LIMITS)
@pytest.mark.parametrize("suffix", ["", "sliding_window_counter", "sliding_window_counter buckets 60", "fixed_window"])
def test_limits_up_to_2_to_the_53_are_kept_exactly(limit: int, suffix: str, clock: ManualClock) -> None:
    """
    The smallest and the largest limits admit exactly that much.
    """
    limiter = Limiter(f"{limit}/minute {suffix}", clock=clock)

    assert limit == limiter.peek(KEY).limit
    assert (limit > 0) == limiter.check(KEY, max(limit, 1)).allowed
    assert not limiter.allow(KEY)


WRONG_LIMITS = {
    "above-2-to-the-53": (2**53 + 1, r"limit \d+ is above 9007199254740992.*\n(.*\n)*hint: write at most 9007199254740992"),
    "2-to-the-64": (2**64, r"(?s)(does not fit 64 bits|above 2\*\*53).*hint: .*unlimited"),
    "negative": (-1, r"(?s)(below zero|negative).*hint: .*0 (refuses|denies) everything"),
    "fraction": (1.5, r"(?s)(not a|no) whole number.*hint: write"),
}


@pytest.mark.parametrize(("limit", "message"), WRONG_LIMITS.values(), ids=WRONG_LIMITS)
def test_a_wrong_limit_is_refused_with_a_hint(limit: object, message: str) -> None:
    """
    The text form and the object form say what is wrong and what to write.
    """
    for make in (lambda: Limiter(f"{limit}/minute"), lambda: Quota(limit, 60)):  # type: ignore[arg-type]  # the point
        with pytest.raises(QuotaError, match=message) as caught:
            make()
        assert caught.value.hint


@pytest.mark.parametrize("period", ["1us", "1s", "36500d"])
@pytest.mark.parametrize("suffix", ["", "sliding_window_log", "sliding_window_counter", "fixed_window", "gcra", "leaky_bucket"])
def test_the_shortest_and_the_longest_windows_work(period: str, suffix: str, clock: ManualClock) -> None:
    """
    At both ends of what is possible a limit of 1 admits one, and the wait is true.
    """
    limiter = Limiter(f"1/{period} {suffix}", clock=clock)
    limiter.check(KEY)
    wait = limiter.check(KEY).retry_after_ns

    assert wait is not None
    clock.advance_ns(wait - 1)
    assert not limiter.allow(KEY)
    clock.advance_ns(1)
    assert limiter.allow(KEY)


WRONG_PERIODS = {
    "zero": ("0s", 0, "the period is zero", "at least 1us"),
    "a-nanosecond": ("1ns", 1e-9, "shorter than 1us", "scale limit and period up"),
    "too-long": ("36501d", 36_501 * 86_400, "long", "(shorter period|36500 days)"),
    "2-to-the-53-seconds": (f"{2**53}s", 2**53, "long", "(shorter|36500 days)"),
    "2-to-the-64-seconds": (f"{2**64}s", 2**64, "(64 bits|long)", "(smaller|36500 days)"),
    "unknown-unit": ("fortnight", "fortnight", "(unknown unit|no duration)", "(units are|10s)"),
    "missing": ("", "", "(missing|no duration|unknown)", "(write|units)"),
}


@pytest.mark.parametrize(("text", "value", "message", "hint"), WRONG_PERIODS.values(), ids=WRONG_PERIODS)
def test_a_wrong_period_is_refused_with_a_hint(text: str, value: object, message: str, hint: str) -> None:
    """
    The text form and the object form say what is wrong and what to write.
    """
    for make in (lambda: Limiter(f"5/{text}"), lambda: Quota(5, value)):  # type: ignore[arg-type]  # the point
        with pytest.raises(QuotaError, match=message) as caught:
            make()
        assert re.search(hint, caught.value.hint or "")


OVERFLOWING = {
    "too-slow-to-fill": "1/36500d burst 2",
    "debt-too-slow": "10/30000d gcra max_debt 3",
    "queue-too-long": "1/day queue 36500d",
    "cost-too-slow": "1/day queue 36000d max_cost 501",
    "rate-too-fine": "4294967297/s gcra",
    "burst-too-large": f"1/s burst {2**53 + 1}",
    "debt-too-large": f"5/minute max_debt {2**53 + 1}",
    "log-too-large": "1000001/minute sliding_window_log",
    "too-many-slots": "100001 concurrent",
    "too-many-entries": "5/minute entries 1025",
    "too-many-buckets": "5/minute sliding_window_counter buckets 1025",
    "lease-too-long": "5 concurrent ttl 25h",
    "lease-too-short": "5 concurrent ttl 1us",
}


@pytest.mark.parametrize("text", OVERFLOWING.values(), ids=OVERFLOWING)
def test_a_quota_that_would_overflow_is_refused_at_construction(text: str) -> None:
    """
    What could not be counted exactly is no quota: it is refused before the first decision, and the hint says what to change.
    """
    with pytest.raises(QuotaError, match="invalid quota") as caught:
        Limiter(text)

    assert caught.value.code
    assert caught.value.hint
    assert caught.value.hint in str(caught.value)


@pytest.mark.parametrize("text", ["5/minute tokens", "5/minute gcraa", "5/minute GCRA2"])
def test_an_unknown_algorithm_in_a_text_is_shown_at_its_place(text: str) -> None:
    """
    The error points to the word and shows correct quotas.
    """
    with pytest.raises(QuotaError, match=r"unknown (word|algorithm)") as caught:
        Limiter(text)

    word = text.rsplit(maxsplit=1)[-1]
    assert (text, (9, 9 + len(word))) == (caught.value.text, caught.value.span)
    assert "correct examples: 100/minute" in str(caught.value)


def test_an_unknown_algorithm_in_an_object_lists_the_known_ones() -> None:
    """
    The error of the object form names the algorithms, all of them.
    """
    with pytest.raises(QuotaError, match="tokens") as caught:
        Limiter({"limit": 5, "period": 60, "algorithm": "tokens"})

    assert caught.value.code == "unknown-algorithm"
    for name in ("sliding_window", "sliding_window_log", "sliding_window_counter", "fixed_window", "gcra", "leaky_bucket", "concurrency"):
        assert name in str(caught.value)


NO_QUOTAS = {
    "none": (None, "a text, a Quota, a mapping or a sequence"),
    "number": (5, "a text, a Quota, a mapping or a sequence"),
    "bytes": (b"5/minute", "a text, a Quota, a mapping or a sequence"),
    "empty-list": ([], "write a quota such as"),
    "empty-text": ("", "hint: write a quota"),
    "nested": ([["5/minute"]], "texts, Quota or mappings, not list"),
    "unknown-parameter": ({"limit": 5, "window": 60}, "unknown parameter 'window'\nhint: known are"),
    "too-many": (["5/minute"] * 65, "at most 64 are possible\nhint: use several limiters"),
    "unknown-zone": ("5/day calendar Europe/Atlantis", 'unknown time zone "Europe/Atlantis"\nhint: use an IANA name such as Europe/Berlin'),
    "separator": ("5/minute,,6/hour", "hint: remove the separator"),
}


@pytest.mark.parametrize(("quotas", "message"), NO_QUOTAS.values(), ids=NO_QUOTAS)
def test_what_is_no_quota_is_refused_and_the_old_ones_stay(limiter: Limiter, quotas: Any, message: str) -> None:  # noqa: ANN401  # the point
    """
    Neither a new limiter nor `load` accepts it, the message says what to write, and `load` changes nothing.
    """
    with pytest.raises(TidegateError, match=message):
        Limiter(quotas)
    with pytest.raises(TidegateError, match=message):
        limiter.load(quotas)

    assert limiter.quotas == (Quota(5, 60),)


@pytest.mark.parametrize("transition", ["soon", "", "SAFE"])
def test_an_unknown_transition_is_refused(limiter: Limiter, transition: Any) -> None:  # noqa: ANN401  # the point
    """
    The message names the two that exist.
    """
    with pytest.raises(UsageError, match="transition must be 'safe' or 'immediate'"):
        limiter.load("9/minute", transition=transition)

    assert limiter.quotas == (Quota(5, 60),)


OPTIONS = {
    "max-keys-0": ({"max_keys": 0}, UsageError, "max_keys is a whole number from 1 up"),
    "max-keys-negative": ({"max_keys": -1}, UsageError, "max_keys is a whole number from 1 up"),
    "max-keys-fraction": ({"max_keys": 1.5}, UsageError, "max_keys is a whole number from 1 up"),
    "max-keys-2-to-the-64": ({"max_keys": 2**64}, UsageError, "max_keys is a whole number from 1 up"),
    "clock": ({"clock": object()}, UsageError, "the clock is a ManualClock, not object"),
    "policy": ({"on_store_error": "maybe"}, UsageError, "on_store_error must be 'local', 'allow' or 'deny'"),
    "store": (
        {"store": "memcached://user:hunter2@host"},
        ConfigError,
        "the store memcached:// is not known: write memory://, or one of redis://",
    ),
    "store-address": ({"store": "redis://user:hunter2@host:port"}, ConfigError, "port"),
    "store-clock": ({"store": "redis://host", "clock": ManualClock()}, UsageError, "works with memory:// only"),
    "budget": ({"budget": 0}, UsageError, "a number of seconds above 0"),
    "budget-infinite": ({"budget": float("nan")}, UsageError, "a number of seconds above 0"),
    "secret": ({"secret": 5}, UsageError, "a text or bytes, not int"),
    "deny-cache": ({"deny_cache": -1}, UsageError, "from 0 to"),
    "instances": ({"instances": 0}, UsageError, "from 1 up"),
    "unknown": ({"stroe": "memory://"}, TypeError, "unknown option 'stroe'"),
    "store-no-address": ({"store": "memory"}, ConfigError, "write memory://"),
    "store-with-address": ({"store": "memory://here"}, ConfigError, "the memory store takes no address: write memory://"),
    "store-type": ({"store": 5}, UsageError, "the store is a text such as memory:// or redis://localhost, not int"),
}


@pytest.mark.parametrize(("options", "error", "message"), OPTIONS.values(), ids=OPTIONS)
def test_a_wrong_option_is_refused(options: dict[str, Any], error: type[TidegateError], message: str) -> None:
    """
    Each option says what it takes, and no message shows a password.
    """
    with pytest.raises(error, match=message) as caught:
        Limiter("5/minute", **options)

    assert "hunter2" not in str(caught.value)


# --- Receipts ---------------------------------------------------------------------------------------------------------------------------

NO_RECEIPTS: dict[str, tuple[Callable[[Limiter], Decision], str]] = {
    "denial": (lambda limiter: limiter.check(KEY, 6), "took nothing that could be given back: it was denied"),
    "peek": (lambda limiter: limiter.peek(KEY), "took nothing that could be given back: it was a peek"),
    "debit": (lambda limiter: limiter.debit(KEY, 0), "took nothing that could be given back: it was a debit, which is final"),
    "cost-0": (lambda limiter: limiter.check(KEY, 0), "took nothing that could be given back: it was a check with cost 0"),
}


@pytest.mark.parametrize(("ask", "message"), NO_RECEIPTS.values(), ids=NO_RECEIPTS)
def test_what_took_nothing_is_no_receipt(ask: Callable[[Limiter], Decision], message: str, clock: ManualClock) -> None:
    """
    The message says why there is nothing to give back.
    """
    limiter = Limiter("5/minute", clock=clock)
    limiter.check(KEY, 2)
    decision = ask(limiter)
    before = seen(limiter)

    with pytest.raises(UsageError, match=message):
        limiter.refund(KEY, decision)
    with pytest.raises(UsageError, match=message):
        limiter.settle(KEY, decision, 1)

    assert before == seen(limiter)


def test_a_receipt_is_good_once(clock: ManualClock) -> None:
    """
    What was given back, or settled, cannot be given back again; the message says how much is left.
    """
    limiter = Limiter("5/minute", clock=clock)
    refunded, settled, halved = limiter.check(KEY, 1), limiter.check(KEY, 1), limiter.check(KEY, 2)
    limiter.refund(KEY, refunded)
    limiter.settle(KEY, settled, 1)
    limiter.refund(KEY, halved, 1)
    before = seen(limiter)

    for decision in (refunded, settled):
        with pytest.raises(UsageError, match="only 0 of the 1 units that the decision took can still be given back"):
            limiter.refund(KEY, decision)
        with pytest.raises(UsageError, match="refunded or settled once"):
            limiter.settle(KEY, decision, 1)
    with pytest.raises(UsageError, match="only 1 of the 2 units"):
        limiter.refund(KEY, halved, 2)

    assert before == seen(limiter)
    assert limiter.refund(KEY, halved) == 1


def test_more_than_was_taken_cannot_be_given_back(clock: ManualClock) -> None:
    """
    A refund above the cost is refused as a whole, and the message says how much there is.
    """
    limiter = Limiter("5/minute", clock=clock)
    decision = limiter.check(KEY, 2)

    with pytest.raises(UsageError, match="only 2 of the 2 units"):
        limiter.refund(KEY, decision, 3)

    assert limiter.refund(KEY, decision) == 2


def test_a_receipt_belongs_to_its_key(clock: ManualClock) -> None:
    """
    Another key cannot be refunded with it, and it stays good for its own.
    """
    limiter = Limiter("5/minute", clock=clock)
    decision = limiter.check(KEY)
    limiter.check("other")
    for refuse in (lambda: limiter.refund("other", decision), lambda: limiter.settle("other", decision, 1)):
        with pytest.raises(UsageError, match="the decision was made for another key"):
            refuse()

    assert limiter.peek("other").remaining == 4
    assert limiter.refund(KEY, decision) == 1


def test_a_receipt_belongs_to_its_limiter(limiter: Limiter, clock: ManualClock) -> None:
    """
    Another limiter does not take it, even one with the same quotas and the same key.
    """
    twin = Limiter("5/minute", clock=clock)
    decision = twin.check(KEY)

    with pytest.raises(UsageError, match="the decision was made by another limiter"):
        limiter.refund(KEY, decision)
    with pytest.raises(UsageError, match="the decision was made by another limiter"):
        limiter.settle(KEY, decision, 1)

    assert twin.refund(KEY, decision) == 1


@pytest.mark.parametrize("decision", [None, "decision", 1, object()], ids=lambda value: type(value).__name__)
def test_only_a_decision_is_a_receipt(limiter: Limiter, decision: Any) -> None:  # noqa: ANN401  # the point
    """
    Anything else is a mistake that names `Decision`.
    """
    with pytest.raises((TypeError, UsageError), match=r"[dD]ecision"):
        limiter.refund(KEY, decision)
    with pytest.raises((TypeError, UsageError), match=r"[dD]ecision"):
        limiter.settle(KEY, decision, 1)


def test_decisions_cannot_be_forged() -> None:
    """
    A receipt is made by a limiter and by nobody else.
    """
    from tidegate import Decision  # noqa: PLC0415  # only this test needs the class itself

    with pytest.raises(TypeError, match="Decision"):
        Decision()


# --- Leases -----------------------------------------------------------------------------------------------------------------------------

MALFORMED_LEASES = ["", "xyz", "0" * 33, "0x1", "-1", "+1", " 1", "1 ", "é", "0a\0", "g" * 32]


@pytest.mark.parametrize("lease", MALFORMED_LEASES, ids=ascii)
def test_a_malformed_lease_is_refused(slots: Limiter, lease: str) -> None:
    """
    The message says what an id looks like and how to make one.
    """
    for call in (lambda: slots.check(KEY, lease=lease), lambda: slots.renew(KEY, lease), lambda: slots.release(KEY, lease)):
        with pytest.raises(UsageError, match=r"1 to 32 hexadecimal digits, such as secrets.token_hex\(16\) makes"):
            call()


@pytest.mark.parametrize("lease", [None, 5, b"0a", ["0a"]], ids=lambda lease: type(lease).__name__)
def test_a_lease_that_is_no_text_is_refused(slots: Limiter, lease: Any) -> None:  # noqa: ANN401  # the point
    """
    The message says what a lease is.
    """
    for call in (slots.renew, slots.release):
        with pytest.raises(UsageError, match="a lease must be a text of hexadecimal digits or the decision that took it"):
            call(KEY, lease)


@pytest.mark.parametrize("lease", [5, b"0a", ["0a"], "\ud800"], ids=ascii)
def test_a_check_with_a_wrong_lease_is_refused(slots: Limiter, lease: Any) -> None:  # noqa: ANN401  # the point
    """
    `check` says the same of a lease as `renew` and `release` do.
    """
    with pytest.raises(UsageError, match="hexadecimal digits"):
        slots.check(KEY, lease=lease)


def test_an_unknown_lease_is_no_error(slots: Limiter) -> None:
    """
    To release or renew what was never held, or is not held any more, is answered with false.
    """
    assert not slots.release(KEY, "ff")
    assert not slots.renew(KEY, "ff")
    assert not slots.release("other", "0a")
    assert not slots.renew("other", "0a")


def test_a_lease_of_a_limiter_without_slots_is_unknown(limiter: Limiter) -> None:
    """
    Where there are no slots, none is held.
    """
    assert not limiter.release(KEY, "0a")
    assert not limiter.renew(KEY, "0a")


def test_a_decision_without_a_slot_cannot_be_released(slots: Limiter) -> None:
    """
    A peek took no slot, and the message says so.
    """
    decision = slots.peek(KEY)
    for call in (slots.release, slots.renew):
        with pytest.raises(UsageError, match="the decision holds no slot"):
            call(KEY, decision)


def test_a_window_has_no_slots_to_hold(limiter: Limiter) -> None:
    """
    `slot` says which quota it needs, and what to use for others.
    """
    with pytest.raises(UsageError, match=r'slots need a concurrent quota, such as Limiter\("20 concurrent"\); for other quotas use check'):
        limiter.slot(KEY)


# --- Clocks -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [math.inf, -math.inf, math.nan, 1e300], ids=str)
def test_a_clock_moves_by_a_finite_time(seconds: float, clock: ManualClock) -> None:
    """
    Anything else is refused, and the clock stays where it was.
    """
    before = clock.time_ns()

    with pytest.raises(UsageError, match="a clock moves by a finite number of seconds"):
        clock.advance(seconds)

    assert before == clock.time_ns()


@pytest.mark.parametrize("start", [-1, -math.inf, math.nan, math.inf], ids=str)
def test_a_clock_starts_at_a_real_time(start: float) -> None:
    """
    Not before the epoch, and not at infinity.
    """
    with pytest.raises(UsageError, match=r"(before the epoch|finite number of seconds)"):
        ManualClock(start)


@pytest.mark.parametrize(
    "quota", ["5/minute", "5/minute gcra", "5/minute fixed_window", "5/minute sliding_window_counter", "5/minute buckets 6"]
)
def test_a_clock_that_goes_backwards_is_no_error_and_grants_nothing(quota: str, clock: ManualClock) -> None:
    """
    Whether by a tick or to the epoch: the limit holds, and the wait stays that of a window or two.
    """
    quota = quota.replace("buckets", "sliding_window_counter buckets")
    limiter = Limiter(quota, clock=clock)
    limiter.check(KEY, 5)
    for back in (1, 10**9, 3_600 * 10**9, 10**19):
        clock.advance_ns(-min(back, 2**62))
        decision = limiter.check(KEY)

        assert not decision
        assert decision.retry_after is not None
        assert decision.retry_after <= 120


def test_a_clock_stops_at_both_ends_of_time(clock: ManualClock) -> None:
    """
    At the epoch and at the end of 63 bits decisions are still right.
    """
    limiter = Limiter("1/minute, 5/year calendar Europe/Berlin, 9/36500d fixed_window", clock=clock)
    for step in (-(2**62), -(2**62), 2**62, 2**62, 2**62):
        clock.advance_ns(step)
        limiter.reset(KEY)
        assert limiter.allow(KEY)
        assert not limiter.allow(KEY)


# --- Closing and shutting down ----------------------------------------------------------------------------------------------------------

CALLS_AFTER_CLOSE: dict[str, Callable[[Limiter, Decision], object]] = {
    "check": lambda limiter, _: limiter.check(KEY),
    "check_or_raise": lambda limiter, _: limiter.check_or_raise(KEY),
    "allow": lambda limiter, _: limiter.allow(KEY),
    "peek": lambda limiter, _: limiter.peek(KEY),
    "refund": lambda limiter, decision: limiter.refund(KEY, decision),
    "debit": lambda limiter, _: limiter.debit(KEY, 1),
    "reserve": lambda limiter, _: limiter.reserve(KEY, 1),
    "settle": lambda limiter, decision: limiter.settle(KEY, decision, 1),
    "renew": lambda limiter, decision: limiter.renew(KEY, decision),
    "release": lambda limiter, decision: limiter.release(KEY, decision),
    "reset": lambda limiter, _: limiter.reset(KEY),
    "stats": lambda limiter, _: limiter.stats(),
    "load": lambda limiter, _: limiter.load("6/minute"),
    "wait": lambda limiter, _: limiter.wait(KEY),
    "slot": lambda limiter, _: limiter.slot(KEY).__enter__(),
    "decorated": lambda limiter, _: limiter.limit()(lambda: None)(),
}


@pytest.mark.parametrize("call", CALLS_AFTER_CLOSE.values(), ids=CALLS_AFTER_CLOSE)
def test_a_closed_limiter_says_so(call: Callable[[Limiter, Decision], object], clock: ManualClock) -> None:
    """
    Every use after `close` is refused, and closing again is fine.
    """
    limiter = Limiter("5 concurrent", clock=clock)
    decision = limiter.check(KEY)
    limiter.close()

    with pytest.raises(UsageError, match="the limiter was closed"):
        call(limiter, decision)
    limiter.close()

    assert limiter.closed


def test_a_decision_outlives_its_limiter(clock: ManualClock) -> None:
    """
    What was answered can still be read after `close`.
    """
    limiter = Limiter("5/minute", clock=clock)
    decision = limiter.check(KEY)
    limiter.close()

    assert (True, 4) == (decision.allowed, decision.remaining)
    assert decision.headers()


SHUTDOWN = """
import threading
from tidegate import Limiter

limiter = Limiter("3 concurrent ttl 1s")
held = limiter.slot("held")
held.__enter__()
lease = limiter.check("leased")
threading.Thread(target=lambda: [limiter.allow("busy") for _ in range(1000)], daemon=True).start()
print("end")
"""


def test_an_interpreter_that_shuts_down_with_slots_held_ends_cleanly() -> None:
    """
    Slots that nobody gave back do not keep a program from ending, and nothing is printed about them.
    """
    done = subprocess.run([sys.executable, "-W", "error", "-c", SHUTDOWN], capture_output=True, text=True, timeout=30, check=False)

    assert (0, "end\n", "") == (done.returncode, done.stdout, done.stderr)
