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
    from servers import Single
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


def test_a_proxy_and_the_store_may_be_killed(eventually: Eventually) -> None:
    """What a dead proxy counted stays counted; without the store the others go on by the rule's policy, and with it they count again."""
    rules = RULES.replace("quotas: 200/hour", "quotas: 30/hour, on_store_error: allow")
    with ExitStack() as stack:
        behind, server = stack.enter_context(Upstream()), stack.enter_context(Single())
        settings = {"store": server.url(), "budget": "5s", "secret": "of the fleet"}
        dies, *others = [stack.enter_context(Running([behind.url], rules, settings)) for _ in range(PROXIES)]
        key = {"x-api-key": "everybody"}
        assert [200] * 10 == [dies.ask("GET", "/", headers=key).status for _ in range(10)]
        dies.process.kill()
        statuses = [others[number % 2].ask("GET", "/", headers=key).status for number in range(30)]
        assert [200] * 20 + [429] * 10 == statuses

        server.node.freeze()
        try:
            # The budget is over, or the store is known to be away: either way the rule lets pass.
            assert {200} == {proxy.ask("GET", "/", headers={"x-api-key": "other"}).status for proxy in others}
        finally:
            server.node.thaw()
        eventually(lambda: others[0].ask("GET", "/", headers=key).status == http.client.TOO_MANY_REQUESTS, within=30)


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
