"""
The three clients behind one face, so that each promise is tested with all of them.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import httpx
import requests

from tidegate.integrations.httpx import AsyncPacedTransport, PacedTransport
from tidegate.integrations.requests import PacedAdapter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tidegate.pacing import Pacer


@dataclass(frozen=True)
class Got:
    """
    A response, whichever library it comes from.
    """

    status: int
    fields: Mapping[str, str]
    body: bytes

    @property
    def refused(self) -> str | None:
        """
        Why it was not sent, if it was not.
        """
        return self.fields.get("Tidegate-Refused")


class Send(Protocol):
    """
    Sends a request.
    """

    pacer: Pacer

    def __call__(self, url: str, method: str = "GET", headers: dict[str, str] | None = None, content: Any = None) -> Got:  # noqa: ANN401  # what libraries take
        """
        Waits for the response.
        """
        ...


class _Send:
    def __init__(self, pacer: Pacer, send: Callable[..., Got]) -> None:
        self.pacer = pacer
        self._send = send

    def __call__(self, url: str, method: str = "GET", headers: dict[str, str] | None = None, content: Any = None) -> Got:  # noqa: ANN401  # as above
        return self._send(url, method, headers, content)


@contextmanager
def with_httpx(**options: Any) -> Iterator[Send]:  # noqa: ANN401  # as the transport takes them
    """
    `httpx.Client`.
    """
    transport = PacedTransport(**options)
    with httpx.Client(transport=transport) as client:

        def send(url: str, method: str, headers: dict[str, str] | None, content: Any) -> Got:  # noqa: ANN401  # as above
            response = client.request(method, url, headers=headers, content=content)
            return Got(response.status_code, response.headers, response.content)

        yield _Send(transport.pacer, send)


@contextmanager
def with_httpx_async(**options: Any) -> Iterator[Send]:  # noqa: ANN401  # as the transport takes them
    """
    `httpx.AsyncClient`, in a loop of its own.
    """
    transport = AsyncPacedTransport(**options)
    with asyncio.Runner() as runner:
        client = httpx.AsyncClient(transport=transport)

        async def request(url: str, method: str, headers: dict[str, str] | None, content: Any) -> Got:  # noqa: ANN401  # as above
            async def parts() -> Any:  # noqa: ANN401  # an async client takes async generators only
                for part in content:
                    yield part

            content_async = content if content is None or isinstance(content, bytes) else parts()
            response = await client.request(method, url, headers=headers, content=content_async)
            return Got(response.status_code, response.headers, response.content)

        try:
            yield _Send(transport.pacer, lambda *args: runner.run(request(*args)))
        finally:
            runner.run(client.aclose())


@contextmanager
def with_requests(**options: Any) -> Iterator[Send]:  # noqa: ANN401  # as the adapter takes them
    """
    `requests.Session`.
    """
    adapter = PacedAdapter(**options)
    with requests.Session() as session:
        session.mount("http://", adapter)

        def send(url: str, method: str, headers: dict[str, str] | None, content: Any) -> Got:  # noqa: ANN401  # as above
            response = session.request(method, url, headers=headers, data=content)
            return Got(response.status_code, response.headers, response.content)

        yield _Send(adapter.pacer, send)


CLIENTS = [with_httpx, with_httpx_async, with_requests]
