"""
The program of a server behind a proxy: it tells back what it was asked, streams, and speaks WebSocket.

    python upstream_app.py [--http2] HOST PORT [CERT KEY [CLIENT_CA]]

It is well at first; `POST /ill` and `POST /well` change what `/healthz` and every other request are answered.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import ssl
import sys
from typing import TYPE_CHECKING, Any, cast

import uvicorn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    Receive = Callable[[], Awaitable[dict[str, Any]]]
    Send = Callable[[dict[str, Any]], Awaitable[None]]

CHUNK = b"x" * 65_536
"""What a stream is made of."""

PAGE = b"""<!doctype html><title>behind</title><script>
const socket = new WebSocket(`ws://${location.host}/`);
socket.onopen = () => socket.send("hello");
socket.onmessage = async ({data}) => {
  const told = await (await fetch("/api", {method: "POST", body: "12345"})).json();
  let events = "";
  const source = new EventSource("/events");
  source.onmessage = ({data: word}) => {
    events += word;
    if (events === "onetwo") { source.close(); document.title = `${data} ${told.size} ${events}`; }
  };
};
</script>"""
"""A page that is done when its title says so: it has posted, heard events, and talked over a WebSocket."""

_asked = 0
_is_well = True


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:  # noqa: PLR0911  # one branch for each path
    """
    Answers by path: `/stream/<chunks>` sends that many chunks, `/slow` never; the rest is told back, by `/cost/<units>` with what it cost.
    """
    global _asked  # noqa: PLW0603  # one server per process
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    if scope["type"] == "websocket":
        await _echo(receive, send)
        return
    path: str = scope["path"]
    if (told := _told_of_itself(path)) is not None:
        await _answer(send, *told)
        return
    _asked += 1
    if not _is_well:
        await _answer(send, b"", 503)
        return
    if path.startswith("/stream/"):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(int(path.removeprefix("/stream/"))):
            await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    if path == "/page":
        await _answer(send, PAGE, kind=b"text/html")
        return
    if path in {"/slow", "/events"}:
        await _tell_events(path, send)
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    await _tell_back(scope, receive, send)


def _told_of_itself(path: str) -> tuple[bytes, int] | None:
    global _is_well  # noqa: PLW0603  # as above
    if path in {"/ill", "/well"}:
        _is_well = path == "/well"
    answers = {"/count": (str(_asked).encode(), 200), "/healthz": (b"", 200 if _is_well else 503), "/ill": (b"", 200), "/well": (b"", 200)}
    return answers.get(path)


async def _tell_back(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    digest, size = hashlib.sha256(), 0
    while True:
        message = await receive()
        digest.update(message.get("body", b""))
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            break
    headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
    told = {
        "method": scope["method"],
        "path": scope["path"],
        "version": scope["http_version"],
        "headers": headers,
        "size": size,
        "digest": digest.hexdigest(),
        "process": os.getpid(),
    }
    path: str = scope["path"]
    costs = [(b"x-cost", path.removeprefix("/cost/").encode())] if path.startswith("/cost/") else []
    await _answer(send, json.dumps(told).encode(), more=costs)


async def _tell_events(path: str, send: Send) -> None:
    if path == "/events":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for word in (b"one", b"two"):
            await send({"type": "http.response.body", "body": b"data: %b\n\n" % word, "more_body": True})


async def _answer(
    send: Send, body: bytes, status: int = 200, kind: bytes = b"application/json", more: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _echo(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", **{name: message[name] for name in ("text", "bytes") if message.get(name) is not None}})


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def serve_http2(address: str, cert: str | None, key: str | None) -> None:
    """
    Serves both versions of HTTP.
    """
    from hypercorn import Config  # noqa: PLC0415  # most servers do without, and start sooner
    from hypercorn.asyncio import serve  # noqa: PLC0415

    config = Config()
    config.bind, config.certfile, config.keyfile = [address], cert, key
    asyncio.run(serve(cast("Any", application), config))


def main() -> None:
    """
    Serves until it is killed.
    """
    # A certificate and its key may stand behind the port, and who signs those of clients, which must have one then.
    host, port, *files = [word for word in sys.argv[1:] if word != "--http2"]
    cert, key, client_ca = (*files, None, None, None)[:3]
    if "--http2" in sys.argv:
        serve_http2(f"{host}:{port}", cert, key)
        return
    config = uvicorn.Config(
        application,
        host=host,
        port=int(port),
        access_log=False,
        ws="websockets-sansio",
        ssl_certfile=cert,
        ssl_keyfile=key,
        ssl_ca_certs=client_ca,
        ssl_cert_reqs=ssl.CERT_NONE if client_ca is None else ssl.CERT_REQUIRED,
    )
    asyncio.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main()
