"""
Slots that several proxies share: who is killed gives them back when their lease is over, and a store that hangs or dies ends no response.
"""

from __future__ import annotations

import http.client
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

import websockets.sync.client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Eventually
    from tests.proxy.proxying import Running
    from tests.proxy.upstream import Upstream
    from tests.servers import Single
else:
    from proxying import Running
    from servers import Single

LIMIT = 2
LEASE_S = 3
TRIES = LIMIT + 2
RULES = f"""
version: 1
identity: [{{header: x-api-key}}]
rules:
  - {{name: slots, match: {{path: [/, /events]}}, per: client, quotas: {LIMIT} concurrent ttl {LEASE_S}s}}
  - {{name: strict, match: {{path: /strict}}, per: client, quotas: 100000/hour, on_store_error: deny}}
"""
KEY = {"x-api-key": "somebody"}


@contextmanager
def held(proxy: Running, times: int = TRIES) -> Iterator[int]:
    """
    Asks so often for responses that do not end; answers how many began, which go on until the end of the block.
    """
    with ExitStack() as stack:
        began = 0
        for _ in range(times):
            connection = http.client.HTTPConnection(proxy.address.removeprefix("http://"), timeout=30)
            stack.callback(connection.close)
            connection.request("GET", "/events", headers=KEY)
            response = connection.getresponse()
            stack.callback(response.close)
            began += response.status == http.client.OK
        yield began


def room(proxy: Running) -> int:
    """How many responses find a slot at this moment."""
    with held(proxy) as began:
        return began


def rooms(proxy: Running, eventually: Eventually, seconds: float) -> list[int]:
    """
    The same, again and again for some time.
    """
    begun, seen = perf_counter(), []

    def is_over() -> bool:
        seen.append(room(proxy))
        return perf_counter() - begun > seconds

    eventually(is_over, within=seconds + 30)
    return seen


@contextmanager
def web_socket(proxy: Running) -> Iterator[Callable[[str], str | bytes]]:
    """
    A WebSocket, which holds a slot as long as it lives; answers what it is told.
    """
    with websockets.sync.client.connect(proxy.address.replace("http", "ws"), additional_headers=KEY, proxy=None) as client:

        def told(word: str) -> str | bytes:
            client.send(word)
            return client.recv(timeout=20)

        yield told


def is_counted(proxy: Running) -> bool:
    """Whether the store decides."""
    return proxy.ask("GET", "/strict", headers=KEY).status == http.client.OK


def test_slots_of_a_proxy_that_is_killed_come_back(upstream: Upstream, eventually: Eventually) -> None:
    """Responses hold them for longer than a lease; after a death they are free when the last lease is over, and not one too many."""
    with Single() as store:
        settings = {"store": store.url(), "budget": "5s", "secret": "of the fleet"}
        with Running([upstream.url], RULES, settings) as dies, Running([upstream.url], RULES, settings) as lives:
            with held(dies) as began:
                assert LIMIT == began
                assert {0} == set(rooms(lives, eventually, 2 * LEASE_S)), "leases are renewed"
                dies.process.kill()
                killed = perf_counter()
            eventually(lambda: room(lives) > 0, within=30)
            took = perf_counter() - killed
            seen = rooms(lives, eventually, 1)

    # The last renewal was a third of a lease before the death, or a little more on a busy machine.
    assert took > LEASE_S / 3
    assert max(seen) == LIMIT


def test_a_slot_is_held_through_a_moment_without_the_store(upstream: Upstream, eventually: Eventually) -> None:
    """The store hangs and goes on: what runs was not interrupted, and holds its slot for as long as before."""
    with Single() as store, Running([upstream.url], RULES, {"store": store.url(), "budget": "500ms"}) as proxy:
        with web_socket(proxy) as told:
            eventually(lambda: room(proxy) == LIMIT - 1)
            store.freeze()
            eventually(lambda: not is_counted(proxy))
            assert "hello" == told("hello")
            store.thaw()
            eventually(lambda: is_counted(proxy), within=45)
            seen = rooms(proxy, eventually, 2 * LEASE_S)
            assert "goodbye" == told("goodbye")
        eventually(lambda: room(proxy) == LIMIT)

    assert LIMIT - 1 == max(seen), "one is held, and the other one is free"


def test_a_response_outlives_the_store(upstream: Upstream, eventually: Eventually) -> None:
    """A store that is killed and back without its data knows of no slot: what runs goes on, and its end gives nothing back."""
    with Single() as store, Running([upstream.url], RULES, {"store": store.url(), "budget": "500ms"}) as proxy:
        with web_socket(proxy) as told:
            eventually(lambda: room(proxy) == LIMIT - 1)
            store.kill()
            eventually(lambda: not is_counted(proxy))
            assert "hello" == told("hello")
            store.restart()
            eventually(lambda: is_counted(proxy), within=45)
            assert "goodbye" == told("goodbye")
        eventually(lambda: room(proxy) == LIMIT, within=20)
        seen = rooms(proxy, eventually, 1)

    assert LIMIT == max(seen)
