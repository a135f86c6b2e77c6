"""
The exceptions: their tree, their words, and that they travel between processes.
"""

from __future__ import annotations

import copy
import pickle

import pytest

from tidegate import Limiter, errors
from tidegate.testing import ManualClock

PARENTS = {
    "ConfigError": "TidegateError",
    "QuotaError": "ConfigError",
    "RuleError": "ConfigError",
    "StoreError": "TidegateError",
    "StoreUnavailable": "StoreError",
    "StoreTimeout": "StoreError",
    "StoreProtocolError": "StoreError",
    "ServerError": "TidegateError",
    "StartupError": "ServerError",
    "ShutdownTimeout": "ServerError",
    "UsageError": "TidegateError",
    "Denied": "TidegateError",
}


def denied(quota: str, cost: int = 1) -> errors.Denied:
    """
    The denial of a quota that is used up.
    """
    limiter = Limiter(quota, clock=ManualClock())
    limiter.check("user:42")
    with pytest.raises(errors.Denied) as caught:
        limiter.check_or_raise("user:42", cost)
    return caught.value


@pytest.mark.parametrize(("name", "parent"), PARENTS.items(), ids=PARENTS)
def test_tree(name: str, parent: str) -> None:
    """Each exception is below the one that the drawing shows."""
    assert getattr(errors, name).__bases__[0] is getattr(errors, parent)


def test_usage_error_is_a_value_error() -> None:
    """Code that expects the built-in exception for wrong arguments finds it."""
    assert issubclass(errors.UsageError, ValueError)


@pytest.mark.parametrize(
    ("error", "is_transient"),
    [(errors.StoreUnavailable, True), (errors.StoreTimeout, True), (errors.StoreProtocolError, False), (errors.StoreError, False)],
)
def test_store_errors_say_whether_a_retry_can_help(error: type[errors.StoreError], is_transient: bool) -> None:
    """The flag is known without an instance, and on one."""
    assert is_transient is error.is_transient
    assert is_transient is error("store away").is_transient


@pytest.mark.parametrize(
    ("quota", "cost", "message"),
    [
        pytest.param("1/minute", 1, "denied by 1/minute: retry after 60.0 s", id="wait"),
        pytest.param("3/s burst 1", 1, "denied by 3/second burst 1: retry after 0.334 s", id="rounded-up"),
        pytest.param("5/minute", 9, "never: cost 9 is above the capacity 5", id="never"),
        pytest.param("0/minute", 1, "never: cost 1 is above the capacity 0", id="limit-0"),
        pytest.param("1 concurrent", 1, "denied by 1 concurrent: room within 60.0 s", id="slots"),
    ],
)
def test_denied_says_why_and_until_when(quota: str, cost: int, message: str) -> None:
    """The sentence names the quota and a wait that is not too short."""
    assert message == str(denied(quota, cost))


def test_denied_carries_the_decision() -> None:
    """Handlers find everything that `check` would have answered."""
    error = denied("1/minute")

    assert not error.decision.allowed
    assert error.retry_after == error.decision.retry_after == 60.0


@pytest.mark.parametrize("name", sorted(PARENTS.keys() - {"QuotaError", "Denied"}))
def test_pickle_keeps_class_and_message(name: str) -> None:
    """Exceptions come home from a pool of processes."""
    restored = pickle.loads(pickle.dumps(getattr(errors, name)("what broke")))

    assert name == type(restored).__name__
    assert "what broke" == str(restored)


def test_pickle_keeps_the_parts_of_a_quota_error() -> None:
    """Code, hint, text and place are still there."""
    error = errors.QuotaError("no", code="quota-syntax", hint="do", text="1/x", span=(2, 3))

    restored = pickle.loads(pickle.dumps(error))

    assert error.__dict__ == restored.__dict__
    assert error.__dict__ == copy.copy(error).__dict__
    assert str(error) == str(restored)


def test_pickle_keeps_all_of_a_denial_but_the_receipt() -> None:
    """The decision is a receipt of another process's counters, so it stays there."""
    error = denied("1/minute")

    restored = pickle.loads(pickle.dumps(error))

    assert (str(error), error.retry_after) == (str(restored), restored.retry_after)
    with pytest.raises(errors.UsageError, match="stayed in the process"):
        _ = restored.decision
