"""
A real service on free ports: a child process, or in this one.

    with Running("rules: [{name: all, per: global, quotas: 3/minute}]") as service:
        answer = service.ask("POST", "/api/v1/rate-limit/check", {"client_id": "abc"})
        service.http, service.grpc      # http://127.0.0.1:41234, 127.0.0.1:43211
        service.send(signal.SIGTERM)
        service.wait()                  # its exit code
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from tidegate.service import Service, load

if TYPE_CHECKING:
    import signal
    import ssl
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from tests.servers import StartFailed
    from tests.servers.process import Process, new_folder
    from tests.servers.waiting import until
else:
    from servers import StartFailed
    from servers.process import Process, new_folder
    from servers.waiting import until

RULES = "version: 1\nrules: [{name: everybody, per: global, quotas: 3/minute}]\n"
SETTINGS: dict[str, Any] = {
    "http.listen": "127.0.0.1:0",
    "grpc.listen": "127.0.0.1:0",
    "admin.listen": "off",
    "workers": 1,
    "shutdown.grace": 0,
}
"""What tests have unless they say otherwise: free ports, no control plane, one thread, no time to wait at the end."""

_PORT = re.compile(r"^  (http|grpc|admin) +(\S+)$", re.MULTILINE)
_START_S = 30.0


@dataclass(frozen=True)
class Answer:
    """
    A response of the HTTP port.
    """

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401  # whatever it answers
        """
        The body, read as JSON.
        """
        return json.loads(self.body)


class _Unix(http.client.HTTPConnection):
    """
    HTTP over a socket in the file system.
    """

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(  # noqa: PLR0913  # a request has as many parts
    address: str,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    *,
    context: ssl.SSLContext | None = None,
) -> Answer:
    """
    Sends one request on a connection of its own.

    Args:
        address: Such as `http://127.0.0.1:8080`, or `unix:/path`.
        method: The method.
        path: The path, with its query.
        body: Bytes, or what is sent as JSON.
        headers: Header fields.
        context: With `https`: whom to trust, and who one is.
    """
    scheme, _, rest = address.partition("://")
    connection: http.client.HTTPConnection
    if address.startswith("unix:"):
        connection = _Unix(address.removeprefix("unix:"), 10)
    elif scheme == "https":
        connection = http.client.HTTPSConnection(rest, timeout=10, context=context)
    else:
        connection = http.client.HTTPConnection(rest, timeout=10)
    is_json = body is not None and not isinstance(body, bytes)
    sent = json.dumps(body).encode() if is_json else body
    fields = {"content-type": "application/json"} if is_json else {}
    try:
        connection.request(method, path, body=sent, headers={**fields, **(headers or {})})  # type: ignore[arg-type]  # bytes or nothing
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


class Running:
    """
    A child process that runs `tidegate serve`, with rules of its own. It ends with the test.

    Args:
        rules: The text of the rules.
        settings: Settings by their keys; `None` takes the default of the product instead of that of the tests.
        env: More variables of its environment.
        arguments: More words of the command line.
    """

    def __init__(
        self,
        rules: str = RULES,
        settings: Mapping[str, Any] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        arguments: tuple[str, ...] = (),
    ) -> None:
        self.folder: Path = new_folder("service")
        self.log_file = self.folder / "log"
        self.rules_file = self.folder / "rules.yaml"
        self.write_rules(rules)
        self.settings = {"rules": self.rules_file, **SETTINGS, **(settings or {})}
        self.env = env
        self.arguments = arguments
        self.addresses: dict[str, str] = {}
        self._process: Process | None = None

    @property
    def process(self) -> Process:
        """
        The child: its number, `kill`, `freeze`, `thaw`.
        """
        assert self._process is not None, "it was not started"
        return self._process

    @property
    def http(self) -> str:
        """
        The HTTP port: `http://127.0.0.1:41234`, or `unix:/path`.
        """
        return self.addresses["http"]

    @property
    def grpc(self) -> str:
        """
        The gRPC port as clients of gRPC write it: `127.0.0.1:41234`, or `unix:/path`.
        """
        return self.addresses["grpc"]

    @property
    def log(self) -> str:
        """
        Everything that it said.
        """
        return self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""

    def write_rules(self, text: str) -> None:
        """
        Replaces the rules on disk, as one step.
        """
        new = self.folder / "rules.new"
        new.write_text(text, encoding="utf-8")
        new.rename(self.rules_file)

    def start(self) -> Self:
        """
        Starts it, and waits until it listens. After an end, it starts again on the same ports.
        """
        said = len(self.log)
        words = [sys.executable, "-m", "tidegate", "serve", *flags_of(self.settings), *self.arguments]
        self._process = Process(words, log=self.log_file, env=self.env)
        try:
            until(lambda: not self.process.is_running or bool(addresses_in(self.log[said:])), _START_S, lambda: self.log)
        except TimeoutError:
            self.process.kill()
            raise
        if not self.process.is_running:
            raise StartFailed(self.log[said:])
        self.addresses = addresses_in(self.log[said:])
        for port, address in self.addresses.items():
            if not address.startswith("unix:"):
                self.settings[f"{port}.listen"] = address.rpartition("//")[2]
        return self

    def send(self, number: signal.Signals) -> None:
        """
        Sends a signal.
        """
        self.process.send(number)

    def wait(self, within: float = 30.0) -> int:
        """
        Waits for its end, and answers its exit code.
        """
        until(lambda: not self.process.is_running, within, lambda: f"it still runs\n{self.log}")
        code = self.process.exit_code
        assert code is not None
        return code

    def kill(self) -> None:
        """
        SIGKILL. Nothing happens if it has ended.
        """
        if self._process is not None:
            self._process.kill()

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        """
        Asks the HTTP port; see `ask`.
        """
        return ask(self.http, method, path, body, headers)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.kill()
        if error is not None:
            error.add_note(f"the service said:\n{self.log[-4000:]}")


@contextmanager
def here(rules: str = RULES, settings: Mapping[str, Any] | None = None) -> Iterator[Service]:
    """
    The same in this process, which starts faster: `service.addresses`, without a scheme.
    """
    folder = new_folder("service")
    (folder / "rules.yaml").write_text(rules, encoding="utf-8")
    chosen = {"rules": folder / "rules.yaml", "watch": False, **SETTINGS, **(settings or {})}
    flags = {key: value if isinstance(value, bool) else str(value) for key, value in chosen.items() if value is not None}
    with Service(load(environment={}, flags=flags)) as service:
        yield service


def addresses_in(log: str) -> dict[str, str]:
    """
    Where a service listens, by what it said; nothing until it has said all.
    """
    if "\nstop: " in log:
        return dict(_PORT.findall(log))
    for line in log.splitlines():
        if line.startswith("{") and line.endswith("}") and json.loads(line)["message"].startswith("serving "):
            said: dict[str, str] = json.loads(line)
            return {port: f"http://{said[port]}" if port == "http" else said[port] for port in ("http", "grpc") if port in said}
    return {}


def flags_of(settings: Mapping[str, Any]) -> list[str]:
    """
    Settings as words of a command line.
    """
    words: list[str] = []
    for key, value in settings.items():
        flag = key.replace(".", "-").replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words += [f"--{flag}", str(value)]
    return words
