"""
A client of the port of gRPC that knows only what reflection tells it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import grpc
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

RATE_LIMIT = "envoy.service.ratelimit.v3.RateLimitService"
HEALTH = "grpc.health.v1.Health"

_KNOWN: dict[str, tuple[Any, Any]] = {}
"""Messages by call. They are the same for all services, so one is asked once."""


class Client:
    """
    One connection.

    Args:
        address: Where the port is.
    """

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)

    def ask(self, domain: str, descriptors: list[dict[str, Any]], hits_addend: int = 0, **options: Any) -> dict[str, Any]:  # noqa: ANN401  # as grpcio
        """
        Asks `ShouldRateLimit` once. Field names are those of the protocol; `entries` are pairs.
        """
        asked = [{**given, "entries": [{"key": key, "value": value} for key, value in given["entries"]]} for given in descriptors]
        return self.call(RATE_LIMIT, "ShouldRateLimit", {"domain": domain, "hits_addend": hits_addend, "descriptors": asked}, **options)

    def call(self, service: str, method: str, request: dict[str, Any], **options: Any) -> dict[str, Any]:  # noqa: ANN401  # as grpcio
        """
        Makes one call.
        """
        question, answer = self._messages(service, method)
        ask = self._channel.unary_unary(f"/{service}/{method}", question.SerializeToString, answer.FromString)
        return _read(ask(json_format.ParseDict(request, question()), **{"timeout": 10, **options}))

    def stream(self, service: str, method: str, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """
        Makes one call whose answers come one by one.
        """
        question, answer = self._messages(service, method)
        ask = self._channel.unary_stream(f"/{service}/{method}", question.SerializeToString, answer.FromString)
        return map(_read, ask(json_format.ParseDict(request, question()), timeout=30))

    def _messages(self, service: str, method: str) -> tuple[Any, Any]:
        name = f"{service}/{method}"
        if name not in _KNOWN:
            pool = DescriptorPool(ProtoReflectionDescriptorDatabase(self._channel))
            found = pool.FindServiceByName(service).FindMethodByName(method)
            _KNOWN[name] = (message_factory.GetMessageClass(found.input_type), message_factory.GetMessageClass(found.output_type))
        return _KNOWN[name]

    def close(self) -> None:
        """
        Ends it, and its threads.
        """
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def _read(message: Any) -> dict[str, Any]:  # noqa: ANN401  # a message of a kind that nobody knew before
    return json_format.MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
