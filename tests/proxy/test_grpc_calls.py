"""
Calls of gRPC through the proxy: a real client and a real server of grpcio, which know nothing of it.
"""

from __future__ import annotations

import json
from concurrent import futures
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from tidegate._sleep import now_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.proxy.proxying import here
else:
    from proxying import here

METHOD = "/hello.Greeter/Greet"
SETTINGS = {"upstream.protocol": "http2"}
PER_MINUTE = "version: 1\nrules: [{name: all, per: global, quotas: 2/minute}]\n"
PER_SECOND = "version: 1\nrules: [{name: all, per: global, quotas: 2/second}]\n"
REPEATS = {
    "methodConfig": [
        {
            "name": [{}],
            "retryPolicy": {
                "maxAttempts": 3,
                "initialBackoff": "0.001s",
                "maxBackoff": "0.002s",
                "backoffMultiplier": 1,
                "retryableStatusCodes": ["RESOURCE_EXHAUSTED"],
            },
        }
    ]
}
"""A client that repeats what was denied at once, unless it is told to wait."""


@contextmanager
def greeter() -> Iterator[str]:
    """
    Run a server of gRPC in this block that answers what it is sent; yield its URL.
    """
    handler: Any = grpc.unary_unary_rpc_method_handler(lambda sent, _: b"hello " + sent)
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("hello.Greeter", {"Greet": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def greet_by(client: grpc.Channel) -> Callable[[bytes], bytes]:
    """
    The method of the server, as a function.
    """
    method: Any = client.unary_unary(METHOD)
    return lambda sent: method(sent, timeout=30)


def channel(address: str, config: object = None) -> grpc.Channel:
    """
    A client, with its own idea of what to repeat.
    """
    options = [("grpc.service_config", json.dumps(config))] if config else [("grpc.enable_retries", 0)]
    return grpc.insecure_channel(address.removeprefix("http://"), [*options, ("grpc.enable_http_proxy", 0)])


def test_a_denied_call_is_resource_exhausted() -> None:
    """The client learns it in its own words, with the same fields as others."""
    with greeter() as server, here([server], PER_MINUTE, settings=SETTINGS) as proxy, channel(proxy) as client:
        greet = greet_by(client)
        answers = [greet(b"you") for _ in range(2)]
        with pytest.raises(grpc.RpcError) as denied:
            greet(b"you")

    error: Any = denied.value
    told = dict(error.trailing_metadata())
    assert [b"hello you"] * 2 == answers
    assert grpc.StatusCode.RESOURCE_EXHAUSTED == error.code()
    assert error.details().startswith("try again in ")
    assert 0 < int(told["retry-after"]) <= 60
    assert 0 < int(told["grpc-retry-pushback-ms"]) <= 60_000


def test_a_client_that_repeats_calls_waits_as_long_as_it_is_told() -> None:
    """Its third call is repeated once, when there is room again, and not after its own two milliseconds."""
    with greeter() as server, here([server], PER_SECOND, settings=SETTINGS) as proxy, channel(proxy, REPEATS) as client:
        greet = greet_by(client)
        begun_ns = now_ns()
        answers = [greet(b"you") for _ in range(3)]
        took_ns = now_ns() - begun_ns

    assert [b"hello you"] * 3 == answers
    # The window is one second long and begins with the first call: who came through earlier was let through too early.
    assert took_ns >= 1_000_000_000
