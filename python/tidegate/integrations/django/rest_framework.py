"""
Tidegate as a throttle class of Django REST framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.core.exceptions import ImproperlyConfigured
from rest_framework.throttling import BaseThrottle

from tidegate.integrations._routes import RouteLimit
from tidegate.integrations.django._settings import state
from tidegate.integrations.django._visit import attributes_for, visit_of

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.views import APIView

    from tidegate import Decision
    from tidegate.integrations._guard import Guard
    from tidegate.quota import Quotas


class TidegateThrottle(BaseThrottle):
    """
    Limits the requests to API views. Users who are logged in are counted by their primary key, others by address.

    A subclass says what it allows, and all views that name it count together. Or a view says it by its attribute `throttle_quotas`, and is
    counted for itself.

    ```text
    class Burst(TidegateThrottle):
        quotas = "60/minute"

    class Search(APIView):
        throttle_classes = [Burst, TidegateThrottle]
        throttle_quotas = "5/second"
    ```

    The header fields are on the responses of the view, and on all others if the middleware is installed.
    """

    quotas: ClassVar[Quotas | None] = None
    """Quotas for each client, as for `Limiter`."""
    scope: ClassVar[str | None] = None
    """What is counted together; by default all views of the class, or the view that says the quotas."""

    _limits: ClassVar[dict[tuple[type, type | None], RouteLimit]] = {}

    def __init__(self) -> None:
        self._decision: Decision | None = None

    def get_key(self, request: Request) -> str | int | None:
        """
        Says who is counted.

        Args:
            request: The request, of REST framework.

        Returns:
            A text or a number; `None` counts by address.
        """
        user = request.user
        return None if user is None or not user.is_authenticated else user.pk

    def get_cost(self, request: Request) -> int:  # noqa: ARG002  # for those who override it
        """
        Says how much a request takes.

        Args:
            request: The request, of REST framework.

        Returns:
            The cost.
        """
        return 1

    def allow_request(self, request: Request, view: APIView) -> bool:
        """
        Decides.

        Args:
            request: The request.
            view: The view.

        Returns:
            Whether it may pass.
        """
        found = state()
        if not found.is_enabled:
            return True
        limit = self._limit_of(view)
        guard = found.routes.guard_of(limit)
        http_request = request._request  # noqa: SLF001  # the way to Django's request that the framework documents
        visit = visit_of(http_request)
        attributes = attributes_for(guard, http_request, found.routes.scope_of(limit, ""))
        self._identify(guard, attributes, request)
        decision = self._decision = visit.check(guard, attributes, guard.cost_of((self, request)))
        visit.hold(http_request)
        if not visit.is_told_outside:
            view.headers.update(visit.fields())
        return decision.allowed

    def wait(self) -> float | None:
        """
        The seconds after which the same request is admitted, exact.

        Returns:
            Seconds; `None` if it never is.
        """
        return None if self._decision is None else self._decision.retry_after

    def _identify(self, guard: Guard, attributes: dict[str, Any], request: Request) -> None:
        said: object
        try:
            said = self.get_key(request)
        except Exception as error:  # noqa: BLE001  # the guard knows what to do with it
            said = error
        if said is None:
            # Nobody is logged in, and that is nothing to write into a log.
            guard.identify(attributes, None)
        else:
            guard.identify_request(attributes, said)

    @classmethod
    def _limit_of(cls, view: APIView) -> RouteLimit:
        own: Quotas | None = getattr(view, "throttle_quotas", None)
        identity = (cls, None if cls.quotas is not None else type(view))
        limit = cls._limits.get(identity)
        if limit is None:
            quotas = cls.quotas if cls.quotas is not None else own
            if quotas is None:
                raise ImproperlyConfigured(
                    f'{cls.__name__} allows nothing: write quotas = "100/minute" in it, or throttle_quotas in the view'
                )
            owner = identity[1] or cls
            scope = cls.scope or f"{owner.__module__}.{owner.__qualname__}"
            limit = RouteLimit.of(quotas, key=_key, cost=_cost, scope=scope)
            cls._limits[identity] = limit
        return limit


def _key(said: Any) -> Any:  # noqa: ANN401  # what `get_key` returned or raised
    if isinstance(said, Exception):
        raise said
    return said


def _cost(asked: tuple[TidegateThrottle, Request]) -> Any:  # noqa: ANN401  # what `get_cost` returns
    throttle, request = asked
    return throttle.get_cost(request)
