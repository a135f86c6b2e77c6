"""
A limit of single routes, for frameworks on Starlette.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from tidegate import Decision
from tidegate.integrations._asgi_request import address_of, attributes_of
from tidegate.integrations._guard import Guard

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from starlette.requests import HTTPConnection

    from tidegate.integrations._asgi_types import Scope
    from tidegate.integrations._settings import GuardOptions
    from tidegate.quota import Quotas

Taken: TypeAlias = "list[tuple[Guard, Decision]]"
"""What the limits of one request took so far."""

_TAKEN = "tidegate.taken"
_TOLD = "tidegate.told"
_NUMBER = count(1)
_NUMBERS: WeakKeyDictionary[object, int] = WeakKeyDictionary()


class RouteLimit:
    """
    One limit, before as many routes as use it.

    Args:
        quotas: Quotas for each client and scope, as for `Limiter`; or `rules`, `limiter` or `service` among the options.
        scope: What is counted together; by default each endpoint by itself.
        options: As for `Guard`.
    """

    def __init__(self, quotas: Quotas | None, scope: str | None, **options: Unpack[GuardOptions]) -> None:
        self.guard = Guard(quotas, scoped=quotas is not None, **options)
        self._scope = scope
        # The last application and endpoint, and how their scope is written. `Ellipsis` is no endpoint.
        self._last: tuple[object, object, str] = (None, ..., "")

    def check(self, connection: HTTPConnection, endpoint: Callable[..., Any] | None = None) -> Decision:
        """
        Decides, and waits as long as a `leaky_bucket` delays the start. What earlier limits of a denied request took is given back.

        Args:
            connection: The request, or the WebSocket.
            endpoint: Who is to answer it; by default what the framework found.

        Returns:
            The decision. Slots are held until it is released.
        """
        taken = taken_of(connection.scope)
        attributes = self._attributes(connection.scope, endpoint, len(taken))
        self.guard.identify_request(attributes, connection)
        decision = self.guard.check(attributes, self.guard.cost_of(connection))
        if decision.allowed:
            taken.append((self.guard, decision))
        else:
            for guard, earlier in _take_all(taken):
                guard.refund(earlier)
        return decision

    async def check_async(
        self, asgi: Scope, connection: HTTPConnection | None = None, endpoint: Callable[..., Any] | None = None
    ) -> Decision:
        """
        As `check`, while other tasks run.

        Args:
            asgi: The scope of the request.
            connection: The request, or the WebSocket, for the functions `key` and `cost`; a guard that `is_simple` has none.
            endpoint: As for `check`.

        Returns:
            The decision.
        """
        guard = self.guard
        taken = taken_of(asgi)
        attributes = self._attributes(asgi, endpoint, len(taken))
        if guard.is_simple:
            # The same as below, without the coroutines that would have nothing to do.
            begun = guard.begin(attributes)
            decision = begun if isinstance(begun, Decision) else await begun
            if decision.delay_ns:
                await guard.delay_async(decision)
        else:
            await guard.identify_request_async(attributes, connection)
            decision = await guard.check_async(attributes, await guard.cost_of_async(connection))
        if decision.allowed:
            taken.append((guard, decision))
        else:
            for other, earlier in _take_all(taken):
                await other.refund_async(earlier)
        return decision

    def _attributes(self, asgi: Scope, endpoint: Callable[..., Any] | None, before: int) -> dict[str, Any]:
        attributes = address_of(asgi) if self.guard.is_by_address else attributes_of(asgi, self.guard.reads)
        scope = self._scope_of(asgi.get("app"), endpoint or asgi.get("endpoint"))
        # Two limits of one route may have the same quota and different keys: each counts for itself.
        attributes["scope"] = f"{scope} {before}" if before and self._scope is None else scope
        return attributes

    def _scope_of(self, app: object, endpoint: object) -> str:
        last_app, last_endpoint, scope = self._last
        # Most limits have one endpoint, and making up its name again would take longer than the decision.
        if last_endpoint is endpoint and last_app is app:
            return scope
        scope = _name(endpoint) if self._scope is None else self._scope
        if not self.guard.is_shared:
            scope = f"{_number(app)} {scope}"
        self._last = (app, endpoint, scope)
        return scope


def taken_of(asgi: Scope) -> Taken:
    """
    What the limits of a request took so far.

    Args:
        asgi: The scope of the request.

    Returns:
        The list itself.
    """
    taken: Taken = asgi.setdefault(_TAKEN, [])
    return taken


def tell_of(asgi: Scope) -> Taken:
    """
    Says that somebody tells the client what the limits of a request took, so that they need not.

    Args:
        asgi: The scope of the request.

    Returns:
        What they will have taken: an empty list now.
    """
    taken: Taken = []
    asgi[_TAKEN], asgi[_TOLD] = taken, True
    return taken


def is_told(asgi: Scope) -> bool:
    """
    Whether somebody does so.

    Args:
        asgi: The scope of the request.

    Returns:
        Whether.
    """
    return _TOLD in asgi


def _take_all(taken: Taken) -> Taken:
    earlier = taken.copy()
    taken.clear()
    return earlier


def _name(endpoint: object) -> str:
    return f"{getattr(endpoint, '__module__', '')}.{getattr(endpoint, '__qualname__', type(endpoint).__qualname__)}"


def _number(app: object) -> int:
    # Equal limits share a limiter, and with it counters in memory. Two applications of one process, such as those that a factory makes for
    # each test, must not.
    if app is None:
        return 0
    number = _NUMBERS.get(app)
    if number is None:
        number = _NUMBERS[app] = next(_NUMBER)
    return number
