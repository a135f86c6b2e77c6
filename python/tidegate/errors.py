"""
What can go wrong. A denial is not among it: `check` answers it, and only callers who ask for an exception get `Denied`.

```
TidegateError
├─ ConfigError            what was configured cannot work; never retry
│  ├─ QuotaError          a quota: with a stable `code`, and a `hint`
│  └─ RuleError           a file of rules: with all its `problems`
├─ StoreError             the store could not answer; `is_transient` says whether a retry can help
│  ├─ StoreUnavailable    (transient)
│  ├─ StoreTimeout        (transient)
│  └─ StoreProtocolError
├─ ServerError
│  ├─ StartupError
│  └─ ShutdownTimeout
├─ UsageError             wrong arguments from code; also a ValueError
└─ Denied                 asked for: `check_or_raise`, `slot`, `@limit`
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tidegate._text import seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate import Decision
    from tidegate.rules import Problem

__all__ = [
    "ConfigError",
    "Denied",
    "QuotaError",
    "RuleError",
    "ServerError",
    "ShutdownTimeout",
    "StartupError",
    "StoreError",
    "StoreProtocolError",
    "StoreTimeout",
    "StoreUnavailable",
    "TidegateError",
    "UsageError",
]


class TidegateError(Exception):
    """
    The root: everything that Tidegate raises on purpose.
    """

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        # Pools of processes send exceptions home by pickling. Rebuilding them without `__init__` lets subclasses take keyword arguments.
        return _rebuild, (type(self), self.args), self._state()

    def _state(self) -> dict[str, Any]:
        return self.__dict__.copy()


class ConfigError(TidegateError):
    """
    What was configured cannot work. A retry will not help.
    """


class QuotaError(ConfigError):
    """
    A quota that cannot be read or cannot be kept.

    Args:
        message: What is wrong, with the hint on a line of its own.
        code: A stable name for this kind of mistake, such as `unknown-algorithm`.
        hint: What to write instead.
        text: The text that was read, if it was one.
        span: Where in the text, as the first character and the one after the last.
    """

    def __init__(
        self, message: str, *, code: str, hint: str | None = None, text: str | None = None, span: tuple[int, int] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.text = text
        self.span = span


class RuleError(ConfigError):
    """
    A file or a directory of rules that cannot be loaded.

    Args:
        message: Every problem, one after the other.
        problems: The same, each with its code, its place and a hint. Warnings are among them.
    """

    def __init__(self, message: str, *, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems

    @classmethod
    def from_problems(cls, problems: tuple[Problem, ...]) -> RuleError:
        """
        Tells several problems at once.

        Args:
            problems: The problems.

        Returns:
            The error.
        """
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        return cls("\n".join((f"the rules cannot be loaded: {count}", *map(str, problems))), problems=problems)


class StoreError(TidegateError):
    """
    The store could not answer.
    """

    is_transient: ClassVar[bool] = False
    """Whether the same call may succeed a little later."""


class StoreUnavailable(StoreError):
    """
    The store cannot be reached.
    """

    is_transient = True


class StoreTimeout(StoreError):
    """
    The store did not answer within the latency budget.
    """

    is_transient = True


class StoreProtocolError(StoreError):
    """
    The store answered something that cannot be understood.
    """


class ServerError(TidegateError):
    """
    The service could not do its work.
    """


class StartupError(ServerError):
    """
    The service could not start.
    """


class ShutdownTimeout(ServerError):
    """
    Requests were still running when the time to drain was over.
    """


class UsageError(TidegateError, ValueError):
    """
    Wrong arguments from code, such as a negative cost or a limiter used after `close`.
    """


class Denied(TidegateError):
    """
    The request may not pass, told as an exception because the caller asked for one.

    Args:
        decision: The denial.
        message: What to say instead of the usual sentence.
    """

    retry_after: float | None
    """As `Decision.retry_after`: seconds after which the same call is admitted if nothing else happens; `None` means never."""

    def __init__(self, decision: Decision, message: str | None = None) -> None:
        super().__init__(message or _sentence(decision))
        self._decision: Decision | None = decision
        self.retry_after = decision.retry_after

    @property
    def decision(self) -> Decision:
        """
        The denial itself.

        Raises:
            UsageError: The exception comes from another process. A decision stays where it was taken; message and `retry_after` travel.
        """
        if self._decision is None:
            raise UsageError("the decision stayed in the process that took it; the message and retry_after are here")
        return self._decision

    def _state(self) -> dict[str, Any]:
        # A decision is a receipt, and a receipt is worth nothing to another process's counters.
        return self.__dict__ | {"_decision": None}


def _rebuild(cls: type[TidegateError], args: tuple[Any, ...]) -> TidegateError:
    return cls.__new__(cls, *args)


def _sentence(decision: Decision) -> str:
    if decision.degraded:
        return f"denied without the store: {decision.reason}"
    wait_ns = decision.retry_after_ns
    if wait_ns is None:
        return f"never: cost {decision.cost} is above the capacity {decision.limit}"
    text = decision.quota.quota if decision.quota else ""
    by = f"{decision.rule} ({text})" if decision.rule else text
    return f"denied by {by}: {'room within' if decision.retry_is_hint else 'retry after'} {seconds(wait_ns)}"
