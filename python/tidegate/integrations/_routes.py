"""
Limits of single routes, beside the one of the whole application.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate._options import StoreOptions
from tidegate.errors import ConfigError
from tidegate.integrations._guard import Guard
from tidegate.quota import Quota, quotas_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.integrations._functions import Cost, Key
    from tidegate.quota import Quotas

_PASSED_ON = ("key", "headers", "trusted_proxies", *StoreOptions.__annotations__)
_NAME_MAX = 64


@dataclass(frozen=True, eq=False)
class RouteLimit:
    """
    Quotas for each client of a route. One decorator makes one, and finds its guard by it.

    Args:
        quotas: The quotas.
        key: Makes of the framework's request who is counted; by default whoever the application counts.
        cost: How much a request takes: a number, or a function of the framework's request.
        scope: What is counted together; by default each route is counted for itself.
        name: Its name in headers and metrics.
    """

    quotas: tuple[Quota, ...]
    key: Key | None
    cost: Cost | None
    scope: str | None
    name: str

    @classmethod
    def of(cls, quotas: Quotas, *, key: Key | None, cost: Cost | None, scope: str | None, name: str | None) -> RouteLimit:
        """
        Reads the arguments of a decorator.

        Args:
            quotas: As for `Limiter`.
            key: As above.
            cost: As above.
            scope: As above.
            name: By default the text of the quotas.

        Returns:
            The limit.

        Raises:
            QuotaError: The quotas are wrong.
        """
        found = quotas_of(quotas)
        text = "-".join(quota.name or str(quota) for quota in found)
        return cls(found, key, cost, scope, name or re.sub(r"[^A-Za-z0-9_.]+", "-", text)[:_NAME_MAX])


class RouteGuards:
    """
    The guards of an application's routes. Limits that are alike share one, and with it a connection to the store.

    Args:
        options: What the application's own guard was told. The store is the same.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = {name: options[name] for name in _PASSED_ON if name in options}
        self._is_elsewhere = options.get("service") is not None or options.get("limiter") is not None
        self._by_limit: dict[RouteLimit, Guard] = {}
        self._by_content: dict[object, Guard] = {}
        self._making = threading.Lock()

    def known(self, limit: RouteLimit) -> Guard | None:
        """
        The guard of a limit, if it was made already: making one may wait for a store.

        Args:
            limit: The limit.

        Returns:
            The guard.
        """
        return self._by_limit.get(limit)

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
        guard = self._by_limit.get(limit)
        if guard is None:
            content = (limit.quotas, limit.key, limit.cost, limit.name)
            with self._making:
                guard = self._by_content.get(content) or self._make(limit)
                self._by_content[content] = self._by_limit[limit] = guard
        return guard

    def close(self) -> None:
        """
        Ends the limiters of all of them.
        """
        for guard in tuple(self._by_content.values()):
            guard.close()

    def _make(self, limit: RouteLimit) -> Guard:
        if self._is_elsewhere and "store" not in self._options:
            raise ConfigError(
                "quotas of single routes are counted here and not by the service: write them as its rules, or say where, "
                'such as store="redis://localhost" or store="memory://"'
            )
        own = {name: value for name, value in (("key", limit.key), ("cost", limit.cost)) if value is not None}
        return Guard(limit.quotas, name=limit.name, scoped=True, **(self._options | own))
