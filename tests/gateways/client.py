"""
The client of a gateway.
"""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any

HERE = "127.0.0.1"

SOMEBODY = "127.0.0.2"
"""An address of this machine that is not the gateway's."""

BALANCER = "127.0.0.9"
"""Another one, which stands for a load balancer in front of the gateway: where the examples trust 10.0.0.0/8, tests trust this one."""


@dataclass(frozen=True)
class Answer:
    """
    What came back.

    Args:
        status: The status.
        headers: Names in lower case. Values of a name that occurs several times are joined by commas.
        body: The body.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - whatever it says
        """
        The body, read.
        """
        return json.loads(self.body)


class Client:
    """
    One connection to a gateway for each request.

    Args:
        port: Where the gateway listens.
        source: The address from which the client comes. All of 127.0.0.0/8 is this machine.
        headers: What it always sends.
    """

    def __init__(self, port: int, *, source: str = SOMEBODY, **headers: str) -> None:
        self._port = port
        self._source = source
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def ask(self, method: str, path: str, *, body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        """
        Asks, and reads all of the answer.
        """
        connection = http.client.HTTPConnection(HERE, self._port, timeout=10, source_address=(self._source, 0))
        try:
            connection.request(method, path, body=body, headers={**self._headers, **(headers or {})})
            answer = connection.getresponse()
            found: dict[str, str] = {}
            for name, value in answer.getheaders():
                known = found.get(name.lower())
                found[name.lower()] = value if known is None else f"{known}, {value}"
            return Answer(answer.status, found, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        """
        Asks for something.
        """
        return self.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, path: str, **headers: str) -> Answer:
        """
        Sends something.
        """
        return self.ask("POST", path, body=b"{}", headers={name.replace("_", "-"): value for name, value in headers.items()})
