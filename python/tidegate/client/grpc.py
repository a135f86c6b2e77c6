"""
Questions over gRPC, in the words of Envoy's rate limit service.

One channel serves threads and tasks alike: a task waits for the same call as a thread would, and is woken by the channel's own thread.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tidegate._protobuf import messages
from tidegate._sleep import now_ns
from tidegate.client.away import Away
from tidegate.client.decision import RemoteDecision, RemoteQuotaStatus, retry_field
from tidegate.client.message import BODY_MAX
from tidegate.errors import ConfigError, UsageError

if TYPE_CHECKING:
    import asyncio

    from tidegate.client.address import Address
    from tidegate.client.away import Reason
    from tidegate.client.facts import Question

_METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
_HEALTH = "/grpc.health.v1.Health/Check"
_OK, _OVER_LIMIT = 1, 2
_SERVING = 1
_UNLIMITED = 2**32 - 1
_SECOND = 1_000_000_000
_OPTIONS = [
    ("grpc.max_receive_message_length", BODY_MAX),
    # The client asks by itself whether the service is back, and that must not find a channel that waits for minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_retries", 0),
]
_REASONS: dict[str, Reason] = {
    "DEADLINE_EXCEEDED": "service_timeout",
    "UNAVAILABLE": "service_unavailable",
    "RESOURCE_EXHAUSTED": "request_too_large",
    "INVALID_ARGUMENT": "service_refused",
    "UNIMPLEMENTED": "service_refused",
    "UNAUTHENTICATED": "service_refused",
    "PERMISSION_DENIED": "service_refused",
    "FAILED_PRECONDITION": "service_refused",
}


class GrpcTransport:
    """
    The way to the port of gRPC.

    Args:
        address: Where it is.
        domain: The domain of the service's rules.
        credentials: With TLS: whom to trust, and who one is, as PEM.
    """

    has_slots = False

    def __init__(self, address: Address, domain: str, credentials: tuple[bytes | None, bytes | None, bytes | None] | None) -> None:
        try:
            import grpc  # noqa: PLC0415  # an extra: see `tidegate[grpc]`
        except ImportError:
            raise ConfigError("an address with grpc:// needs grpcio: pip install 'tidegate[grpc]', or use http://") from None
        self._grpc: Any = grpc
        self._address = address
        self._credentials = credentials
        self._domain = domain
        self._process = 0
        self._is_closed = False
        self._messages = messages()
        self._channel: Any = None
        self._should: Any = None
        self._open()

    def ask(self, question: Question, deadline_ns: int) -> RemoteDecision | bool:
        """
        As `HttpTransport.ask`.

        Raises:
            Away: There is no answer that makes sense.
            UsageError: The protocol has no such question.
        """
        request = self._request(question)
        try:
            answer = self._method()(request, timeout=max(0.0, (deadline_ns - now_ns()) / _SECOND))
        except self._grpc.RpcError as error:
            raise _away(error.code()) from None
        return self._read(answer, question)

    async def ask_async(self, question: Question, deadline_ns: int) -> RemoteDecision | bool:
        """
        As `ask`, while other tasks run.
        """
        import asyncio  # noqa: PLC0415  # programs that block never need it

        request = self._request(question)
        call = self._method().future(request, timeout=max(0.0, (deadline_ns - now_ns()) / _SECOND))
        loop = asyncio.get_running_loop()
        is_done = loop.create_future()
        call.add_done_callback(lambda _: _wake(loop, is_done))
        try:
            await is_done
        except BaseException:
            call.cancel()
            raise
        if call.code() is not self._grpc.StatusCode.OK:
            raise _away(call.code())
        return self._read(call.result(), question)

    def probe(self, budget_ns: int) -> bool:
        """
        As `HttpTransport.probe`.
        """
        self._method()
        read = self._messages["envoy.HealthCheckResponse"].FromString
        ask = self._channel.unary_unary(_HEALTH, request_serializer=None, response_deserializer=read)
        answer = ask(b"", timeout=budget_ns / _SECOND, wait_for_ready=True)
        return bool(answer.status == _SERVING)

    def close(self) -> None:
        """
        Ends the channel.
        """
        self._is_closed = True
        if self._process == os.getpid():
            self._channel.close()

    def _open(self) -> None:
        grpc = self._grpc
        target = f"unix:{self._address.path}" if self._address.path else self._address.authority
        options = [*_OPTIONS, ("grpc.default_authority", "localhost")] if self._address.path else _OPTIONS
        if self._credentials is None:
            self._channel = grpc.insecure_channel(target, options)
        else:
            ca, key, certificate = self._credentials
            self._channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(ca, key, certificate), options)
        self._should = self._channel.unary_unary(
            _METHOD,
            request_serializer=None,  # The size is checked before it is sent.
            response_deserializer=self._messages["envoy.RateLimitResponse"].FromString,
        )
        self._process = os.getpid()

    def _method(self) -> Any:  # noqa: ANN401  # a call of grpcio
        # A forked child needs a channel of its own. grpcio is asked for it late: see its notes on forking.
        if self._process != os.getpid():
            self._open()
        return self._should

    def _request(self, question: Question) -> bytes:
        if question.kind not in {"check", "peek", "debit"} or question.lease is not None or question.max_delay is not None:
            raise UsageError("Envoy's protocol has no leases, no delays and no reset: use the service's http:// address for them")
        if question.cost is not None and question.cost >= _UNLIMITED:
            raise UsageError("a cost over gRPC is below 2**32: use the service's http:// address for larger ones")
        facts = {**question.facts, "tidegate": "debit"} if question.kind == "debit" else question.facts
        make = self._messages
        entries = [make["envoy.Entry"](key=_plain(key), value=_plain(value)) for key, value in facts.items()]
        descriptor = make["envoy.Descriptor"](entries=entries)
        if question.kind == "peek" or question.cost == 0:
            descriptor.hits_addend.value = 0
        # A cost of 0 asks whether one unit of nothing fits: that is what the rules say it costs.
        request = make["envoy.RateLimitRequest"](domain=self._domain, descriptors=[descriptor], hits_addend=question.cost or 0)
        encoded: bytes = request.SerializeToString()
        if len(encoded) > BODY_MAX:
            raise Away("request_too_large", "there are more facts about the request than can be sent")
        return encoded

    def _read(self, answer: Any, question: Question) -> RemoteDecision:  # noqa: ANN401  # a message
        if len(answer.statuses) != 1 or answer.overall_code not in {_OK, _OVER_LIMIT}:
            raise Away("service_protocol_error", "the service answers what makes no sense: not one status for one descriptor")
        (status,) = answer.statuses
        allowed = answer.overall_code == _OK
        is_limited = status.HasField("current_limit")
        wait_ns = status.duration_until_reset.seconds * _SECOND if status.HasField("duration_until_reset") else None
        wait_ns = wait_ns if wait_ns is None or wait_ns >= 0 else None
        retry_after_ns = 0 if allowed else wait_ns
        name, limit = status.current_limit.name, status.current_limit.requests_per_unit if is_limited else None
        remaining = status.limit_remaining if is_limited and status.limit_remaining < _UNLIMITED else None
        quota = RemoteQuotaStatus(
            name=name, quota=name, rule=name, allowed=allowed, limit=limit, remaining=remaining, retry_after_ns=retry_after_ns
        )
        told = tuple((field.key, field.value) for field in answer.response_headers_to_add)
        return RemoteDecision(
            allowed=allowed,
            cost=1 if question.cost is None else question.cost,
            limit=limit,
            remaining=remaining,
            retry_after_ns=retry_after_ns,
            reset_after_ns=wait_ns or 0,
            rule=name or None,
            rules=(name,) if name else (),
            quotas=(quota,) if is_limited else (),
            header_fields=told or retry_field(retry_after_ns, allowed=allowed),
            question=question,
        )


def _away(code: Any) -> Away:  # noqa: ANN401  # a status of grpcio
    return Away(_REASONS.get(code.name, "service_error"), f"the service answers {code.name}")


def _plain(text: str) -> str:
    """
    A text that protobuf can carry: lone surrogates are spelled as the compiled module spells them.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text


def _wake(loop: asyncio.AbstractEventLoop, is_done: asyncio.Future[None]) -> None:
    # The loop may have ended before the call did.
    if not loop.is_closed():
        loop.call_soon_threadsafe(lambda: None if is_done.done() else is_done.set_result(None))
