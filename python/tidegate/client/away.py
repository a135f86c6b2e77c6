"""
Why a service did not decide.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Reason: TypeAlias = Literal[
    "service_timeout",
    "service_unavailable",
    "service_error",
    "service_protocol_error",
    "service_refused",
    "service_breaker_open",
    "request_too_large",
]
"""What a decision says that was taken without the service: it took too long; nobody is there; it failed; it answered what makes no sense;
it does not want to be asked by us (the token, another version); it failed so often that it is not asked at all; or there are more facts
about this request than can be sent, which is the request's fault and not the service's."""


class Away(Exception):  # a state of the service; nobody outside of the client sees it
    """
    The service did not decide.

    Args:
        reason: Why.
        detail: The same for people. It holds nothing of the question.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason: Reason = reason
