"""
Sessions of requests that behave: they pace themselves by what servers say, and retry with care.

```python
import requests

from tidegate.integrations.requests import PacedAdapter

session = requests.Session()
session.mount("https://", PacedAdapter())
```
"""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from requests.adapters import BaseAdapter, HTTPAdapter
from urllib3.exceptions import HTTPError

from tidegate.pacing import Call, PaceOptions, Pacer, run
from tidegate.pacing.drain import Drain
from tidegate.pacing.origin import origin

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias, Unpack

    from tidegate.pacing import Refusal

    Key: TypeAlias = Callable[[requests.PreparedRequest], str]

__all__ = ["PacedAdapter"]


class PacedAdapter(BaseAdapter):
    """
    Sends requests when the server has room for them.

    Args:
        adapter: Who really sends; by default `HTTPAdapter()`.
        pacer: Whose budgets to share; by default a new one with these options.
        key: Names the budget of a request; by default each scheme, host and port has one.
        options: As `tidegate.pacing.PaceOptions`.

    Raises:
        UsageError: An option is wrong.
    """

    def __init__(
        self,
        adapter: BaseAdapter | None = None,
        *,
        pacer: Pacer | None = None,
        key: Key | None = None,
        **options: Unpack[PaceOptions],
    ) -> None:
        super().__init__()
        self.pacer = Pacer.of(pacer, **options)
        self._owns_pacer = pacer is None
        self._adapter = adapter if adapter is not None else HTTPAdapter()
        self._key = key or _origin

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:  # noqa: ANN401  # passed on
        """
        Waits for its turn, sends, and sends again where that makes sense.
        """
        call = Call(
            key=self._key(request),
            method=request.method or "GET",
            # Files and generators are where the last attempt left them.
            is_replayable=request.body is None or isinstance(request.body, (str, bytes)),
            is_marked="Idempotency-Key" in request.headers,
        )
        return run(self.pacer, call, _View(request), lambda: self._adapter.send(request, *args, **kwargs), _discard)

    def close(self) -> None:
        """
        Closes the adapter that really sends.
        """
        self._adapter.close()
        if self._owns_pacer:
            self.pacer.close()


class _View:
    """
    How responses of requests are looked at, and made.
    """

    def __init__(self, request: requests.PreparedRequest) -> None:
        self._request = request

    def status(self, response: requests.Response) -> int:
        return response.status_code

    def field(self, response: requests.Response, name: str) -> str | None:
        return response.headers.get(name)

    def refuse(self, refusal: Refusal) -> requests.Response:
        response = requests.Response()
        response.status_code = refusal.status
        response.reason = HTTPStatus(refusal.status).phrase
        response.headers.update(refusal.fields())
        response.raw = BytesIO(refusal.body())
        response.url = self._request.url or ""
        response.request = self._request
        response.encoding = "utf-8"
        return response


def _origin(request: requests.PreparedRequest) -> str:
    parts = urlsplit(request.url or "")
    return origin(str(parts.scheme), str(parts.hostname or ""), parts.port)


def _discard(response: requests.Response) -> None:
    # The connection may be gone, and so is what was to be read from it.
    drain = Drain()
    with suppress(HTTPError, OSError):
        while (chunk := response.raw.read1(decode_content=False)) and not drain.is_enough(chunk):
            pass
    response.close()
