"""
Applications on real servers: in a thread of this process, where tests can look inside, or as programs with workers of their own.

    with Threaded(application) as site:
        answer = site.ask("GET", "/")

    with Program.gunicorn("site_wsgi:application", workers=4, env={"STORE": server.url()}) as site:
        answer = site.ask("GET", "/")
"""

from __future__ import annotations

import http.client
import re
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import IO, TYPE_CHECKING, Any, Self, cast
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

import http_sf

import tidegate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from wsgiref.types import WSGIApplication

    from tests.servers import StartFailed
    from tests.servers.process import Process, new_folder
    from tests.servers.waiting import until
else:
    from servers import StartFailed
    from servers.process import Process, new_folder
    from servers.waiting import until

HERE = Path(__file__).parent
START_S = 40.0

_LISTENS = re.compile(r"(?:Listening at:|running on) http://127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class Answer:
    """
    A response.
    """

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def field(self, name: str) -> str | None:
        """
        All fields of a name as one.
        """
        found = self.headers.get_all(name)
        return None if found is None else ", ".join(found)

    @property
    def policies(self) -> dict[str, dict[str, Any]]:
        """
        The policies that it tells, by name, read by a library for structured fields.
        """
        return self._items("RateLimit-Policy")

    @property
    def left(self) -> dict[str, dict[str, Any]]:
        """
        What it says is left, by name.
        """
        return self._items("RateLimit")

    def _items(self, name: str) -> dict[str, dict[str, Any]]:
        field = self.field(name)
        assert field is not None, name
        found: Any = http_sf.parse(field.encode(), tltype="list")
        return {str(item): dict(parameters) for item, parameters in found}


class Site:
    """
    Something that listens on a port of this machine.
    """

    port: int

    def ask(self, method: str = "GET", path: str = "/", headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Answer:
        """
        Sends one request on a connection of its own.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body=body, headers=dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def statuses(self, count: int, path: str = "/", *, at_once: int = 1) -> list[int]:
        """
        The statuses of so many requests, several of them at once.
        """
        if at_once == 1:
            return [self.ask("GET", path).status for _ in range(count)]
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(lambda _: self.ask("GET", path).status, range(count)))

    def open(self, path: str = "/") -> socket.socket:
        """
        A connection on which a request was sent and nothing was read.
        """
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return connection


class Threaded(Site):
    """
    A server of the standard library, with a thread for each connection of this process.
    """

    def __init__(self, application: WSGIApplication) -> None:
        self.failures: list[str] = []
        site = self

        class Handler(WSGIRequestHandler):
            def handle(self) -> None:
                """
                As in the standard library, and remembers which errors left the application.
                """
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    return
                handler = _Response(
                    cast("IO[bytes]", self.rfile), cast("IO[bytes]", self.wfile), sys.stderr, self.get_environ(), multithread=True
                )
                handler.request_handler = self  # type: ignore[attr-defined]  # as the standard library does it
                handler.failures = site.failures
                handler.run(application)

            def log_message(self, *_: object) -> None:
                """
                Says nothing.
                """

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """
        Clients that go away are no news.
        """


class _Response(ServerHandler):
    failures: list[str]

    def log_exception(self, exc_info: Any) -> None:  # noqa: ANN401  # as the standard library has it
        """
        Remembers the kind of an error instead of printing it.
        """
        self.failures.append(exc_info[0].__name__)


class Program(Site):
    """
    A server that is a program of its own.

    Args:
        words: Its command line.
        env: More variables of its environment.
    """

    def __init__(self, words: list[str], env: Mapping[str, str] | None = None) -> None:
        self._log = new_folder("site") / "log"
        self._process = Process([sys.executable, *words], log=self._log, env={"PYTHONPATH": _path(), **(env or {})})

    @classmethod
    def gunicorn(cls, application: str, *, workers: int = 1, threads: int = 1, env: Mapping[str, str] | None = None) -> Self:
        """
        Gunicorn with so many worker processes, which are forks of one that has imported the application.
        """
        flags = [
            "--bind",
            "127.0.0.1:0",
            "--workers",
            str(workers),
            "--threads",
            str(threads),
            "--chdir",
            str(HERE),
            "--no-control-socket",
            "--preload",
        ]
        return cls(["-m", "gunicorn", application, *flags, "--graceful-timeout", "1"], env)

    @classmethod
    def uvicorn(cls, application: str, *, env: Mapping[str, str] | None = None) -> Self:
        """
        Uvicorn with one process.
        """
        return cls(["-m", "uvicorn", application, "--port", "0", "--app-dir", str(HERE), "--lifespan", "off"], env)

    @property
    def log(self) -> str:
        """
        Everything that it said.
        """
        return self._log.read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> Self:
        until(lambda: not self._process.is_running or self._listens(), START_S, lambda: self.log)
        if not self._process.is_running:
            raise StartFailed(self.log)
        return self

    def __exit__(self, *_: object) -> None:
        # The workers are children of this process, and end with it if it is asked to.
        self._process.send(signal.SIGTERM)
        try:
            until(lambda: not self._process.is_running, 20, lambda: self.log)
        finally:
            self._process.kill()

    def _listens(self) -> bool:
        found = _LISTENS.search(self.log)
        if found:
            self.port = int(found[1])
        return found is not None


def _path() -> str:
    # The children import the package from where this process has it.
    return str(Path(tidegate.__file__).parent.parent)
