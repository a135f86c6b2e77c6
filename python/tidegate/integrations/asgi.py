"""
Middleware for every ASGI application: Starlette, FastAPI, Litestar, Quart, Django, or your own.

```python
from tidegate.integrations.asgi import RateLimit

async def application(scope, receive, send): ...

app = RateLimit(application, "100/minute", exempt=["/healthz"])
```
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from tidegate import Decision
from tidegate.integrations._asgi_answer import can_answer, deny, with_fields
from tidegate.integrations._asgi_delay import Waiting
from tidegate.integrations._asgi_request import address_of, attributes_of
from tidegate.integrations._guard import Guard

if TYPE_CHECKING:
    from typing import Unpack

    from tidegate.integrations._asgi_types import Application, Message, Receive, Scope, Send
    from tidegate.integrations._settings import GuardOptions
    from tidegate.quota import Quotas

__all__ = ["Denial", "RateLimit", "decisions"]

Denial: TypeAlias = "Callable[[Scope, Decision], Application | Awaitable[Application]]"
"""Makes the response to a denied request: an ASGI application, such as a response of Starlette."""

Connection: TypeAlias = "tuple[Scope, Receive, Send]"
"""What an ASGI application is called with."""

_MARK = "tidegate.decisions"
_LOG = logging.getLogger("tidegate.integrations")


class RateLimit:
    """
    Checks each request before the application sees it, and tells each client in header fields what is left.

    A denied request is answered 429 with problem details. Slots of `concurrent` quotas are held until the response has ended, and a
    `leaky_bucket` delays the start. A WebSocket is checked once, at its handshake, and holds its slots until it is closed. Around a mounted
    application that has the same limit again, a request is counted once.

    Args:
        app: The application.
        quotas: Quotas for each client, as for `Limiter`; or `rules`, `limiter` or `service` among the options.
        denied: Makes the response to a denied request: a function of the scope and the decision that returns an ASGI application, such as a
            response of Starlette. Default: problem details.
        request: Makes of a scope what the functions `key` and `cost` are called with. Default: the scope itself.
        options: As for `Guard`: `rules`, `limiter`, `service`, `watch`, `key`, `cost`, `exempt`, `headers`, `trusted_proxies`, `name`, and
            the store as for `Limiter`.

    Raises:
        ConfigError: The arguments do not go together, or one of them is wrong.
    """

    def __init__(
        self,
        app: Application,
        quotas: Quotas | None = None,
        *,
        denied: Denial | None = None,
        request: Callable[[Scope], Any] | None = None,
        **options: Unpack[GuardOptions],
    ) -> None:
        self.app = app
        self._denied = denied
        self._request = request
        self._make = partial(Guard, quotas, **options)
        self._guard: Guard | None = self._make()
        self._mark = self._guard.mark

    @property
    def guard(self) -> Guard:
        """Who decides. At the end of the application it is closed, and made anew if requests come after that."""
        guard = self._guard
        if guard is None:
            guard = self._guard = self._make()
        return guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """
        Serves one connection.

        Args:
            scope: What is known of it.
            receive: Where its messages come from.
            send: Where messages to it go.
        """
        kind = scope["type"]
        if kind != "http" and kind != "websocket":  # noqa: PLR1714  # the hot path: a set would be made of two texts each time
            await self.app(scope, receive, self._until_shutdown(send) if kind == "lifespan" else send)
            return
        guard = self._guard or self.guard
        taken: dict[object, Decision] | None = scope.get(_MARK)
        if (taken is not None and self._mark in taken) or (guard.has_exemptions and guard.is_exempt(scope["path"])):
            await self.app(scope, receive, send)
            return
        if guard.is_simple:
            begun = guard.begin(address_of(scope))
            decision = begun if isinstance(begun, Decision) else await begun
        else:
            decision = await self._decide(guard, scope)
        if guard.is_telling:
            send = with_fields(send, decision.header_pairs())
        if not decision.allowed:
            await self._deny(scope, receive, send, decision)
            return
        scope[_MARK] = {self._mark: decision} if taken is None else {**taken, self._mark: decision}
        if decision.lease is None and not decision.delay_ns:
            await self.app(scope, receive, send)
        else:
            await self._hold(guard, decision, (scope, receive, send))

    async def _decide(self, guard: Guard, scope: Scope) -> Decision:
        attributes, cost = attributes_of(scope, guard.reads), None
        if guard.key is None and guard.cost is None:
            guard.identify(attributes, None)
        else:
            request = scope if self._request is None else self._request(scope)
            await guard.identify_request_async(attributes, request)
            cost = await guard.cost_of_async(request)
        return await guard.decide_async(attributes, cost) if guard.is_shared else guard.decide(attributes, cost)

    async def _hold(self, guard: Guard, decision: Decision, connection: Connection) -> None:
        """
        Serves a request that starts later or holds slots.
        """
        scope, receive, send = connection
        if decision.delay_ns:
            waiting = Waiting(receive)
            try:
                is_there = await waiting.wait(decision.delay_ns, guard.limiter.clock)
            except BaseException:
                await guard.refund_async(decision)
                raise
            if not is_there:
                await guard.refund_async(decision)
                return
            receive = waiting.receive

        await run_held(self.app, (scope, receive, send), guard, decision)

    async def _deny(self, scope: Scope, receive: Receive, send: Send, decision: Decision) -> None:
        if self._denied is not None and can_answer(scope):
            try:
                answer = self._denied(scope, decision)
                app = await answer if isinstance(answer, Awaitable) else answer
            except Exception as error:  # noqa: BLE001  # whatever it is, the client gets an answer
                # Without its message, which may hold a secret.
                _LOG.error("the function denied raised %s: problem details are sent instead", type(error).__name__)
            else:
                await app(scope, receive, send)
                return
        await deny(scope, receive, send, decision)

    def _until_shutdown(self, send: Send) -> Send:
        async def send_and_close(message: Message) -> None:
            # Not simply at the end: an application that knows no lifespan ends at once, and is served all the same.
            if message["type"] in {"lifespan.shutdown.complete", "lifespan.shutdown.failed"}:
                guard, self._guard = self._guard, None
                if guard is not None:
                    await guard.close_async()
            await send(message)

        return send_and_close


async def run_held(app: Application, connection: Connection, guard: Guard, decision: Decision) -> None:
    """
    Runs an application whose request holds slots, until the response has ended; tasks that run behind it hold none.

    Args:
        app: The application.
        connection: Scope, receive and send.
        guard: Who decided.
        decision: The decision that admitted it.
    """
    scope, receive, send = connection
    if decision.lease is None:
        await app(scope, receive, send)
        return

    async def send_to_the_end(message: Message) -> None:
        # Before the last part goes out: a client that has all of it may ask again at once, and must find its slot free.
        if message["type"] == "http.response.body" and not message.get("more_body"):
            await guard.release_async(decision)
        await send(message)
        if message["type"] == "http.response.pathsend":
            await guard.release_async(decision)

    try:
        await app(scope, receive, send_to_the_end)
    finally:
        await guard.release_async(decision)


def decisions(scope: Scope) -> tuple[Decision, ...]:
    """
    The decisions that admitted a request, from the outermost `RateLimit` in.

    Args:
        scope: The scope of the request.

    Returns:
        The decisions; none if nothing limits it.
    """
    return tuple(cast("dict[object, Decision]", scope.get(_MARK, {})).values())
