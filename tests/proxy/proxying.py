"""
A real proxy on free ports: a child process, or in this one.

    with Running([upstream.url], RULES) as proxy:
        answer = proxy.ask("GET", "/hello")
        proxy.address       # http://127.0.0.1:41234
"""

from __future__ import annotations

import http.client
import json
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from tidegate.proxy import Proxy, load

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from tests.servers import StartFailed
    from tests.servers.process import Process, new_folder
    from tests.servers.waiting import until
else:
    from servers import StartFailed
    from servers.process import Process, new_folder
    from servers.waiting import until

NO_RULES = "version: 1\nrules: []\n"
SETTINGS: dict[str, Any] = {
    "proxy.listen": "127.0.0.1:0",
    "http.listen": "127.0.0.1:0",
    "workers": 1,
    "shutdown.grace": "0s",
}
"""What tests have unless they say otherwise: free ports, one thread, no time to wait at the end."""
CHECKS: dict[str, Any] = {
    "upstream.check_path": "/healthz",
    "upstream.check_interval": "100ms",
    "upstream.check_timeout": "5s",
    "upstream.check_unhealthy": 2,
    "upstream.check_healthy": 1,
    "upstream.slow_start": "0s",
}
"""Servers are looked at ten times a second, and are away after two bad looks."""

_PORT = re.compile(r"^  (http|grpc|proxy) +(\S+)$", re.MULTILINE)
_START_S = 30.0


@dataclass(frozen=True)
class Answer:
    """
    A response.
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


def ask(address: str, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Answer:
    """
    Sends one request on a connection of its own.
    """
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
    try:
        connection.request(method, path, body=body, headers=dict(headers or {}))
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


class Running:
    """
    A child process that runs `tidegate proxy`. It ends with the test.

    Args:
        upstreams: Addresses of servers.
        rules: The text of the rules.
        settings: Settings by their keys.
        config: The text of a file of settings.
        environment: Variables beside those of this process.
    """

    def __init__(
        self,
        upstreams: Sequence[str],
        rules: str = NO_RULES,
        settings: Mapping[str, Any] | None = None,
        *,
        config: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder = new_folder("proxy")
        self.config_file = folder / "tidegate.yaml"
        self.rules_file = folder / "rules.yaml"
        self.environment = environment
        self.log_file = folder / "log"
        _replace(self.rules_file, rules)
        chosen = {"rules": self.rules_file, **SETTINGS, **(settings or {})}
        self.words = [word for key, value in chosen.items() for word in (f"--{key.replace('.', '-').replace('_', '-')}", str(value))]
        self.words += [word for url in upstreams for word in ("--upstream", url)]
        if config is not None:
            self.configure(config)
            self.words += ["--config", str(self.config_file)]
        self.addresses: dict[str, str] = {}
        self._process: Process | None = None

    @property
    def address(self) -> str:
        """
        Where clients come in.
        """
        return self.addresses["proxy"]

    @property
    def process(self) -> Process:
        """
        The child.
        """
        assert self._process is not None, "it was not started"
        return self._process

    @property
    def log(self) -> str:
        """
        Everything that it said.
        """
        return self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""

    def ask(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        """
        Asks the proxy.
        """
        return ask(self.address, method, path, body, headers)

    def configure(self, text: str) -> None:
        """
        Writes another file of settings, as a whole.
        """
        _replace(self.config_file, text)

    def rule(self, text: str) -> None:
        """
        Writes other rules, as a whole.
        """
        _replace(self.rules_file, text)

    def metric(self, name: str) -> float:
        """
        A sample of the page of metrics, by its name and labels.
        """
        page = ask(self.addresses["http"], "GET", "/metrics").body.decode()
        return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(name))

    def reasons(self) -> list[str]:
        """
        Why it is not ready, or not as it should be.
        """
        return [reason["code"] for reason in ask(self.addresses["http"], "GET", "/readyz").json["reasons"]]

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

    def __enter__(self) -> Self:
        self._process = Process([sys.executable, "-m", "tidegate", "proxy", *self.words], log=self.log_file, env=self.environment)
        until(lambda: not self.process.is_running or "\nstop: " in self.log, _START_S, lambda: self.log)
        if not self.process.is_running:
            raise StartFailed(self.log)
        self.addresses = dict(_PORT.findall(self.log))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.process.kill()
        if error is not None:
            error.add_note(f"the proxy said:\n{self.log[-4000:]}")


def _replace(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


@contextmanager
def here(upstreams: Sequence[str], rules: str = NO_RULES, settings: Mapping[str, Any] | None = None) -> Iterator[str]:
    """
    The same in this process, which starts faster; answers its address.
    """
    folder = new_folder("proxy")
    (folder / "rules.yaml").write_text(rules, encoding="utf-8")
    chosen = {"rules": folder / "rules.yaml", "watch": False, **SETTINGS, **(settings or {}), "upstreams": ",".join(upstreams)}
    flags = {key: value if isinstance(value, bool) else str(value) for key, value in chosen.items()}
    with Proxy(load(environment={}, flags=flags)) as proxy:
        yield f"http://{proxy.addresses['proxy']}"
