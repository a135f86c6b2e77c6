"""
Functions whose calls are checked first.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

from tidegate._gate import KeyGate
from tidegate._wait import Ask, admit, admit_async, timeout_to_ns
from tidegate.errors import UsageError
from tidegate.slot import Slot

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tidegate.limiter import Limiter
    from tidegate.quota import Quotas
    from tidegate.testing import ManualClock

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Owner = TypeVar("Owner")
Rest = ParamSpec("Rest")

# Their parameters are those of the decorated function, but it is known only after them, so no type checker can compare the two.
Key: TypeAlias = str | Callable[..., str]
"""Who is counted: a text, or a function of the call's arguments."""
Cost: TypeAlias = int | Callable[..., int]
"""How much: a number, or a function of the call's arguments."""


class Limited(Protocol[P, R_co]):
    """
    A decorated function: called as before, with its limiter beside it.
    """

    limiter: Limiter
    """Who is asked before each call."""

    @property
    def __wrapped__(self) -> Callable[P, R_co]:
        """The function itself."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """
        Checks, then calls the function.
        """
        ...

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Limited[P, R_co]: ...
    @overload
    def __get__(self: Limited[Concatenate[Owner, Rest], R_co], instance: Owner, owner: type[Any] | None = None) -> Callable[Rest, R_co]: ...


def limit(  # noqa: PLR0913  # all but the first are named at the call
    quotas: Quotas,
    *,
    key: Key | None = None,
    cost: Cost = 1,
    timeout: float | None = None,
    store: str = "memory://",
    clock: ManualClock | None = None,
) -> Callable[[Callable[P, R]], Limited[P, R]]:
    """
    Decorates a function with a limiter of its own, which is its attribute `limiter`.

    ```python
    @limit("5/minute", key=lambda user: user)
    def login(user: str) -> None: ...
    ```

    Args:
        quotas: As for `Limiter`.
        key: As for `Limiter.limit`.
        cost: As for `Limiter.limit`.
        timeout: As for `Limiter.limit`.
        store: As for `Limiter`.
        clock: As for `Limiter`.

    Returns:
        The decorator. Calls of the decorated function raise `Denied` when they are not admitted in time.
    """
    from tidegate.limiter import Limiter  # noqa: PLC0415  # Limiter.limit needs this module

    return decorate(Limiter(quotas, store=store, clock=clock), key=key, cost=cost, timeout=timeout)


def decorate(limiter: Limiter, *, key: Key | None, cost: Cost, timeout: float | None) -> Callable[[Callable[P, R]], Limited[P, R]]:
    """
    The decorator behind `limit` and `Limiter.limit`.

    Args:
        limiter: Who is asked.
        key: As for `Limiter.limit`.
        cost: As for `Limiter.limit`.
        timeout: As for `Limiter.limit`.

    Returns:
        The decorator.

    Raises:
        UsageError: The timeout is wrong; for the decorator: the function is a generator.
    """
    timeout_to_ns(timeout)

    def decorator(function: Callable[P, R]) -> Limited[P, R]:
        default = f"{function.__module__}.{function.__qualname__}"

        def ask(*args: P.args, **kwargs: P.kwargs) -> Ask:
            who = key(*args, **kwargs) if callable(key) else default if key is None else key
            return Ask.with_timeout(KeyGate(limiter, who, cost(*args, **kwargs) if callable(cost) else cost), timeout)

        wrapped = cast(Limited[P, R], _wrap(function, ask))
        wrapped.limiter = limiter
        return wrapped

    return decorator


def _wrap(function: Callable[P, R], ask: Callable[P, Ask]) -> Callable[P, R]:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError("a generator function cannot be decorated: its body runs later than its call, unlimited; check inside it")
    if inspect.iscoroutinefunction(function):
        # mypy does not know that R is an awaitable here.
        return cast(Callable[P, R], _wrap_async(function, ask))

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        question = ask(*args, **kwargs)
        if question.gate.lease_ttl is None:
            admit(question)
            return function(*args, **kwargs)
        with Slot(question):
            return function(*args, **kwargs)

    return call


def _wrap_async(function: Callable[P, Awaitable[R]], ask: Callable[P, Ask]) -> Callable[P, Awaitable[R]]:
    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        question = ask(*args, **kwargs)
        if question.gate.lease_ttl is None:
            await admit_async(question)
            return await function(*args, **kwargs)
        async with Slot(question):
            return await function(*args, **kwargs)

    return call
