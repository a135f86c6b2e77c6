"""
What gateways that ask over HTTP do when the service, or its store, does not answer. All of them at once in front of one service.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conftest import Eventually
    from tests.gateways.client import Client
    from tests.gateways.conftest import StartGateway
    from tests.gateways.gateway import KINDS, Missing
    from tests.gateways.starting import open_service
    from tests.gateways.upstream import Upstream
    from tests.servers.ports import free_port
    from tests.service.running import Running

    Clients = Mapping[str, Client]
else:
    from gateways.gateway import KINDS, Missing
    from gateways.starting import open_service
    from servers.ports import free_port

GONE = {"nginx": 200, "traefik": 500, "caddy": 200, "caddy-short": 502, "haproxy": 200, "envoy-ext-authz": 200}
"""What a request gets when nobody listens: the example lets it through, or cannot."""

PATIENT = {"traefik", "caddy-short"}
"""Those that wait for half a minute for an answer, and cannot be told otherwise."""


class StartAll(Protocol):
    """
    Starts every gateway that is installed.
    """

    def __call__(self, service: Running, *, is_patient: bool = False) -> Clients:
        """
        A client of each.
        """


@pytest.fixture
def start_all(start_gateway: StartGateway) -> StartAll:
    """
    Starts every gateway that is installed, and gives a client of each.
    """

    def start(service: Running, *, is_patient: bool = False) -> Clients:
        installed = [name for name in GONE if is_installed(name)]
        return {name: start_gateway(name, service, is_patient=is_patient).client(x_api_key=f"customer-of-{name}") for name in installed}

    return start


def is_installed(name: str) -> bool:
    """
    Whether a gateway is on this machine. The tests of what each has to do say which ones are not.
    """
    try:
        KINDS[name].find()
    except Missing:
        return False
    return True


def orders(clients: Clients, times: int = 1) -> dict[str, list[int]]:
    """
    What orders by each client are answered.
    """
    return {name: [client.post("/orders/1").status for _ in range(times)] for name, client in clients.items()}


def is_limited(client: Client) -> bool:
    """
    Whether it was denied by now.
    """
    return client.post("/orders/1").status == 429


def test_a_service_that_dies_and_comes_back(start_all: StartAll, eventually: Eventually) -> None:
    """
    Without it each gateway does what its file says; with it limits are in force again, and nobody had to tell the gateway.
    """
    with open_service("rules.yaml") as service:
        clients = start_all(service)
        assert {name: [200] for name in clients} == orders(clients)

        service.kill()

        assert {name: [GONE[name]] * 4 for name in clients} == orders(clients, 4)

        service.start()

        for client in clients.values():
            eventually(partial(is_limited, client), within=30)


def test_a_service_that_does_not_answer(start_all: StartAll) -> None:
    """
    Its connections stay open, and nothing comes back. Who can be told to wait no longer does not.
    """
    with open_service("rules.yaml") as service:
        clients = {name: client for name, client in start_all(service).items() if name not in PATIENT}

        service.process.freeze()

        assert {name: [200, 200] for name in clients} == orders(clients, 2)


def test_a_rule_that_denies_without_its_store_is_obeyed(start_all: StartAll, upstream: Upstream) -> None:
    """
    No gateway takes it for a failure of the service, after which it would let requests through.
    """
    nobody = f"redis://127.0.0.1:{free_port()}"
    with open_service("rules.yaml", {"store": nobody, "on_store_error": "deny"}) as service:
        clients = start_all(service, is_patient=True)
        upstream.seen.clear()

        answers = {name: client.post("/orders/1") for name, client in clients.items()}

    assert dict.fromkeys(clients, 429) == {name: answer.status for name, answer in answers.items()}
    assert [] == [name for name, answer in answers.items() if "retry-after" not in answer.headers]
    assert [] == upstream.seen
