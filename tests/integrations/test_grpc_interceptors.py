"""
Interceptors of gRPC servers: both kinds of servers, all four kinds of methods.
"""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from tidegate._protobuf import messages
from tidegate.errors import ConfigError
from tidegate.integrations.grpc import AsyncRateLimit, RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Eventually
    from tests.integrations.grpc_serving import METHODS, awaiting, blocking
    from tests.servers import Single
    from tests.service.running import here
else:
    from integrations.grpc_serving import METHODS, awaiting, blocking
    from service.running import here

both = pytest.mark.parametrize("serve", [blocking, awaiting])
Serve = Any
HEALTH = "/grpc.health.v1.Health/Check"


class Caller:
    """
    One channel to a server.
    """

    def __init__(self, address: str) -> None:
        # Any: the stub knows calls of generated messages only.
        self.channel: Any = grpc.insecure_channel(address)

    def call(self, request: bytes = b"x", method: str = "/shop.Orders/uu", **options: Any) -> tuple[bytes, dict[str, Any]]:  # noqa: ANN401  # as grpcio
        """
        One call with one answer, and its trailing metadata.
        """
        answer, call = self.channel.unary_unary(method).with_call(request, timeout=20, **options)
        return answer, dict(call.trailing_metadata())

    def error(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401  # as above
        """
        One call that ends with an error.
        """
        with pytest.raises(grpc.RpcError) as caught:
            self.call(*arguments, **options)
        return caught.value

    def of_kind(self, name: str) -> list[bytes]:
        """
        One call of a method of any kind.
        """
        kind = METHODS[name]
        request = iter([b"a", b"b"]) if kind.startswith("stream") else b"ab"
        answer = getattr(self.channel, kind)(f"/shop.Orders/{name}")(request, timeout=20)
        return list(answer) if kind.endswith("stream") else [answer]


@pytest.fixture
def caller() -> Iterator[Callable[[str], Caller]]:
    """
    Opens channels that are closed with the test.
    """
    opened: list[Caller] = []

    def connect(address: str) -> Caller:
        opened.append(Caller(address))
        return opened[-1]

    yield connect
    for one in opened:
        one.channel.close()


Connect = Any


@both
def test_exactly_the_limit_is_admitted(serve: Serve, caller: Connect) -> None:
    """
    The next call is denied before it reaches its handler, and told when to come back, in three ways.
    """
    with serve("3/hour") as (address, _):
        client = caller(address)
        admitted = [client.call() for _ in range(3)]
        denial = client.error(b"raise")
    told = dict(denial.trailing_metadata())
    status = messages()["google.rpc.Status"].FromString(told["grpc-status-details-bin"])
    info = messages()["google.rpc.RetryInfo"].FromString(status.details[0].value)

    assert ['"limit";r=2;t=3600', '"limit";r=1;t=3600', '"limit";r=0;t=3600'] == [metadata["ratelimit"] for _, metadata in admitted]
    assert grpc.StatusCode.RESOURCE_EXHAUSTED is denial.code()
    assert "try again in" in denial.details()
    assert 3590 < int(told["retry-after"]) <= 3600
    assert (8, "type.googleapis.com/google.rpc.RetryInfo") == (status.code, status.details[0].type_url)
    assert int(told["retry-after"]) - 1 <= info.retry_delay.seconds <= int(told["retry-after"])
    assert told["ratelimit-policy"] == '"limit";q=3;w=3600'


@both
@pytest.mark.parametrize("name", METHODS)
def test_methods_of_every_kind(serve: Serve, name: str, caller: Connect, eventually: Eventually) -> None:
    """
    Are counted once each, answer as without, and hold a slot no longer than they run.
    """
    with serve(["2/hour", "1 concurrent"]) as (address, guard):
        client = caller(address)
        answers = []
        for _ in range(2):
            answers.append(client.of_kind(name))
            eventually(lambda: guard.held == 0)
        with pytest.raises(grpc.RpcError) as caught:
            client.of_kind(name)

    assert {"uu": [b"ab"], "us": [b"ab"] * 3, "su": [b"ab"], "ss": [b"a", b"b"]}[name] == answers[0] == answers[1]
    assert "RESOURCE_EXHAUSTED" in str(caught.value)


@both
def test_slots_are_held_until_the_stream_ends(serve: Serve, caller: Connect, eventually: Eventually) -> None:
    """
    Also if the client goes away in the middle of it.
    """
    with serve("1 concurrent") as (address, guard):
        client = caller(address)
        stream = client.channel.unary_stream("/shop.Orders/us")(b"endless", timeout=30)
        assert b"endless" == next(stream)
        assert 1 == guard.held
        assert grpc.StatusCode.RESOURCE_EXHAUSTED is client.error().code()
        stream.cancel()
        eventually(lambda: guard.held == 0)

        assert b"x" == client.call()[0]


@both
def test_a_handler_may_fail(serve: Serve, caller: Connect, eventually: Eventually) -> None:
    """
    Its error is its own, its slot comes back, and what it says itself stays.
    """
    with serve(["100/hour", "1 concurrent"]) as (address, guard):
        client = caller(address)

        assert grpc.StatusCode.UNKNOWN is client.error(b"raise").code()
        eventually(lambda: guard.held == 0)
        aborted = client.error(b"abort")
        eventually(lambda: guard.held == 0)
        _, metadata = client.call(b"metadata")
        eventually(lambda: guard.held == 0)

        assert (grpc.StatusCode.NOT_FOUND, "nothing here") == (aborted.code(), aborted.details())
        assert "ratelimit" in dict(aborted.trailing_metadata())
        assert ("1", True) == (metadata["mine"], "ratelimit" in metadata)


@both
def test_health_is_free_and_other_things_can_be(serve: Serve, caller: Connect) -> None:
    """
    Load balancers ask often. Who says what is exempt says all of it.
    """
    with serve("1/hour") as (address, _):
        client = caller(address)
        assert {b"x"} == {client.call(method=HEALTH)[0] for _ in range(5)}
        assert b"x" == client.call()[0]
        assert grpc.StatusCode.RESOURCE_EXHAUSTED is client.error().code()
        assert grpc.StatusCode.UNIMPLEMENTED is client.error(method="/shop.Orders/nothing").code()
    with serve("1/hour", exempt=["/shop.Orders/*"]) as (address, _):
        client = caller(address)
        assert {b"x"} == {client.call()[0] for _ in range(5)}
        assert b"x" == client.call(method=HEALTH)[0]
        assert grpc.StatusCode.RESOURCE_EXHAUSTED is client.error(method=HEALTH).code()


@both
def test_metadata_says_who_is_counted(serve: Serve, caller: Connect) -> None:
    """
    A call without a key, or with a function that fails, is counted by address and not free.
    """
    with serve("1/hour", key=lambda context: dict(context.invocation_metadata())["x-api-key"]) as (address, _):
        client = caller(address)
        for key in ("a", "b", "c" * 1000):
            assert b"x" == client.call(metadata=[("x-api-key", key), ("x-blob-bin", b"\x00")])[0]
            assert grpc.StatusCode.RESOURCE_EXHAUSTED is client.error(metadata=[("x-api-key", key)]).code()
        assert b"x" == client.call()[0]
        assert grpc.StatusCode.RESOURCE_EXHAUSTED is client.error().code()


@both
def test_rules_see_calls_as_requests(serve: Serve, caller: Connect, tmp_path: Path) -> None:
    """
    The full name of a method is a path, and metadata are headers.
    """
    (tmp_path / "rules.yaml").write_text(
        "version: 1\nidentity: [{header: x-api-key}, {ip: {}}]\n"
        "rules: [{name: orders, match: {path: /shop.Orders/*, method: POST}, per: client, quotas: 1/hour}]\n",
        encoding="utf-8",
    )
    with serve(rules=tmp_path / "rules.yaml", headers=False) as (address, _):
        client = caller(address)
        assert {} == client.call(metadata=[("x-api-key", "a")])[1]
        assert b"x" == client.call()[0]
        denial = client.error()

        assert {"retry-after", "grpc-status-details-bin"} == set(dict(denial.trailing_metadata()))
        assert "try again" in denial.details()


@both
def test_a_service_decides(serve: Serve, caller: Connect, eventually: Eventually, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With `service=` the counters are there, and slots are given back to it.
    """
    # The budget of a client is shorter than a busy machine may take.
    monkeypatch.setattr("tidegate.client.options.BUDGET", 10.0)
    rules = "version: 1\nrules: [{name: all, per: global, quotas: [3/hour, 1 concurrent]}]\n"
    with here(rules) as service, serve(service=f"http://{service.addresses['http']}") as (address, guard):
        client = caller(address)
        for _ in range(3):
            assert b"x" == client.call()[0]
            eventually(lambda: guard.held == 0)

        assert grpc.StatusCode.RESOURCE_EXHAUSTED is client.error().code()


@both
def test_two_servers_share_a_store(serve: Serve, caller: Connect, eventually: Eventually, server: Single) -> None:
    """
    With `store=` they admit the limit together, and what one holds the other cannot take.
    """
    where = {"store": f"{server.url()}?prefix=grpc-{serve.__name__}-{os.getpid()}:&connect_timeout=10s", "budget": 20.0}
    with serve(["3/hour", "1 concurrent"], **where) as (first, guard), serve(["3/hour", "1 concurrent"], **where) as (second, other):
        one, two = caller(first), caller(second)
        stream = one.channel.unary_stream("/shop.Orders/us")(b"endless", timeout=30)
        assert b"endless" == next(stream)
        assert grpc.StatusCode.RESOURCE_EXHAUSTED is two.error().code()
        stream.cancel()
        for client in (two, one):
            # A denied call takes nothing. The slot is given back, and the store hears of it a moment later.
            eventually(functools.partial(_is_answered, client))
        eventually(lambda: guard.held + other.held == 0)

        assert ["0", "0"] == [_left(client.error()) for client in (one, two)]


def _is_answered(client: Caller) -> bool:
    try:
        return client.call()[0] == b"x"
    except grpc.RpcError as denial:
        assert grpc.StatusCode.RESOURCE_EXHAUSTED is denial.code()  # noqa: PT017  # most of them are none
        return False


def _left(denial: Any) -> str:  # noqa: ANN401  # as grpcio
    # The tightest quota is the one of which nothing is left for an hour.
    found = re.search(r"r=(\d+);t=3[0-9]{3}", dict(denial.trailing_metadata())["ratelimit"])
    assert found is not None
    return found[1]


@pytest.mark.parametrize("kind", [RateLimit, AsyncRateLimit])
def test_wrong_arguments_are_told(kind: Any) -> None:  # noqa: ANN401  # a class
    """
    When the interceptor is made.
    """
    with pytest.raises(ConfigError):
        kind()
    with pytest.raises(ConfigError):
        kind("1/hour", rules="rules.yaml")
