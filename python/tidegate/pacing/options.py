"""
What a pacer may be told, checked once.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import SystemRandom
from typing import TYPE_CHECKING, TypedDict

from tidegate.errors import UsageError
from tidegate.pacing.backoff import Backoff
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Unpack

    from tidegate import Limiter
    from tidegate.quota import Quotas

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})
"""Methods that do the same when they are done twice."""

RETRIES_MAX = 100
_SECONDS_MAX = 86_400.0


class PaceOptions(TypedDict, total=False):
    """
    What a client that paces itself may be told; all of it has a default.
    """

    quotas: Quotas
    """What this client may send to each host, whatever the host says: a text such as `10/second`, or any other form of quotas. Requests
    wait for it. Default: as much as the host allows."""
    store: str
    """Where the counters of `quotas` live, as for `Limiter`. On a Redis all processes share them; without `quotas` they share the limits
    that the host tells of in `RateLimit-Policy`. Default: this process."""
    limiter: Limiter
    """A limiter of your own instead of `quotas` and `store`; it is asked for each key."""
    retries: int
    """How often a request that was answered with 429 or 503 is sent again, at most. Default: 3."""
    retry_methods: Iterable[str]
    """Methods that are sent again. Default: those that are idempotent (GET, HEAD, OPTIONS, PUT, DELETE, TRACE). A request that has an
    `Idempotency-Key` is sent again in any case."""
    max_wait: float
    """The longest single wait in seconds. Who would have to wait for longer is answered. Default: 60."""
    timeout: float | None
    """How long all waits and attempts of a request may take in seconds; the last attempt may end later. Default: no limit."""
    backoff: float
    """The longest wait in seconds before the first retry, if the host does not name one; it doubles with each. Default: 0.5."""
    throttle: float | None
    """How many requests are sent for each that a host accepts, when it answers 503; `None` sends all of them. Default: 2."""
    clock: ManualClock | None
    """A clock of your own, for tests."""
    random: Callable[[], float]
    """Draws numbers from 0 up to 1, for tests. Default: the system's."""


@dataclass(frozen=True, slots=True)
class Policy:
    """
    The options after they were checked.

    Args:
        retries: As `PaceOptions.retries`.
        retry_methods: As `PaceOptions.retry_methods`.
        max_wait_ns: As `PaceOptions.max_wait`.
        timeout_ns: As `PaceOptions.timeout`.
        backoff: Draws the waits before retries.
        throttle: As `PaceOptions.throttle`.
        clock: As `PaceOptions.clock`.
        random: As `PaceOptions.random`.
    """

    retries: int
    retry_methods: frozenset[str]
    max_wait_ns: int
    timeout_ns: int | None
    backoff: Backoff
    throttle: float | None
    clock: ManualClock | None
    random: Callable[[], float]

    @classmethod
    def of(cls, **options: Unpack[PaceOptions]) -> Policy:
        """
        Checks the options.

        Args:
            options: As `PaceOptions`.

        Returns:
            The same with their defaults.

        Raises:
            UsageError: One of them is wrong.
        """
        unknown = [name for name in options if name not in PaceOptions.__annotations__]
        if unknown:
            raise TypeError(f"unknown option {unknown[0]!r}: the options are {', '.join(PaceOptions.__annotations__)}")
        retries, throttle, clock = options.get("retries", 3), options.get("throttle", 2.0), options.get("clock")
        if type(retries) is not int or not 0 <= retries <= RETRIES_MAX:
            raise UsageError(f"retries is a whole number from 0 to {RETRIES_MAX}")
        if throttle is not None and (type(throttle) not in (int, float) or not 1 <= throttle < float("inf")):
            raise UsageError("throttle is a number from 1 up, or None")
        if clock is not None and not isinstance(clock, ManualClock):
            raise UsageError(f"the clock is a ManualClock, not {type(clock).__name__}")
        methods = options.get("retry_methods", IDEMPOTENT)
        if isinstance(methods, str):
            raise UsageError('retry_methods are several texts, such as {"GET", "POST"}')
        timeout, random = options.get("timeout"), options.get("random", SystemRandom().random)
        max_wait_ns = _to_ns("max_wait", options.get("max_wait", 60.0))
        return cls(
            retries=retries,
            retry_methods=frozenset(method.upper() for method in methods),
            max_wait_ns=max_wait_ns,
            timeout_ns=None if timeout is None else _to_ns("timeout", timeout),
            backoff=Backoff(_to_ns("backoff", options.get("backoff", 0.5)), max_wait_ns, random),
            throttle=throttle,
            clock=clock,
            random=random,
        )


def _to_ns(name: str, seconds: float) -> int:
    if type(seconds) not in (int, float) or not 0 <= seconds <= _SECONDS_MAX:
        raise UsageError(f"{name} is a number of seconds from 0 to {_SECONDS_MAX:.0f}")
    return round(seconds * 1e9)
