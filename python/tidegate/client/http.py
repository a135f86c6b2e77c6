"""
Questions over HTTP.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tidegate._sleep import now_ns
from tidegate.client import exchange
from tidegate.client.answer import read_decision, read_flag
from tidegate.client.away import Away
from tidegate.client.message import BODY_MAX, request_head
from tidegate.client.pool import Pool
from tidegate.errors import ConfigError, UsageError

if TYPE_CHECKING:
    import ssl

    from tidegate.client.address import Address
    from tidegate.client.decision import RemoteDecision
    from tidegate.client.facts import Question
    from tidegate.client.message import ResponseReader

_TOKEN = re.compile(r"[!-~]+")
_FLAGS = {"release": "released", "renew": "renewed", "reset": "reset"}
_OK = 200
_TOO_LARGE = 413
_SERVER_ERROR = 500
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class HttpTransport:
    """
    The way to the port of HTTP.

    Args:
        address: Where it is.
        token: What the service wants to see, if anything.
        connections: The most connections at a time.
        context: With TLS: whom to trust, and who one is.
    """

    has_slots = True

    def __init__(self, address: Address, token: str | None, connections: int, context: ssl.SSLContext | None) -> None:
        if token is not None and not (isinstance(token, str) and _TOKEN.fullmatch(token)):
            raise ConfigError("the token is a text of printable letters without spaces")
        head = request_head(address.authority, token)
        self._question = f" HTTP/1.1\r\n{head}content-type: application/json\r\ncontent-length: "
        self._health = f"GET /healthz HTTP/1.1\r\n{head}\r\n".encode()
        self._pool = Pool(address, connections, context)

    def ask(self, question: Question, deadline_ns: int) -> RemoteDecision | bool:
        """
        Asks, and waits.

        Args:
            question: What is asked.
            deadline_ns: Until when there has to be an answer.

        Returns:
            The decision, or whether it was done.

        Raises:
            Away: There is no answer that makes sense.
            UsageError: The service understood the question, and it makes no sense.
        """
        return _read(exchange.run(self._pool, self._request(question), deadline_ns), question)

    async def ask_async(self, question: Question, deadline_ns: int) -> RemoteDecision | bool:
        """
        As `ask`, while other tasks run.
        """
        return _read(await exchange.run_async(self._pool, self._request(question), deadline_ns), question)

    def probe(self, budget_ns: int) -> bool:
        """
        Asks the service how it is.

        Args:
            budget_ns: How long it may take.

        Returns:
            Whether it is well.
        """
        return exchange.run(self._pool, self._health, now_ns() + budget_ns).status == _OK

    def close(self) -> None:
        """
        Ends all connections.
        """
        self._pool.close()

    def _request(self, question: Question) -> bytes:
        said: dict[str, Any] = {"attributes": question.facts}
        if question.kind not in _FLAGS:
            said["fields"] = True
        if question.cost is not None:
            said["cost"] = question.cost
        if question.lease is not None:
            said["lease"] = question.lease
        if question.max_delay is not None:
            said["max_delay"] = question.max_delay
        try:
            body = _encode(said).encode()
        except UnicodeEncodeError:
            # A value with lone surrogates is still somebody's: it is spelled as the compiled module spells it.
            body = _encode(said).encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
        if len(body) > BODY_MAX:
            raise Away("request_too_large", "there are more facts about the request than can be sent")
        return f"POST /api/v1/rate-limit/{question.kind}{self._question}{len(body)}\r\n\r\n".encode() + body


def _read(response: ResponseReader, question: Question) -> RemoteDecision | bool:
    if response.status == _OK:
        flag = _FLAGS.get(question.kind)
        return read_decision(response.body, question) if flag is None else read_flag(response.body, flag)
    if response.status >= _SERVER_ERROR:
        raise Away("service_error", f"the service answers {response.status}")
    if response.status == _TOO_LARGE:
        raise Away("request_too_large", "there are more facts about the request than the service takes")
    if question.kind == "reset" and response.status in {401, 403}:
        raise UsageError("the service lets only operators reset: give the client its token=, or ask from the same machine")
    raise Away("service_refused", f"the service answers {response.status}: {_HINTS.get(response.status, 'is it another version?')}")


_HINTS = {401: "give the client its token=", 403: "give the client its token=", 404: "is it another program, or another version?"}
