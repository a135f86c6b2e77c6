"""
Limits of single routes, beside the one of the whole application.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, TypedDict

from tidegate._options import StoreOptions
from tidegate.errors import ConfigError
from tidegate.integrations._guard import Guard
from tidegate.quota import Quota, quotas_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from tidegate.integrations._functions import Cost, Key
    from tidegate.quota import Quotas

_MEMORY = "memory://"
_NUMBERS = count()
_PASSED_ON = ("key", "headers", "trusted_proxies", *StoreOptions.__annotations__)


@dataclass(frozen=True, eq=False)
class RouteLimit:
    """
    Quotas for each client of a route. One decorator makes one, and finds its guard by it.

    Args:
        quotas: The quotas.
        key: Makes of the framework's request who is counted; by default whoever the application counts.
        cost: How much a request takes: a number, or a function of the framework's request.
        scope: What is counted together; by default each route is counted for itself.
        name: Its name in headers and metrics; by default the text of the quotas.
    """

    quotas: tuple[Quota, ...]
    key: Key | None = None
    cost: Cost | None = None
    scope: str | None = None
    name: str | None = None

    @classmethod
    def of(cls, quotas: Quotas, **options: Unpack[LimitOptions]) -> RouteLimit:
        """
        Reads the arguments of a decorator.

        Args:
            quotas: As for `Limiter`.
            options: As above.

        Returns:
            The limit.

        Raises:
            QuotaError: The quotas are wrong.
        """
        return cls(quotas_of(quotas), **options)


class LimitOptions(TypedDict, total=False):
    """
    What the decorator of a view can be told beside its quotas; `RouteLimit` explains it.
    """

    key: Key | None
    cost: Cost | None
    scope: str | None
    name: str | None


def application_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """
    What the guard of the whole application is told, beside its quotas.

    Args:
        options: What the application says.

    Returns:
        The same; without the store where a service or a limiter decides, for then it is the store of single routes.
    """
    without = {"quotas", *(StoreOptions.__annotations__ if _is_elsewhere(options) else ())}
    return {name: value for name, value in options.items() if name not in without}


def _is_elsewhere(options: Mapping[str, Any]) -> bool:
    return options.get("service") is not None or options.get("limiter") is not None


class RouteGuards:
    """
    The guards of an application's routes.

    Args:
        options: What the application's own guard was told. The store is the same.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = {name: options[name] for name in _PASSED_ON if name in options}
        self._is_elsewhere = _is_elsewhere(options)
        self._guards: dict[RouteLimit, Guard] = {}
        self._making = threading.Lock()
        # Limiters of equal limits are shared by the whole process. In memory two applications in it do not count together all the same,
        # such as those that tests make one after the other; on a shared store they do, as two processes with one application do.
        self._prefix = f"{next(_NUMBERS)} " if options.get("store", _MEMORY) == _MEMORY else ""

    def scope_of(self, limit: RouteLimit, route: str) -> str:
        """
        What a limit counts separately: the attribute `scope` of a request.

        Args:
            limit: The limit.
            route: The route that the request takes.

        Returns:
            The scope.
        """
        return self._prefix + (limit.scope or route)

    def known(self, limit: RouteLimit) -> Guard | None:
        """
        The guard of a limit, if it was made already: making one may wait for a store.

        Args:
            limit: The limit.

        Returns:
            The guard.
        """
        return self._guards.get(limit)

    def guard_of(self, limit: RouteLimit) -> Guard:
        """
        The guard of a limit, made at its first request.

        Args:
            limit: The limit.

        Returns:
            The guard.

        Raises:
            ConfigError: A service decides, and no store is given for quotas in the code.
        """
        guard = self._guards.get(limit)
        if guard is None:
            with self._making:
                guard = self._guards.get(limit) or self._make(limit)
                self._guards[limit] = guard
        return guard

    def _make(self, limit: RouteLimit) -> Guard:
        if self._is_elsewhere and "store" not in self._options:
            raise ConfigError(
                "quotas of single routes are counted here and not by the service: write them as its rules, or say where, "
                'such as store="redis://localhost" or store="memory://"'
            )
        own = {name: value for name, value in (("key", limit.key), ("cost", limit.cost)) if value is not None}
        return Guard(limit.quotas, name=limit.name, scoped=True, **(self._options | own))
