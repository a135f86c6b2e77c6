"""
What stands around the application: whom it talks to at all, how much it reads, and what it tells browsers.

A service on loopback is reached by every page that a browser on the same machine has open. So a request must name this service as its host
(a foreign name that leads here is a trick, DNS rebinding), and what changes something must not come from a foreign page.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders

from tidegate.control.api.problem import Problem, unexpected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES: Final = 1024 * 1024
"""The most bytes of a body, where nothing else is said."""

HEADERS: Final = {
    # No script and no style inside a page, nothing from elsewhere, and no page of ours inside another one.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Perimeter:
    """
    An application of ASGI around another one.

    Args:
        app: The other one.
        hosts: The names by which this service may be asked, beside addresses and `localhost`.
        body_bytes: The most bytes of a body, by the paths that differ from `BODY_BYTES`.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], body_bytes: Mapping[str, int]) -> None:
        self._app = app
        self._hosts = hosts | {"localhost"}
        self._body_bytes = body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """
        As ASGI calls it.

        Args:
            scope: What is asked.
            receive: Where the body comes from.
            send: Where the response goes.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                _add_headers(MutableHeaders(scope=message))
            await send(message)

        try:
            self._look(scope)
            limit = self._body_bytes.get(scope["path"], BODY_BYTES)
            await self._app(scope, _measured(scope, receive, limit), sending)
        except Problem as problem:
            if has_begun:
                raise
            await problem.response()(scope, receive, sending)
        except Exception as error:
            if has_begun:
                raise
            await unexpected(error)(scope, receive, sending)

    def _look(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_ours(host):
            raise Problem(421, "this host is not known here; if it is right, add its name to the setting admin.hosts")
        if scope["method"] in _SAFE:
            return
        origin = headers.get("origin")
        # Behind a gateway that speaks TLS the scheme differs; the host and the port are what a foreign page cannot have.
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            raise Problem(403, "the request comes from a page of somebody else")
        if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            raise Problem(403, "the request comes from a page of somebody else")

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition(":")[0] if ":" in host.rpartition("]")[2] else host
        if name.lower() in self._hosts:
            return True
        try:
            # Nobody can make an address lead elsewhere.
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True


def _add_headers(headers: MutableHeaders) -> None:
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    headers.setdefault("Cache-Control", "no-store")


def _measured(scope: Scope, receive: Receive, limit: int) -> Receive:
    length = Headers(scope=scope).get("content-length", "0")
    # A wrong one never comes here: the server of HTTP refuses it.
    if int(length) > limit:
        raise _too_large(limit)
    count = 0

    async def measured() -> Message:
        nonlocal count
        message = await receive()
        count += len(message.get("body", b""))
        if count > limit:
            raise _too_large(limit)
        return message

    return measured


def _too_large(limit: int) -> Problem:
    # The rest is not read, so the connection cannot go on.
    return Problem(413, f"the body has more than {limit:,} bytes", headers={"Connection": "close"})
