"""
Clients of gRPC that are not ours and know nothing of our messages but what reflection tells them.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.gateways.gateway import Missing, find_program
    from tests.gateways.starting import open_service
    from tests.service.running import Running
else:
    from gateways.gateway import Missing, find_program
    from gateways.starting import open_service

RLS = "envoy.service.ratelimit.v3.RateLimitService"
HEALTH = "grpc.health.v1.Health"


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    """
    A service with rules of its own and without descriptors.
    """
    with open_service("envoy/rules.yaml") as service:
        yield service


class Buf:
    """
    The command `buf curl`, which is written in Go.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def list_services(self) -> set[str]:
        """
        What there is.
        """
        return set(self._run("--list-services", f"http://{self._address}").splitlines())

    def call(self, method: str, request: dict[str, Any]) -> dict[str, Any]:
        """
        Asks once.
        """
        answer: dict[str, Any] = json.loads(self._run("--data", json.dumps(request), f"http://{self._address}/{method}"))
        return answer

    def _run(self, *words: str) -> str:
        try:
            program = find_program("buf", "the wheel buf-bin")
        except Missing as missing:
            pytest.skip(str(missing))
        argv = [program, "curl", "--http2-prior-knowledge", "--protocol", "grpc", *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
        assert 0 == done.returncode, done.stderr
        return done.stdout


class Python:
    """
    The package `grpcio`, which is written in C++.
    """

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._known = ProtoReflectionDescriptorDatabase(self._channel)
        self._pool = DescriptorPool(self._known)

    def list_services(self) -> set[str]:
        """
        What there is.
        """
        return set(self._known.get_services())

    def call(self, method: str, request: dict[str, Any]) -> dict[str, Any]:
        """
        Asks once.
        """
        service, _, name = method.partition("/")
        described = self._pool.FindServiceByName(service).FindMethodByName(name)
        question, answer = (message_factory.GetMessageClass(kind) for kind in (described.input_type, described.output_type))
        ask = self._channel.unary_unary(f"/{method}", question.SerializeToString, answer.FromString)
        return json_format.MessageToDict(ask(json_format.ParseDict(request, question()), timeout=10))

    def close(self) -> None:
        """
        Ends its threads.
        """
        self._channel.close()


@pytest.fixture(params=["buf", "grpcio"])
def client(request: pytest.FixtureRequest, service: Running) -> Iterator[Buf | Python]:
    """
    Each of them.
    """
    if request.param == "buf":
        yield Buf(service.grpc)
        return
    client = Python(service.grpc)
    yield client
    client.close()


def question(**attributes: str) -> dict[str, Any]:
    """
    A request for one descriptor.
    """
    return {"domain": "edge", "descriptors": [{"entries": [{"key": key, "value": value} for key, value in attributes.items()]}]}


def test_reflection_names_the_services(client: Buf | Python) -> None:
    """
    Those that can be called.
    """
    assert client.list_services() >= {RLS, HEALTH}


def test_a_request_is_counted_and_denied(client: Buf | Python, key: str) -> None:
    """
    With everything that an answer has, by names that reflection gave.
    """
    ask = question(api_key=key, method="POST", path="/orders/1")

    answers = [client.call(f"{RLS}/ShouldRateLimit", ask) for _ in range(4)]

    assert ["OK", "OK", "OK", "OVER_LIMIT"] == [answer["overallCode"] for answer in answers]
    status = answers[3]["statuses"][0]
    assert "OVER_LIMIT" == status["code"]
    assert (3, "MINUTE") == (status["currentLimit"]["requestsPerUnit"], status["currentLimit"]["unit"])
    assert status["durationUntilReset"].endswith("s")
    assert {"retry-after", "ratelimit"} <= {header["key"].lower() for header in answers[3]["responseHeadersToAdd"]}


@pytest.mark.parametrize("name", ["", RLS, "ratelimit"])
def test_the_service_is_healthy(client: Buf | Python, name: str) -> None:
    """
    Under all its names.
    """
    assert {"status": "SERVING"} == client.call(f"{HEALTH}/Check", {"service": name})
