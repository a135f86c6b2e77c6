"""
Messages of gRPC, made when they are first needed and known to nobody else.

Generated files would tie Tidegate to one version of protobuf, and would clash with a program's own copies of Envoy's and Google's messages
in the table that all generated files share. These have a table of their own, and only the fields that are used; others are skipped.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from tidegate.errors import ConfigError

# Numbers of protobuf's own for kinds of fields.
_KINDS = {"uint32": 13, "uint64": 4, "int32": 5, "int64": 3, "bool": 8, "string": 9, "bytes": 12}
_MESSAGE = 11
_OPTIONAL, _REPEATED = 1, 3

_MESSAGES: dict[str, str] = {
    "google.protobuf.Duration": "int64 seconds = 1; int32 nanos = 2",
    "google.protobuf.Any": "string type_url = 1; bytes value = 2",
    "google.protobuf.UInt64Value": "uint64 value = 1",
    "google.rpc.Status": "int32 code = 1; string message = 2; repeated google.protobuf.Any details = 3",
    "google.rpc.RetryInfo": "google.protobuf.Duration retry_delay = 1",
    "envoy.Entry": "string key = 1; string value = 2",
    "envoy.Descriptor": "repeated envoy.Entry entries = 1; google.protobuf.UInt64Value hits_addend = 3",
    "envoy.RateLimitRequest": "string domain = 1; repeated envoy.Descriptor descriptors = 2; uint32 hits_addend = 3",
    "envoy.RateLimit": "uint32 requests_per_unit = 1; string name = 3",
    "envoy.DescriptorStatus": (
        "int32 code = 1; envoy.RateLimit current_limit = 2; uint32 limit_remaining = 3; google.protobuf.Duration duration_until_reset = 4"
    ),
    "envoy.HeaderValue": "string key = 1; string value = 2",
    "envoy.RateLimitResponse": (
        "int32 overall_code = 1; repeated envoy.DescriptorStatus statuses = 2; repeated envoy.HeaderValue response_headers_to_add = 3"
    ),
    "envoy.HealthCheckResponse": "int32 status = 1",
}
"""What is read and written of the messages, in the words of `.proto` files. An enum is a number on the wire."""


@dataclass(frozen=True, slots=True)
class Messages:
    """
    The classes of the messages.

    Args:
        classes: By their names.
    """

    classes: dict[str, Any]

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # a class that nobody knew before
        return self.classes[name]


@functools.cache
def messages() -> Messages:
    """
    Makes the classes, once.

    Returns:
        The classes.

    Raises:
        ConfigError: protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: PLC0415  # an extra: see `tidegate[grpc]`
    except ImportError:
        raise ConfigError("messages of gRPC need protobuf: pip install 'tidegate[grpc]'") from None
    file = descriptor_pb2.FileDescriptorProto(name="tidegate/messages.proto", package="tidegate", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=_local(name))
        for text in fields.split("; "):
            _add(message, text)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return Messages({name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"tidegate.{_local(name)}")) for name in _MESSAGES})


def _add(message: Any, text: str) -> None:  # noqa: ANN401  # a descriptor
    words = text.split()
    is_repeated = words[0] == "repeated"
    kind, name, _, number = words[is_repeated:]
    field = message.field.add(name=name, number=int(number), label=_REPEATED if is_repeated else _OPTIONAL)
    if kind in _KINDS:
        field.type = _KINDS[kind]
    else:
        field.type, field.type_name = _MESSAGE, f".tidegate.{_local(kind)}"


def _local(name: str) -> str:
    """
    Names are free as long as nobody else sees them: on the wire there are numbers only.
    """
    return name.replace(".", "_")
