"""
Decorated functions: checked before each call, blocking and async alike.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from tidegate import Limiter, limit
from tidegate.errors import Denied, QuotaError, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tidegate.testing import ManualClock

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def decorated(decorator: Decorator, *, is_async: bool) -> Callable[..., Any]:
    """
    A function that returns its argument, in one of the two styles, called without `await` in both.
    """
    if not is_async:

        @decorator
        def echo(value: str, *, size: int = 1) -> str:
            return f"{value} {size}"

        return echo

    @decorator
    async def echo_async(value: str, *, size: int = 1) -> str:
        return f"{value} {size}"

    return lambda *args, **kwargs: asyncio.run(echo_async(*args, **kwargs))


styles = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@styles
def test_calls_are_checked(is_async: bool, clock: ManualClock) -> None:
    """Calls pass until the quota is used up, then raise, and pass again later."""
    echo = decorated(limit("2/minute", clock=clock), is_async=is_async)

    assert ["a 1", "b 2"] == [echo("a"), echo("b", size=2)]
    with pytest.raises(Denied, match="retry after"):
        echo("c")
    clock.advance(60)
    assert "d 1" == echo("d")


@styles
def test_key_function_counts_callers_apart(is_async: bool, clock: ManualClock) -> None:
    """The key is made from the arguments of the call."""
    limiter = Limiter("1/minute", clock=clock)
    echo = decorated(limiter.limit(key=lambda value, **_: f"user:{value}"), is_async=is_async)

    assert ["ann 1", "bob 1"] == [echo("ann"), echo("bob")]
    with pytest.raises(Denied):
        echo("ann")
    assert not limiter.peek("user:ann").allowed


@styles
def test_cost_function_weighs_calls(is_async: bool, clock: ManualClock) -> None:
    """The cost is made from the arguments of the call."""
    limiter = Limiter("5/minute", clock=clock)
    echo = decorated(limiter.limit(key="k", cost=lambda _, size=1: size), is_async=is_async)

    echo("a", size=3)
    with pytest.raises(Denied):
        echo("b", size=3)
    echo("c", size=2)

    assert 0 == limiter.peek("k").remaining


def test_default_key_is_the_functions_name(clock: ManualClock) -> None:
    """Two functions behind one limiter do not share a key."""
    limiter = Limiter("1/minute", clock=clock)

    @limiter.limit()
    def one() -> None: ...

    @limiter.limit()
    def two() -> None: ...

    one()
    two()

    assert not limiter.peek(f"{__name__}.{one.__wrapped__.__qualname__}").allowed


@styles
def test_timeout_waits_first(is_async: bool, clock: ManualClock) -> None:
    """With a timeout a call waits for its turn, if that comes in time."""
    limiter = Limiter("1/minute", clock=clock)
    echo = decorated(limiter.limit(key="k", timeout=60), is_async=is_async)
    start = clock.time()

    echo("a")
    echo("b")

    assert 60.0 == clock.time() - start


@styles
def test_timeout_that_is_too_short_raises(is_async: bool, clock: ManualClock) -> None:
    """A wait that would be in vain is not begun."""
    limiter = Limiter("1/minute", clock=clock)
    echo = decorated(limiter.limit(key="k", timeout=59), is_async=is_async)
    start = clock.time()
    echo("a")

    with pytest.raises(Denied):
        echo("b")
    assert start == clock.time()


@styles
def test_queue_delays_the_call(is_async: bool, clock: ManualClock) -> None:
    """A `leaky_bucket` spaces calls, also without a timeout."""
    limiter = Limiter("1/second queue 5s", clock=clock)
    echo = decorated(limiter.limit(key="k"), is_async=is_async)
    start = clock.time()

    for _ in range(4):
        echo("a")

    assert 3.0 == clock.time() - start


@styles
def test_start_after_the_timeout_raises(is_async: bool, clock: ManualClock) -> None:
    """A queue that is too long for the timeout is a denial, and says how much too long."""
    limiter = Limiter("1/second queue 5s", clock=clock)
    echo = decorated(limiter.limit(key="k", timeout=0.25), is_async=is_async)
    echo("a")

    with pytest.raises(Denied, match=r"retry after 0\.75 s") as caught:
        echo("b")
    assert 0.75 == caught.value.retry_after


@styles
def test_concurrent_quota_is_held_while_the_function_runs(is_async: bool, clock: ManualClock) -> None:
    """A slot is taken for the call and given back after it, also when it fails."""
    limiter = Limiter("1 concurrent", clock=clock)
    held: list[bool] = []

    def cost(value: str, **_: int) -> int:
        return 1

    if is_async:

        @limiter.limit(key="k", cost=cost)
        async def run(value: str) -> float:
            held.append(not limiter.peek("k").allowed)
            return 1 / len(value)

        def call(value: str) -> float:
            return asyncio.run(run(value))
    else:

        @limiter.limit(key="k", cost=cost)
        def call(value: str) -> float:
            held.append(not limiter.peek("k").allowed)
            return 1 / len(value)

    call("a")
    with pytest.raises(ZeroDivisionError):
        call("")

    assert [True, True] == held
    assert limiter.peek("k").allowed


def test_methods_can_be_decorated(clock: ManualClock) -> None:
    """Key functions of methods get the object first."""

    class Client:
        def __init__(self, name: str) -> None:
            self.name = name

        @limit("1/minute", key=lambda self: self.name, clock=clock)
        def fetch(self) -> str:
            return self.name

    assert ["a", "b"] == [Client("a").fetch(), Client("b").fetch()]
    with pytest.raises(Denied):
        Client("a").fetch()


def test_wrapper_looks_like_the_function() -> None:
    """Name, documentation, signature and kind stay, and the limiter is beside it."""

    @limit("5/minute")
    async def fetch(url: str) -> bytes:
        """Fetches."""
        return url.encode()

    assert "fetch" == fetch.__wrapped__.__name__
    assert "Fetches." == fetch.__doc__
    assert ["url"] == list(inspect.signature(fetch).parameters)
    assert inspect.iscoroutinefunction(fetch)
    assert "Limiter('5/minute')" == repr(fetch.limiter)


def test_limiter_of_the_wrapper_is_the_one_given() -> None:
    """Several functions may share a limiter."""
    limiter = Limiter("5/minute")

    @limiter.limit()
    def fetch() -> None: ...

    assert fetch.limiter is limiter


def test_generators_are_refused() -> None:
    """Their body runs after the call, so the check would protect nothing."""

    def rows() -> Iterator[int]:
        yield 1

    async def rows_async() -> AsyncIterator[int]:
        yield 1

    for function in (rows, rows_async):
        with pytest.raises(UsageError, match="generator"):
            limit("5/minute")(function)


def test_mistakes_are_told_at_decoration() -> None:
    """Not at the first call."""
    with pytest.raises(QuotaError):
        limit("5/minuet")
    with pytest.raises(UsageError):
        limit("5/minute", timeout=-1)


@styles
def test_a_key_that_is_no_text_is_told(is_async: bool) -> None:
    """A key function that forgets to make a text is a mistake of the caller."""
    echo = decorated(limit("5/minute", key=lambda *_: None), is_async=is_async)  # type: ignore[arg-type]

    with pytest.raises(UsageError):
        echo("a")
