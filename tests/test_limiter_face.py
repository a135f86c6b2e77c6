"""
What `Limiter` adds in Python: its constructor, its async faces, `load`, and how it ends.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tidegate import Limiter, Quota
from tidegate.errors import ConfigError, Denied, QuotaError, UsageError

if TYPE_CHECKING:
    from tidegate.quota import Quotas
    from tidegate.testing import ManualClock


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        pytest.param({"store": "redis://user:secret@host:port"}, ConfigError, "port", id="redis"),
        pytest.param({"store": "memory"}, ConfigError, "no address", id="no-scheme"),
        pytest.param({"store": "memory://host"}, ConfigError, "takes no address", id="memory-host"),
        pytest.param({"store": None}, UsageError, "not NoneType", id="store-none"),
        pytest.param({"max_keys": 0}, UsageError, "from 1 up", id="max-keys-0"),
        pytest.param({"max_keys": -1}, UsageError, "from 1 up", id="max-keys-negative"),
        pytest.param({"max_keys": True}, UsageError, "from 1 up", id="max-keys-bool"),
        pytest.param({"max_keys": 1e6}, UsageError, "from 1 up", id="max-keys-float"),
        pytest.param({"max_keys": 10**5000}, UsageError, "from 1 up", id="max-keys-huge"),
        pytest.param({"clock": 5}, UsageError, "ManualClock", id="clock"),
        pytest.param({"on_store_error": "explode"}, UsageError, "'local', 'allow' or 'deny'", id="on-store-error"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[Exception], words: str) -> None:
    """Each with its own sentence, and never with a secret in it."""
    with pytest.raises(error, match=words) as caught:
        Limiter("5/minute", **options)

    assert "secret" not in str(caught.value)


def test_repr_and_quotas_show_what_is_in_force() -> None:
    """In the order in which they were given."""
    limiter = Limiter(["10/s", Quota(200, 60)])

    assert "Limiter('10/second, 200/minute')" == repr(limiter)
    assert (Quota(10, 1), Quota(200, 60)) == limiter.quotas


def test_load_replaces_the_quotas_and_keeps_the_usage(clock: ManualClock) -> None:
    """Every form that the constructor takes, and a new generation each time."""
    limiter = Limiter("5/minute", clock=clock)
    limiter.check("k", 3)

    assert [2, 3] == [limiter.load("10/minute"), limiter.load([Quota(4, 60)], transition="immediate")]
    assert (Quota(4, 60),) == limiter.quotas
    assert 3 == limiter.check("k").generation
    assert 0 == limiter.peek("k").remaining


def test_load_refuses_a_wrong_quota_and_keeps_the_old_ones() -> None:
    """A bad edit changes nothing."""
    limiter = Limiter("5/minute")

    wrongs: list[Quotas] = ["5/minuet", [], "5/day calendar Europe/Nowhere"]
    for wrong in wrongs:
        with pytest.raises(QuotaError):
            limiter.load(wrong)
    with pytest.raises(UsageError):
        limiter.load("6/minute", transition="later")  # type: ignore[arg-type]
    assert (Quota(5, 60),) == limiter.quotas
    assert 1 == limiter.stats().generation


def test_concurrent_loads_leave_one_truth() -> None:
    """`quotas` shows what decides, whoever came last."""
    limiter = Limiter("1/minute")

    def load(limit: int) -> None:
        for _ in range(50):
            limiter.load(Quota(limit, 60))

    threads = [threading.Thread(target=load, args=(limit,)) for limit in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 401 == limiter.stats().generation
    assert limiter.quotas[0].limit == limiter.peek("k").limit


def test_check_or_raise(clock: ManualClock) -> None:
    """A decision, or the denial as an exception."""
    limiter = Limiter("1/minute", clock=clock)

    assert limiter.check_or_raise("k").allowed
    with pytest.raises(Denied):
        limiter.check_or_raise("k")


async def test_async_faces_are_the_same_limiter(clock: ManualClock) -> None:
    """Each does what its namesake does, on the same counters."""
    limiter = Limiter("10/minute, 3 concurrent", clock=clock)

    decision = await limiter.check_async("k", lease="a1")
    assert await limiter.renew_async("k", decision)
    assert await limiter.release_async("k", "a1")
    assert 1 == await limiter.refund_async("k", decision)
    assert (await limiter.check_or_raise_async("k")).allowed
    assert await limiter.allow_async("k")
    reserved = await limiter.reserve_async("other", 3)
    assert (await limiter.settle_async("other", reserved, 1)).allowed
    assert (await limiter.debit_async("other", 1)).allowed
    assert 8 == (await limiter.peek_async("k")).quotas[0].remaining == limiter.peek("k").quotas[0].remaining
    assert await limiter.reset_async("k")
    assert 10 == limiter.peek("k").quotas[0].remaining


def test_context_manager_closes() -> None:
    """After the block every call is a mistake that is told, but closing again."""
    with Limiter("5/minute") as limiter:
        assert limiter.allow("k")

    assert limiter.closed
    limiter.close()
    for call in (limiter.check, limiter.allow, limiter.peek, limiter.wait, limiter.check_or_raise, limiter.reset):
        with pytest.raises(UsageError, match="closed"):
            call("k")
    with pytest.raises(UsageError, match="closed"):
        limiter.load("6/minute")


def test_subclasses_are_limiters() -> None:
    """Users may add to it."""

    class Named(Limiter):
        name = "api"

    limiter = Named("5/minute")
    limiter.name = "other"

    assert limiter.allow("k")
    assert "other" == limiter.name
