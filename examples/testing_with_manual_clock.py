"""
Tests of rate-limited code that neither sleep nor depend on the time of day.
"""

from tidegate import Limiter
from tidegate.testing import ManualClock


class Login:
    """
    The code under test. It takes its limiter, so that a test can bring one of its own.
    """

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    def attempt(self, user: str, password: str) -> str:
        decision = self._limiter.check(user)
        if not decision:
            return f"locked for {decision.retry_after:g} s"
        return "welcome" if password == "correct horse" else "wrong password"


def test_five_wrong_passwords_lock_for_the_rest_of_the_window() -> None:
    clock = ManualClock()
    login = Login(Limiter("5/minute", clock=clock))
    for _ in range(5):
        assert login.attempt("ann", "guess") == "wrong password"

    clock.advance(20)
    assert login.attempt("ann", "correct horse") == "locked for 40 s"

    # The promise is exact from both sides.
    clock.advance_ns(40_000_000_000 - 1)
    assert login.attempt("ann", "correct horse").startswith("locked")
    clock.advance_ns(1)
    assert login.attempt("ann", "correct horse") == "welcome"


test_five_wrong_passwords_lock_for_the_rest_of_the_window()
print("passed, without a sleep")
