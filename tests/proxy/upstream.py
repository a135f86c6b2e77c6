"""
A server behind a proxy: a child process that runs `upstream_app.py`.

    with Upstream() as upstream:
        upstream.url        # http://127.0.0.1:41234
        upstream.count      # how many requests came, without those for the count
"""

from __future__ import annotations

import http.client
import re
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from tests.servers.process import Process, new_folder
    from tests.servers.waiting import until
else:
    from servers.process import Process, new_folder
    from servers.waiting import until

_PROGRAM = Path(__file__).parent / "upstream_app.py"
_PORT = re.compile(r"[Rr]unning on https?://127\.0\.0\.\d:(\d+)")
_START_S = 30.0


class Upstream:
    """
    A child process on a free port. It ends with the test.

    Args:
        secured_by: A certificate and its key, for TLS; and who signs the certificates of clients, if they must have one.
        host: The address that it listens on.
        port: The port; 0 is a free one.
        is_http2: Whether it also speaks HTTP/2, with TLS or without.
    """

    def __init__(self, *secured_by: Path, host: str = "127.0.0.1", port: int = 0, is_http2: bool = False) -> None:
        self.secured_by = [str(path) for path in secured_by]
        self.log_file: Path = new_folder("upstream") / "log"
        self.host = host
        self.port = port
        self.options = ["--http2"] if is_http2 else []
        self._process: Process | None = None

    @property
    def url(self) -> str:
        """
        Its address, as settings have it.
        """
        return f"{'https' if self.secured_by else 'http'}://{self.host}:{self.port}"

    @property
    def count(self) -> int:
        """
        How many requests came.
        """
        return int(self._ask("GET", "/count"))

    @property
    def process(self) -> Process:
        """
        The child: `kill`, `freeze`, `thaw`.
        """
        assert self._process is not None, "it was not started"
        return self._process

    def be(self, word: str) -> None:
        """
        Lets it be `ill`, so that it answers 503, or `well` again.
        """
        self._ask("POST", f"/{word}")

    def _ask(self, method: str, path: str) -> bytes:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        if self.secured_by:
            trusting = ssl.create_default_context()
            trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
            connection = http.client.HTTPSConnection(self.host, self.port, timeout=10, context=trusting)
        try:
            connection.request(method, path)
            return connection.getresponse().read()
        finally:
            connection.close()

    def start(self) -> Self:
        """
        Starts it; after an end, on the same port.
        """
        said = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._process = Process(
            [sys.executable, str(_PROGRAM), *self.options, self.host, str(self.port), *self.secured_by], log=self.log_file
        )

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
