"""
Functions of the application about a request: who is counted, and how much.

They are foreign code on the way of every request. One that fails must neither fail the request nor let it pass uncounted.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeAlias, TypeVar
from uuid import UUID

COST_MAX = 2**53
"""The largest cost that can be counted."""

# Kinds of failure that are logged, once each: more of them are no news.
_KINDS_MAX = 32

T = TypeVar("T")
Key: TypeAlias = Callable[[Any], Any]
"""Makes of a framework's request who is counted: a text, a whole number or a UUID; `None` for nobody in particular."""
Cost: TypeAlias = int | Callable[[Any], Any]
"""How much a request takes: a number, or a function that makes one of a framework's request."""

_LOG = logging.getLogger("tidegate.integrations")


class AppFunction(Generic[T]):
    """
    A function of the application, with what to do when it fails.

    Args:
        what: What it is called, for the log.
        function: The function of a request.
        read: Takes what it returned; `None` if that is of no use.
        instead: What is done then, for the log.
    """

    __slots__ = ("_function", "_instead", "_logged", "_read", "_what", "is_async")

    def __init__(self, what: str, function: Callable[[Any], Any], read: Callable[[Any], T | None], instead: str) -> None:
        self._what, self._function, self._read, self._instead = what, function, read, instead
        self._logged: set[str] = set()
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004  # an object with an async __call__
        """Whether it has to be awaited."""

    def ask(self, request: Any) -> T | None:  # noqa: ANN401  # any framework's
        """
        Calls it.

        Args:
            request: The framework's request.

        Returns:
            What it said, or `None` when it failed or said nothing of use.
        """
        try:
            said = self._function(request)
        except Exception as error:  # noqa: BLE001  # whatever it is, the request goes on
            self._note(f"raised {type(error).__name__}")
            return None
        if inspect.iscoroutine(said):
            said.close()  # nobody can await it here
        return self._understood(said)

    async def ask_async(self, request: Any) -> T | None:  # noqa: ANN401  # any framework's
        """
        As `ask`, for a function that may have to be awaited.
        """
        try:
            said = self._function(request)
            if isinstance(said, Awaitable):
                said = await said
        except Exception as error:  # noqa: BLE001  # whatever it is, the request goes on
            self._note(f"raised {type(error).__name__}")
            return None
        return self._understood(said)

    def _understood(self, said: object) -> T | None:
        read = self._read(said)
        if read is None:
            self._note(f"returned {_kind(said)}")
        return read

    def _note(self, kind: str) -> None:
        # Neither the value nor the message of the exception: both may hold a secret.
        if kind not in self._logged and len(self._logged) < _KINDS_MAX:
            self._logged.add(kind)
            _LOG.warning("the %s function %s: %s", self._what, kind, self._instead)


def key_function(function: Key) -> AppFunction[str]:
    """
    A function that says who is counted.

    Args:
        function: The function of a request.

    Returns:
        The same, safe to call.
    """
    return AppFunction("key", function, _read_key, "such requests are counted by address")


def cost_function(function: Callable[[Any], Any]) -> AppFunction[int]:
    """
    A function that says how much a request takes.

    Args:
        function: The function of a request.

    Returns:
        The same, safe to call.
    """
    return AppFunction("cost", function, read_cost, "such requests cost what the rules say")


def read_cost(said: object) -> int | None:
    """
    A cost, if it can be counted.

    Args:
        said: What somebody takes for one.

    Returns:
        The cost; `None` if it is none.
    """
    return said if type(said) is int and 0 <= said <= COST_MAX else None


def _read_key(said: object) -> str | None:
    if isinstance(said, str):
        return said or None
    # Other objects may spell themselves with their address in memory, and then every request would be somebody new.
    return str(said) if isinstance(said, int | UUID) and not isinstance(said, bool) else None


def _kind(said: object) -> str:
    return "an empty text" if said == "" else "None" if said is None else f"an unusable {type(said).__name__}"
