"""
The API behind a gateway.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class _Server(ThreadingHTTPServer):
    """
    A server that does not mind gateways that break connections off.
    """

    def handle_error(self, request: object, client_address: object) -> None:
        """
        Says nothing of them, and everything of other errors.
        """
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # it is passed through


class Upstream:
    """
    Answers every request with what it has seen of it, and remembers which ones came.

    `/bytes/900` is answered by that many bytes, and `/status/403` by that status.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body are written one after the other, and the second must not wait until the first has arrived.
            disable_nagle_algorithm = True

            def _answer(self) -> None:
                upstream.seen.append(f"{self.command} {self.path}")
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                kind, _, number = self.path.removeprefix("/").partition("/")
                status = int(number) if kind == "status" else 200
                seen = {"method": self.command, "path": self.path, "headers": dict(self.headers.items()), "body_bytes": len(body)}
                content = b"x" * int(number) if kind == "bytes" else json.dumps(seen).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - the names that http.server looks for

            def log_message(self, *_: object) -> None:
                """
                Says nothing.
                """

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="upstream", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        """
        Where it listens.
        """
        return self._server.server_port
