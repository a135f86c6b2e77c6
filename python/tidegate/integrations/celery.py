"""
Rate limits of Celery tasks that hold across all workers, and slots that are held while a task runs.
"""

from __future__ import annotations

import functools
import inspect
import logging
import random
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tidegate._sleep import now_ns, sleep
from tidegate._wait import timeout_to_ns
from tidegate.errors import ConfigError, Denied, UsageError
from tidegate.integrations._address import NOWHERE
from tidegate.integrations._guard import Guard
from tidegate.quota import quotas_of

try:
    from celery import Task, current_task  # type: ignore[import-untyped]  # it has no types
    from celery.exceptions import Ignore, Retry  # type: ignore[import-untyped]  # as above
except ImportError:
    raise ConfigError("tidegate.integrations.celery needs Celery: pip install 'tidegate[celery]'") from None

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from tidegate import Decision
    from tidegate.integrations._settings import GuardOptions
    from tidegate.quota import Quotas

WhenDenied: TypeAlias = Literal["retry", "wait", "drop", "raise"]
"""What becomes of a task that may not run: it is sent again for later, waits in its worker, is forgotten, or fails with `Denied`."""

COUNTDOWN_MAX = 600.0
"""The longest time, in seconds, that a denied task is put off at once. Brokers that lose patience deliver a message twice: Redis after an
hour."""

# Slots come free when their holders finish, which nobody can foresee.
_SLOT_COUNTDOWN = 5.0
_SPREAD = 0.1
_SECOND = 1_000_000_000
_LOG = logging.getLogger("tidegate.integrations")


@dataclass(frozen=True, slots=True)
class Call:
    """
    One run of a task, as key and cost functions see it through the arguments.

    Args:
        args: The arguments by position; a bound task is not among them.
        kwargs: The arguments by name.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def limit(
    quotas: Quotas | None = None,
    *,
    denied: WhenDenied = "retry",
    timeout: float | None = None,
    **options: Unpack[GuardOptions],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """
    Limits how often a task runs, or how many of it run at the same time, in all workers together.

    A task that may not run yet is sent again, with a countdown until it may: that is no failure, and does not count as a retry of its own.
    Slots of `concurrent` quotas are held while it runs.

    ```python
    from celery import Celery
    from tidegate.integrations.celery import limit

    app = Celery("shop", broker="memory://")


    @app.task
    @limit("10/minute", key=lambda customer: customer, store="memory://")
    def send_invoice(customer):
        return f"sent to {customer}"
    ```

    Args:
        quotas: Quotas of this task, as for `Limiter`; or one of `rules`, `limiter` and `service`. To rules a task is a request with the
            attribute `task` (its name), and the path `/` and its name.
        denied: What becomes of a task that may not run: `retry`, `wait` (in its worker, at most `timeout` seconds, then `retry`), `drop`,
            or `raise`.
        timeout: `wait`: the most seconds; by default as long as it takes.
        options: As for `Guard`. `store` or `service` says where the workers count together. The functions `key` and `cost` take the
            arguments of the task; without a key, all its runs are counted together.

    Returns:
        The decorator. It goes below `@app.task`.

    Raises:
        ConfigError: The arguments do not go together, or one of them is wrong.
    """
    if denied not in {"retry", "wait", "drop", "raise"}:
        raise UsageError(f'denied is "retry", "wait", "drop" or "raise", not {denied!r:.40}')
    timeout_ns = timeout_to_ns(timeout)
    if timeout is not None and denied != "wait":
        raise ConfigError('a timeout goes with denied="wait" only')
    if quotas is not None:
        quotas_of(quotas)
        if "store" not in options:
            raise ConfigError(
                'tasks run in many processes: say where they are counted, store="redis://..."; or "memory://" for each by itself'
            )
    # Who only sends tasks never counts, and a process of a pool must not use what another one has opened: so it is made where it is used.
    guard = _Late(quotas, options)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if isinstance(function, Task) or not callable(function):
            raise ConfigError("@limit goes below @app.task: it decorates the function, and @app.task makes a task of it")

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as the task has it
            task = current_task._get_current_object() if current_task else None  # noqa: SLF001  # how Celery's own proxies are resolved
            return _run(guard.get(), task, functools.partial(function, *args, **kwargs), denied, timeout_ns)

        # Celery reads the signature to refuse wrong arguments before a task is sent.
        run.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # functions take any attribute
        return run

    return decorate


class _Late:
    """
    A guard that is made when it is first asked.
    """

    def __init__(self, quotas: Quotas | None, options: GuardOptions) -> None:
        self._quotas, self._options = quotas, options
        self._lock = threading.Lock()
        self._guard: Guard | None = None

    def get(self) -> Guard:
        if self._guard is None:
            with self._lock:
                if self._guard is None:
                    self._guard = _guard(self._quotas, self._options)
        return self._guard


def _guard(quotas: Quotas | None, options: GuardOptions) -> Guard:
    given: dict[str, Any] = {**options}
    for name in ("key", "cost"):
        if callable(function := given.get(name)):
            given[name] = functools.partial(_of_arguments, function)
    return Guard(quotas, scoped=quotas is not None, **given)


def _of_arguments(function: Callable[..., Any], call: Call) -> Any:  # noqa: ANN401  # a key or a cost
    return function(*call.args, **call.kwargs)


def _run(guard: Guard, task: Any, call: functools.partial[Any], denied: WhenDenied, timeout_ns: int | None) -> Any:  # noqa: ANN401  # as the task has it
    name = task.name if task is not None else getattr(call.func, "__name__", "task")
    decision = _ask(guard, task, name, call)
    if not decision.allowed and denied == "wait":
        decision = _wait(guard, task, name, call, decision, timeout_ns)
    if not decision.allowed:
        _refuse(task, name, decision, denied)
    try:
        return call()
    finally:
        guard.release(decision)


def _ask(guard: Guard, task: Any, name: str, call: functools.partial[Any]) -> Decision:  # noqa: ANN401  # a task
    # A bound task gets itself as its first argument, which is nobody's key.
    args = call.args[1:] if task is not None and call.args and call.args[0] is task else call.args
    said = Call(args, call.keywords)
    attributes: dict[str, Any] = {"scope": name, "task": name, "path": f"/{name}", "ip": NOWHERE}
    guard.identify_request(attributes, said)
    return guard.check(attributes, guard.cost_of(said))


def _wait(guard: Guard, task: Any, name: str, call: functools.partial[Any], decision: Decision, timeout_ns: int | None) -> Decision:  # noqa: ANN401, PLR0913, PLR0917  # a task
    clock = guard.limiter.clock
    deadline_ns = None if timeout_ns is None else now_ns(clock) + timeout_ns
    while not decision.allowed and decision.retry_after_ns is not None:
        pause_ns = min(decision.retry_after_ns, _SECOND) if decision.retry_is_hint else decision.retry_after_ns
        if deadline_ns is not None and now_ns(clock) + pause_ns > deadline_ns:
            break
        sleep(pause_ns, clock)
        decision = _ask(guard, task, name, call)
    return decision


def _refuse(task: Any, name: str, decision: Decision, denied: WhenDenied) -> None:  # noqa: ANN401  # a task
    is_sent = task is not None and not task.request.called_directly and not task.request.is_eager
    # What can never fit is never sent again; and a task that was called as a function has nobody to send it.
    if denied == "raise" or not is_sent or (denied != "drop" and decision.retry_after_ns is None):
        raise Denied(decision)
    if denied == "drop":
        _LOG.info("a task %s was dropped: %s", name, decision.rule)
        raise Ignore
    countdown = countdown_of(decision, random.random())  # noqa: S311  # spreads, protects nothing
    # As `Task.retry` does it, but without counting: a task that waits for its turn has not failed.
    again = task.signature_from_request(task.request, countdown=countdown, retries=task.request.retries)
    again.apply_async()
    raise Retry(message=f"not before {countdown:.1f} s: {decision.rule}", when=countdown, sig=again)


def countdown_of(decision: Decision, chance: float) -> float:
    """
    For how long a denied task is put off.

    Args:
        decision: The denial.
        chance: From 0 to 1: tasks that were denied together need not come back together.

    Returns:
        Seconds: never less than the wait, unless that is only an estimate or longer than `COUNTDOWN_MAX`.
    """
    wait = decision.retry_after or 0.0
    if decision.retry_is_hint:
        return min(wait, _SLOT_COUNTDOWN) * (0.5 + chance)
    return min(COUNTDOWN_MAX, wait + max(1.0, _SPREAD * wait) * chance)
