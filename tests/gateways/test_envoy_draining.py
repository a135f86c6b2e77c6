"""
Instances of the service come and go behind Envoy, and no request is lost.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.gateways.client import Client
    from tests.gateways.conftest import StartGateway, StartService
    from tests.gateways.gateway import Gateway

HEALTHY = "cluster.tidegate.membership_healthy"


class Traffic:
    """
    Asks without a pause from the beginning to the end of a `with` block.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.statuses: list[int] = []

    def _run(self) -> None:
        while not self._is_over.is_set():
            # Each asks as another customer, so that none of them is denied.
            self.statuses.append(self._client.get("/", x_api_key=f"customer-{len(self.statuses)}").status)

    def __enter__(self) -> list[int]:
        self._thread.start()
        return self.statuses

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


def healthy(envoy: Gateway) -> int:
    """
    How many instances Envoy asks.
    """
    return envoy.stats(HEALTHY)[""]


def test_an_instance_that_ends_costs_no_request(start_service: StartService, start_gateway: StartGateway, eventually: Eventually) -> None:
    """
    It says so first, Envoy turns to the other one, and nobody is refused although Envoy refuses whom it cannot ask for.
    """
    leaving, staying = (start_service("envoy/rules.yaml", {"shutdown.grace": 4}) for _ in range(2))
    endpoint = "              - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: PORT}}}\n"
    changes = {
        "failure_mode_deny: false": "failure_mode_deny: true",
        "interval: 1s": "interval: 0.1s",
        "port_value: 8081}\n": "port_value: 8081}\n" + endpoint.replace("PORT", staying.grpc.rpartition(":")[2]),
    }
    envoy = start_gateway("envoy", leaving, changes)
    eventually(lambda: healthy(envoy) == 2)

    with Traffic(envoy.client()) as statuses:
        eventually(lambda: len(statuses) > 20)
        leaving.send(signal.SIGTERM)
        eventually(lambda: healthy(envoy) == 1)
        is_still_there = leaving.process.is_running
        assert 0 == leaving.wait()
        seen = len(statuses)
        eventually(lambda: len(statuses) > seen + 20)

    assert is_still_there, "it serves on until everybody knows"
    assert {200} == set(statuses)


def test_the_only_instance_that_ends_is_not_asked_any_more(
    start_service: StartService, start_gateway: StartGateway, eventually: Eventually
) -> None:
    """
    Envoy does not wait for an answer that does not come: its failure mode decides at once.
    """
    service = start_service("envoy/rules.yaml", {"shutdown.grace": 1})
    envoy = start_gateway("envoy", service, {"interval: 1s": "interval: 0.1s"})
    eventually(lambda: healthy(envoy) == 1)

    service.send(signal.SIGTERM)

    eventually(lambda: healthy(envoy) == 0)
    answer = envoy.client(x_api_key="somebody").get("/")
    assert 200 == answer.status
    assert "x-ratelimit-limit" not in answer.headers
