"""
httpx clients that behave: they pace themselves by what servers say, and retry with care.

```python
import httpx

from tidegate.integrations.httpx import AsyncPacedTransport, PacedTransport

client = httpx.Client(transport=PacedTransport())
async_client = httpx.AsyncClient(transport=AsyncPacedTransport(quotas="10/second"))
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from tidegate.pacing import Call, PaceOptions, Pacer, run, run_async
from tidegate.pacing.drain import Drain
from tidegate.pacing.origin import origin

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias, Unpack

    from tidegate.pacing import Refusal

    Key: TypeAlias = Callable[[httpx.Request], str]

__all__ = ["AsyncPacedTransport", "PacedTransport"]


class PacedTransport(httpx.BaseTransport):
    """
    Sends requests when the server has room for them.

    Args:
        transport: Who really sends; by default `httpx.HTTPTransport()`.
        pacer: Whose budgets to share; by default a new one with these options.
        key: Names the budget of a request; by default each scheme, host and port has one.
        options: As `tidegate.pacing.PaceOptions`.

    Raises:
        UsageError: An option is wrong.
    """

    def __init__(
        self,
        transport: httpx.BaseTransport | None = None,
        *,
        pacer: Pacer | None = None,
        key: Key | None = None,
        **options: Unpack[PaceOptions],
    ) -> None:
        self.pacer = Pacer.of(pacer, **options)
        self._owns_pacer = pacer is None
        self._transport = transport if transport is not None else httpx.HTTPTransport()
        self._key = key or _origin

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """
        Waits for its turn, sends, and sends again where that makes sense.
        """
        return run(self.pacer, _call(request, self._key), _VIEW, lambda: self._transport.handle_request(request), _discard)

    def close(self) -> None:
        """
        Closes the transport that really sends.
        """
        self._transport.close()
        if self._owns_pacer:
            self.pacer.close()


class AsyncPacedTransport(httpx.AsyncBaseTransport):
    """
    As `PacedTransport`, while other tasks run.

    Args:
        transport: Who really sends; by default `httpx.AsyncHTTPTransport()`.
        pacer: Whose budgets to share; by default a new one with these options.
        key: Names the budget of a request; by default each scheme, host and port has one.
        options: As `tidegate.pacing.PaceOptions`.

    Raises:
        UsageError: An option is wrong.
    """

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        pacer: Pacer | None = None,
        key: Key | None = None,
        **options: Unpack[PaceOptions],
    ) -> None:
        self.pacer = Pacer.of(pacer, **options)
        self._owns_pacer = pacer is None
        self._transport = transport if transport is not None else httpx.AsyncHTTPTransport()
        self._key = key or _origin

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """
        As `PacedTransport.handle_request`.
        """
        call = _call(request, self._key)
        return await run_async(self.pacer, call, _VIEW, lambda: self._transport.handle_async_request(request), _discard_async)

    async def aclose(self) -> None:
        """
        As `PacedTransport.close`.
        """
        await self._transport.aclose()
        if self._owns_pacer:
            self.pacer.close()


class _View:
    """
    How responses of httpx are looked at, and made.
    """

    def status(self, response: httpx.Response) -> int:
        return response.status_code

    def field(self, response: httpx.Response, name: str) -> str | None:
        found: str | None = response.headers.get(name)
        return found

    def refuse(self, refusal: Refusal) -> httpx.Response:
        return httpx.Response(refusal.status, headers=refusal.fields(), content=refusal.body())


_VIEW = _View()


def _origin(request: httpx.Request) -> str:
    return origin(request.url.scheme, request.url.host, request.url.port)


def _call(request: httpx.Request, key: Key) -> Call:
    return Call(
        key=key(request),
        method=request.method,
        # Every other stream is read once, and whether it could be read again is known to its author only.
        is_replayable=isinstance(request.stream, httpx.ByteStream),
        is_marked="idempotency-key" in request.headers,
    )


def _discard(response: httpx.Response) -> None:
    drain = Drain()
    try:
        for chunk in response.iter_raw():
            if drain.is_enough(chunk):
                break
    except httpx.TransportError:
        pass  # The connection is gone, and so is what was to be read from it.
    finally:
        response.close()


async def _discard_async(response: httpx.Response) -> None:
    drain = Drain()
    try:
        async for chunk in response.aiter_raw():
            if drain.is_enough(chunk):
                break
    except httpx.TransportError:
        pass  # As above.
    finally:
        await response.aclose()
