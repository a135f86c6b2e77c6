"""
The answer to a request that was not sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self

LOCAL_FIELD = "Tidegate-Refused"
"""The header that tells answers of this client from those of the server. Its value is `wait` or `throttle`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    Why a request was not sent, as a response that callers know how to handle.

    Args:
        status: 429 if it would have had to wait for too long, 503 if the server sheds load.
        reason: `wait` or `throttle`.
        title: The same in words.
        wait_ns: How long it would have had to wait; `None` if nobody knows.
    """

    status: int
    reason: str
    title: str
    wait_ns: int | None = None

    @classmethod
    def waiting(cls, wait_ns: int | None) -> Self:
        """
        The wait is longer than the caller wants.

        Args:
            wait_ns: The wait.

        Returns:
            A 429.
        """
        return cls(429, "wait", "Not sent: the wait until it may be sent is too long", wait_ns)

    @classmethod
    def throttled(cls) -> Self:
        """
        The server sheds load.

        Returns:
            A 503.
        """
        return cls(503, "throttle", "Not sent: the server sheds load")

    def fields(self) -> dict[str, str]:
        """
        Tells the fields of the response.

        Returns:
            The fields, with `Retry-After` if the wait is known.
        """
        fields = {"Content-Type": "application/problem+json", "Content-Length": str(len(self.body())), LOCAL_FIELD: self.reason}
        if self.wait_ns is not None:
            fields["Retry-After"] = str(max(1, -(-self.wait_ns // 1_000_000_000)))
        return fields

    def body(self) -> bytes:
        """
        Tells the same to people.

        Returns:
            A problem (RFC 9457) in JSON.
        """
        return json.dumps({"type": "about:blank", "title": self.title, "status": self.status}).encode()
