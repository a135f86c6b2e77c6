"""
Real servers for ASGI applications: uvicorn in a thread of this process, or any server as a child.

    with Served(app) as served:
        answer = served.ask("/items", {"x-api-key": "abc"})     # over TCP, from 127.0.0.1
    with Child("granian", "fastapi", workers=4, env={...}) as child:
        answer = child.ask("/")                                 # over a socket in the file system: there is no peer
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import http_sf
import uvicorn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from tests.servers.process import Process, new_folder
    from tests.servers.waiting import until
    from tests.service.running import Answer, ask
else:
    from servers.process import Process, new_folder
    from servers.waiting import until
    from service.running import Answer, ask

__all__ = ["Answer", "Child", "Served", "left", "policies"]

_START_S = 30.0
_HERE = Path(__file__).parent
_PYTHON = str(_HERE.parents[1] / "python")


class Served:
    """
    An application of this process, behind uvicorn in a thread, on a free port.

    Args:
        app: The application.
        options: As for `uvicorn.Config`.
    """

    def __init__(self, app: Any, **options: Any) -> None:  # noqa: ANN401  # any framework's
        # uvicorn itself believes X-Forwarded-For of 127.0.0.1 unless it is told not to.
        chosen = {"host": "127.0.0.1", "port": 0, "log_level": "critical", "ws": "websockets-sansio", "proxy_headers": False, **options}
        config = uvicorn.Config(app, **chosen)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="uvicorn")

    @property
    def port(self) -> int:
        """
        Where it listens.
        """
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port

    def ask(self, path: str = "/", headers: Mapping[str, str] | None = None, method: str = "GET", body: object = None) -> Answer:
        """
        Sends one request on a connection of its own.
        """
        return ask(f"http://127.0.0.1:{self.port}", method, path, body, headers)

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: self._server.started or not self._thread.is_alive(), _START_S, "uvicorn does not start")
        assert self._server.started
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._server.should_exit = True
        self._thread.join(_START_S)
        assert not self._thread.is_alive(), "uvicorn does not end"


class Child:
    """
    A server as a child process, on a socket in the file system.

    Args:
        server: `uvicorn`, `hypercorn`, `granian`, or `granian wsgi`.
        app: The framework: an application of `asgi_apps.py`, or of `wsgi_sites.py`.
        workers: How many processes.
        env: Variables that the application reads.
    """

    def __init__(self, server: str, app: str, *, workers: int = 1, env: Mapping[str, str] | None = None) -> None:
        server, _, interface = server.partition(" ")
        self._folder = new_folder(server)
        self._socket = self._folder / "socket"
        self._log = self._folder / "log"
        target, count = f"wsgi_sites:{app}" if interface else "asgi_apps:app", str(workers)
        words = {
            "uvicorn": ["--uds", str(self._socket), "--workers", count, "--log-level", "warning", target],
            "hypercorn": ["--bind", f"unix:{self._socket}", "--workers", count, target],
            "granian": ["--interface", interface or "asgi", "--uds", str(self._socket), "--workers", count, target],
        }[server]
        self._words = [sys.executable, "-m", server, *words]
        self._env = {"PYTHONPATH": f"{_HERE}:{_PYTHON}", "TIDEGATE_TEST_APP": app, **(env or {})}
        self._process: Process | None = None

    def ask(self, path: str = "/", headers: Mapping[str, str] | None = None) -> Answer:
        """
        Sends one request on a connection of its own.
        """
        return ask(f"unix:{self._socket}", "GET", path, None, headers)

    @property
    def log(self) -> str:
        """
        Everything that it said.
        """
        return self._log.read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> Self:
        process = self._process = Process(self._words, log=self._log, env=self._env)
        try:
            until(lambda: not process.is_running or self.ask("/healthz").status == 200, _START_S, lambda: self.log)
            assert process.is_running, self.log
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._end()
        if error is not None:
            error.add_note(f"the server said:\n{self.log[-4000:]}")

    def _end(self) -> None:
        assert self._process is not None
        # Workers end with the process that started them; one that is killed would leave them.
        import signal  # noqa: PLC0415  # only here

        self._process.send(signal.SIGTERM)
        process = self._process
        until(lambda: not process.is_running, _START_S, lambda: f"it does not end\n{self.log}")
        process.kill()


def left(answer: Answer) -> dict[str, int]:
    """
    What `RateLimit` says is left, by policy; read by a library of structured fields.
    """
    return {name: parameters["r"] for name, parameters in _items(answer, "RateLimit")}


def policies(answer: Answer) -> dict[str, dict[str, Any]]:
    """
    What `RateLimit-Policy` says, by policy.
    """
    return dict(_items(answer, "RateLimit-Policy"))


def _items(answer: Answer, name: str) -> list[tuple[Any, dict[str, Any]]]:
    values = answer.headers.get_all(name) or []
    parsed: Any = http_sf.parse(", ".join(values).encode(), tltype="list")
    return list(parsed)
