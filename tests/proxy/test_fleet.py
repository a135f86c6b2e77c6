"""
Several proxies before several servers on one store: together they admit exactly what the rule says.
"""

from __future__ import annotations

import http.client
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.proxy.proxying import Running
    from tests.proxy.upstream import Upstream
    from tests.servers import Single
else:
    from proxying import Running
    from upstream import Upstream

LIMIT = 200
PROXIES = 3
SERVERS = 5
THREADS = 2
EACH = 60

RULES = f"""
version: 1
identity: [{{header: x-api-key}}, {{ip: {{}}}}]
rules:
  - {{name: per_client, per: client, quotas: {LIMIT}/hour}}
  - {{name: slots, match: {{path: /slow}}, per: client, quotas: 2 concurrent}}
"""


def test_a_fleet_admits_exactly_what_the_rule_says(server: Single, eventually: Eventually) -> None:
    """
    Three proxies, one store, five servers, 360 requests at once: 200 pass, each server gets its share, and slots are counted together too.
    """
    with ExitStack() as stack:
        servers = [stack.enter_context(Upstream()) for _ in range(SERVERS)]
        settings = {"store": server.url(), "budget": "5s", "secret": "of the fleet"}
        fleet = [stack.enter_context(Running([one.url for one in servers], RULES, settings)) for _ in range(PROXIES)]
        statuses: list[int] = []

        def load(proxy: Running) -> None:
            connection = http.client.HTTPConnection(proxy.address.removeprefix("http://"), timeout=30)
            for _ in range(EACH):
                connection.request("GET", "/", headers={"x-api-key": "everybody"})
                response = connection.getresponse()
                response.read()
                statuses.append(response.status)
            connection.close()

        threads = [threading.Thread(target=load, args=(proxy,)) for proxy in fleet for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert {200: LIMIT, 429: PROXIES * THREADS * EACH - LIMIT} == {status: statuses.count(status) for status in set(statuses)}
        counts = [one.count for one in servers]
        assert sum(counts) == LIMIT, "no denied request reached a server"
        assert min(counts) > 0

        _check_slots(fleet, servers, eventually)


def _check_slots(fleet: list[Running], servers: list[Upstream], eventually: Eventually) -> None:
    key = {"x-api-key": "slots"}
    before = sum(one.count for one in servers)
    held = [http.client.HTTPConnection(proxy.address.removeprefix("http://"), timeout=30) for proxy in fleet[:2]]
    for connection in held:
        connection.request("GET", "/slow", headers=key)
    eventually(lambda: sum(one.count for one in servers) == before + 2)
    assert 429 == fleet[2].ask("GET", "/slow", headers=key).status, "two proxies hold both slots"
    for connection in held:
        connection.close()

    def is_free() -> bool:
        probe = http.client.HTTPConnection(fleet[2].address.removeprefix("http://"), timeout=30)
        asked = sum(one.count for one in servers)
        probe.request("GET", "/slow", headers=key)
        try:
            probe.sock.settimeout(1)
            return probe.getresponse().status != http.client.TOO_MANY_REQUESTS
        except TimeoutError:
            return sum(one.count for one in servers) > asked
        finally:
            probe.close()

    eventually(is_free)
