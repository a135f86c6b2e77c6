"""
A server behind a proxy: a child process that tells back what it was asked, streams, and speaks WebSocket.

    with Upstream() as upstream:
        upstream.url        # http://127.0.0.1:41234
        upstream.count      # how many requests came, without those for the count

It is also the program that the child runs: `python upstream.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import uvicorn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from tests.servers.process import Process

    Receive = Callable[[], Awaitable[dict[str, Any]]]
    Send = Callable[[dict[str, Any]], Awaitable[None]]

CHUNK = b"x" * 65_536
_PORT = re.compile(r"running on http://127\.0\.0\.1:(\d+)")
_START_S = 30.0
_asked = 0


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """
    Answers by path: `/stream/<chunks>` sends that many chunks, `/digest` a digest of the body, `/slow` never; the rest is told back.
    """
    global _asked  # noqa: PLW0603  # one server per process
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    if scope["type"] == "websocket":
        await _echo(receive, send)
        return
    path: str = scope["path"]
    if path == "/count":
        await _answer(send, str(_asked).encode())
        return
    _asked += 1
    if path.startswith("/stream/"):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(int(path.removeprefix("/stream/"))):
            await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    if path == "/slow":
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    digest, size = hashlib.sha256(), 0
    while True:
        message = await receive()
        digest.update(message.get("body", b""))
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            break
    headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
    told = {"method": scope["method"], "path": path, "headers": headers, "size": size, "digest": digest.hexdigest(), "process": os.getpid()}
    await _answer(send, json.dumps(told).encode())


async def _answer(send: Send, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
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


class Upstream:
    """
    A child process on a free port. It ends with the test.
    """

    def __init__(self) -> None:
        # Only the parent needs them, and the child does not find them.
        from servers.process import new_folder  # noqa: PLC0415

        self.log_file: Path = new_folder("upstream") / "log"
        self.port = 0
        self._process: Process | None = None

    @property
    def url(self) -> str:
        """
        Its address, as settings have it.
        """
        return f"http://127.0.0.1:{self.port}"

    @property
    def count(self) -> int:
        """
        How many requests came.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/count")
            return int(connection.getresponse().read())
        finally:
            connection.close()

    @property
    def process(self) -> Process:
        """
        The child: `kill`, `freeze`, `thaw`.
        """
        assert self._process is not None, "it was not started"
        return self._process

    def start(self) -> Self:
        """
        Starts it; after an end, on the same port.
        """
        from servers.process import Process  # noqa: PLC0415  # as above
        from servers.waiting import until  # noqa: PLC0415

        said = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._process = Process([sys.executable, str(Path(__file__)), str(self.port)], log=self.log_file)

        def port() -> int:
            text = self.log_file.read_text(encoding="utf-8")[said:] if self.log_file.exists() else ""
            found = _PORT.search(text)
            return int(found[1]) if found else 0

        until(lambda: port() > 0, _START_S, lambda: self.log_file.read_text(encoding="utf-8"))
        self.port = port()
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._process is not None:
            self._process.kill()


def main() -> None:
    """
    Serves until it is killed.
    """
    config = uvicorn.Config(
        application, host="127.0.0.1", port=int(sys.argv[1]), log_level="info", access_log=False, ws="websockets-sansio"
    )
    asyncio.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main()
