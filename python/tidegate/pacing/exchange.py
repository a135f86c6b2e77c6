"""
One request with all its waits and attempts: one implementation for clients that block and for those that await.

`steps` is the implementation. It yields what to do next; `run` and `run_async` only do it, each in its own way.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from tidegate._gate import KeyGate
from tidegate._sleep import epoch_ns, now_ns, sleep, sleep_async
from tidegate._wait import POLL_MIN_NS, Ask
from tidegate._wait import run as admit
from tidegate._wait import run_async as admit_async
from tidegate.pacing.fields import read
from tidegate.pacing.pacer import TOO_MANY_REQUESTS, UNAVAILABLE
from tidegate.pacing.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from tidegate import Decision
    from tidegate.pacing.fields import Told
    from tidegate.pacing.pacer import Pacer, Place

R = TypeVar("R")

RETRIED = (TOO_MANY_REQUESTS, UNAVAILABLE)
"""The answers after which another attempt can help."""


class View(Protocol[R]):
    """
    How a library's responses are looked at, and made.
    """

    def status(self, response: R) -> int:
        """
        The status of a response.
        """
        ...

    def field(self, response: R, name: str) -> str | None:
        """
        A field of a response by its name in lower case, all its lines joined by commas.
        """
        ...

    def refuse(self, refusal: Refusal) -> R:
        """
        Makes the response to a request that was not sent.
        """
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """
    What is to be known of a request.

    Args:
        key: Whose budget it uses.
        method: Its method.
        is_replayable: Whether its body can be sent a second time.
        is_marked: Whether it has an `Idempotency-Key`, so that the server does it once however often it is sent.
    """

    key: str
    method: str
    is_replayable: bool = True
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Sleep:
    """
    Wait, in nanoseconds.
    """

    time_ns: int


@dataclass(frozen=True, slots=True)
class Send:
    """
    Send the request, for the response.
    """


@dataclass(frozen=True, slots=True)
class Discard(Generic[R]):
    """
    Read what is left of a response that nobody will see, so that its connection can be used again.
    """

    response: R


def run(pacer: Pacer, call: Call, view: View[R], send: Callable[[], R], discard: Callable[[R], None]) -> R:
    """
    Does a request, and waits.

    Args:
        pacer: Who says when.
        call: The request.
        view: How responses are looked at.
        send: Sends it.
        discard: Reads a response that nobody will see.

    Returns:
        The response.
    """
    script = steps(pacer, call, view)
    answer: Decision | R | None = None
    with closing(script):
        while True:
            try:
                step = script.send(answer)
            except StopIteration as end:
                response: R = end.value
                return response
            answer = None
            if isinstance(step, Sleep):
                sleep(step.time_ns, pacer.policy.clock)
            elif isinstance(step, Ask):
                answer = admit(step)
            elif isinstance(step, Discard):
                discard(step.response)
            else:
                answer = send()


async def run_async(
    pacer: Pacer, call: Call, view: View[R], send: Callable[[], Awaitable[R]], discard: Callable[[R], Awaitable[None]]
) -> R:
    """
    As `run`, while other tasks run. Cancelling it gives its place back.
    """
    script = steps(pacer, call, view)
    answer: Decision | R | None = None
    with closing(script):
        while True:
            try:
                step = script.send(answer)
            except StopIteration as end:
                response: R = end.value
                return response
            answer = None
            if isinstance(step, Sleep):
                await sleep_async(step.time_ns, pacer.policy.clock)
            elif isinstance(step, Ask):
                answer = await admit_async(step)
            elif isinstance(step, Discard):
                await discard(step.response)
            else:
                answer = await send()


def steps(pacer: Pacer, call: Call, view: View[R]) -> Generator[Sleep | Ask | Send | Discard[R], Any, R]:
    """
    Waits for its turn, sends, and sends again where that makes sense.

    Closing it early, as a cancelled task does, gives the place back.

    Args:
        pacer: Who says when.
        call: The request.
        view: How responses are looked at.

    Yields:
        What to do next.

    Returns:
        The response; one made here if it was not sent.
    """
    policy = pacer.policy
    deadline_ns = None if policy.timeout_ns is None else now_ns(policy.clock) + policy.timeout_ns
    place, is_sent = pacer.enter(call.key), False
    try:
        if place.is_throttled():
            return view.refuse(Refusal.throttled())
        attempt = 1
        while True:
            refusal = yield from _turn(pacer, place, deadline_ns)
            if refusal is not None:
                return view.refuse(refusal)
            is_sent = True
            response: R = yield Send()
            status = view.status(response)
            told = read(_field_of(view, response), epoch_ns(policy.clock))
            wait_ns = policy.backoff.wait_ns(attempt, _told_ns(status, told)) if status in RETRIED else 0
            place.answered(status, told, wait_ns)
            is_sent = False
            is_late = deadline_ns is not None and now_ns(policy.clock) + wait_ns > deadline_ns
            if not _may_retry(pacer, call, status, attempt) or wait_ns > policy.max_wait_ns or is_late:
                return response
            # What the throttle would refuse is answered with what the server said.
            if status == UNAVAILABLE and place.is_throttled():
                return response
            yield Discard(response)
            if status == UNAVAILABLE:
                yield Sleep(wait_ns)
            attempt += 1
            place.rejoin()
    finally:
        place.leave(is_sent=is_sent)


def _turn(pacer: Pacer, place: Place, deadline_ns: int | None) -> Generator[Sleep | Ask, Any, Refusal | None]:
    """
    Waits until the budget of the host has room, and then until the quotas of this client have.
    """
    policy, poll_ns = pacer.policy, POLL_MIN_NS
    while True:
        wait_ns = place.turn()
        if wait_ns == 0:
            break
        if wait_ns is None:
            wait_ns = poll_ns
            poll_ns = min(2 * poll_ns, place.poll_max_ns())
        if wait_ns > policy.max_wait_ns:
            if place.probe():
                break
            return Refusal.waiting(wait_ns)
        if deadline_ns is not None and now_ns(policy.clock) + wait_ns > deadline_ns:
            return Refusal.waiting(wait_ns)
        yield Sleep(wait_ns)
    limiter = place.limiter()
    if limiter is None:
        return None
    left_ns = policy.max_wait_ns
    if deadline_ns is not None:
        left_ns = max(0, min(left_ns, deadline_ns - now_ns(policy.clock)))
    decision: Decision = yield Ask(KeyGate(limiter, place.key), timeout_ns=left_ns)
    return None if decision.allowed else Refusal.waiting(decision.retry_after_ns)


def _may_retry(pacer: Pacer, call: Call, status: int, attempt: int) -> bool:
    policy = pacer.policy
    if status not in RETRIED or attempt > policy.retries:
        return False
    return call.is_replayable and (call.is_marked or call.method.upper() in policy.retry_methods)


def _told_ns(status: int, told: Told) -> int | None:
    # Limits that are used up explain a 429 and not a 503.
    return told.wait_ns if status == TOO_MANY_REQUESTS else told.retry_after_ns


def _field_of(view: View[R], response: R) -> Callable[[str], str | None]:
    return lambda name: view.field(response, name)
