"""
Quotas of customers, wherever a request comes in, and wherever counters live: over HTTP, forward-auth, gRPC and the proxy.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import httpx
import pytest

from tidegate import Client
from tidegate.control.roles import Role
from tidegate.proxy import Proxy
from tidegate.proxy import load as load_proxy
from tidegate.service.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Eventually
    from tests.control.controlling import settings_for, token_of
    from tests.servers import Single
else:
    from controlling import settings_for, token_of

RULES = """
version: 1
identity: [{header: x-api-key}]
rules:
  - {name: calls, per: client, quotas: 1/day, tiers: {pro: 3/day}}
  - {name: tenants, per: tenant, quotas: 1/day}
"""
WITHIN = 30.0
KEYS = {
    "own": {"quotas": {"calls": "2/day"}},
    "tier": {"tier": "pro"},
    "tenant": {"tenant": "acme", "quotas": {"calls": "100/day"}},
    "nobody": None,
    "blocked": None,
}
"""What each key is given. The tenant has four a day, and `pro` three."""
GRANTED = {"own": 2, "tier": 3, "tenant": 4, "nobody": 1, "blocked": 0}


class Answering(BaseHTTPRequestHandler):
    """
    What stands behind the proxy.
    """

    def do_GET(self) -> None:
        """
        Answers whoever comes through.
        """
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """
        Says nothing.
        """


@contextmanager
def upstream() -> Iterator[str]:
    """
    A server behind the proxy: its address.
    """
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def over_http(service: Service, _stack: ExitStack) -> Callable[[str], bool]:
    """
    The check of the API.
    """
    url = f"http://{service.addresses['http']}/api/v1/rate-limit/check"
    return lambda key: bool(httpx.post(url, json={"headers": {"x-api-key": key}}, timeout=30).json()["allowed"])


def over_forward_auth(service: Service, _stack: ExitStack) -> Callable[[str], bool]:
    """
    As gateways ask.
    """
    url = f"http://{service.addresses['http']}/api/v1/rate-limit/forward-auth"
    return lambda key: httpx.get(url, headers={"x-api-key": key}, timeout=30).is_success


def over_grpc(service: Service, stack: ExitStack) -> Callable[[str], bool]:
    """
    As Envoy asks.
    """
    client = stack.enter_context(Client(f"grpc://{service.addresses['grpc']}", budget=20, on_service_error="deny"))
    return lambda key: client.allow({"headers": {"x-api-key": key}})


def over_proxy(service: Service, _stack: ExitStack) -> Callable[[str], bool]:
    """
    As customers come in.
    """
    url = f"http://{service.addresses['proxy']}/"
    return lambda key: httpx.get(url, headers={"x-api-key": key}, timeout=30).status_code == 204


FACES = {"http": over_http, "forward-auth": over_forward_auth, "grpc": over_grpc, "proxy": over_proxy}


@contextmanager
def serving(face: str, store: str, folder: Path) -> Iterator[Service]:
    """
    A service, or a proxy, with its control plane.
    """
    (folder / "rules.yaml").write_text(RULES, encoding="utf-8")
    more: dict[str, str | bool] = {"store": store, "secret": folder.name, "budget": "5s"}
    address = f"sqlite:///{folder}/tidegate.db"
    if face != "proxy":
        with Service(settings_for(address, folder, {**more, "grpc.listen": "127.0.0.1:0"})) as service:
            yield service
        return
    with upstream() as behind:
        flags = more | {"proxy.listen": "127.0.0.1:0", "upstreams": behind, "admin.listen": "127.0.0.1:0", "admin.database": address}
        flags |= {"rules": str(folder / "rules.yaml"), "http.listen": "127.0.0.1:0", "workers": "1", "shutdown.grace": "0"}
        with Proxy(load_proxy(environment={}, flags=flags)) as proxy:
            yield proxy


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest) -> str:
    """
    Where counters live: here, or on a real server.
    """
    if request.param == "memory":
        return "memory://"
    server: Single = request.getfixturevalue("server")
    return server.url()


@pytest.mark.parametrize("face", FACES)
def test_what_a_customer_was_given_holds_wherever_it_comes_in(face: str, store: str, tmp_path: Path, eventually: Eventually) -> None:
    """Own quotas, those of its tier and of its tenant, and a block: exactly as many requests pass as the control plane says."""
    with serving(face, store, tmp_path) as service, ExitStack() as stack:
        give(service)
        # It was given last, and who is blocked is charged nothing.
        eventually(lambda: not service.limiter.peek({"headers": {"x-api-key": f"{tmp_path.name}-blocked"}}).allowed, WITHIN)
        ask = FACES[face](service, stack)
        passed = {key: sum(ask(f"{tmp_path.name}-{key}") for _ in range(granted + 2)) for key, granted in GRANTED.items()}

    assert GRANTED == passed


def give(service: Service) -> None:
    """
    Gives customers what they have, as somebody with a token does.
    """
    assert service.control is not None
    folder = service.settings["secret"]
    headers = {"authorization": f"Bearer {token_of(service.control, Role.EDITOR)}"}
    with httpx.Client(base_url=f"http://{service.addresses['admin']}", headers=headers, timeout=30) as client:
        answers = [client.put("/admin/v1/tenants/acme", json={"quotas": {"tenants": "4/day"}})]
        answers += [client.put(f"/admin/v1/quotas/{folder}-{key}", json=given) for key, given in KEYS.items() if given is not None]
        answers.append(client.put(f"/admin/v1/blocks/{folder}-blocked", json={"reason": "fraud"}))

    assert [] == [answer.text for answer in answers if not answer.is_success]
