"""
Many at once: exactly what the rules allow, whoever asks.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING

from tidegate import Client

if TYPE_CHECKING:
    from tests.client.conftest import Connect
    from tests.service.running import Running
    from tidegate.service import Service
else:
    from service.running import Running

RULES = "version: 1\nrules: [{name: all, per: client, quotas: 500/hour}]\n"


def ask(address: str, count: int) -> int:
    """
    How many of so many questions were allowed, by a process of its own.
    """
    with Client(address, budget=20, on_service_error="deny") as client:
        decisions = [client.check({"client": "all of them"}) for _ in range(count)]
    assert not any(decision.degraded for decision in decisions)
    return sum(decision.allowed for decision in decisions)


def test_four_processes_through_one_service() -> None:
    """
    Two of them over HTTP and two over gRPC: a thousand requests, and five hundred pass.
    """
    with Running(RULES) as service, ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        addresses = [service.http, f"grpc://{service.grpc}"] * 2

        assert 500 == sum(pool.map(ask, addresses, [250] * 4))


def test_threads_and_tasks_share_a_client(connect: Connect) -> None:
    """
    Threads that block and loops of their own, over eight connections.
    """

    def in_loop(client: Client) -> int:
        async def many() -> list[bool]:
            return await asyncio.gather(*(client.allow_async({"client": "c"}) for _ in range(100)))

        return sum(asyncio.run(many()))

    with Running(RULES) as service, ThreadPoolExecutor(8) as pool:
        client = connect(service.http, budget=30, connections=8, on_service_error="deny")
        loops = [pool.submit(in_loop, client) for _ in range(3)]
        threads = [pool.submit(lambda: sum(client.allow({"client": "c"}) for _ in range(100))) for _ in range(5)]

        assert 500 == sum(future.result() for future in loops + threads)
        assert {} == client.health().degraded


def test_one_connection_is_shared_by_many_tasks(service: Service, connect: Connect) -> None:
    """
    They wait for it one after the other.
    """
    client = connect(f"http://{service.addresses['http']}", budget=30, connections=1)

    async def many() -> list[bool]:
        decisions = await asyncio.gather(*(client.check_async({"client": "x"}) for _ in range(50)))
        return [decision.degraded for decision in decisions]

    assert [False] * 50 == asyncio.run(many())


def test_a_forked_child_has_connections_of_its_own(service: Service, connect: Connect) -> None:
    """
    Parent and child ask at the same time, and each gets its own answers.
    """
    client = connect(f"http://{service.addresses['http']}", budget=20)
    assert not client.check({"client": "parent"}).degraded
    child = os.fork()
    if child == 0:
        try:
            is_well = all(not client.check({"client": "child", "path": "/few"}).degraded for _ in range(20))
            os._exit(0 if is_well else 1)
        finally:
            os._exit(2)
    decisions = [client.check({"client": "parent"}) for _ in range(20)]

    assert (child, 0) == os.waitpid(child, 0)
    assert not any(decision.degraded for decision in decisions)


def test_closing_while_others_ask(service: Service, connect: Connect) -> None:
    """
    Whoever asks gets an answer or is told that it is closed; nobody waits for ever.
    """
    client = connect(f"http://{service.addresses['http']}")
    ended = []

    def work() -> None:
        try:
            while True:
                client.check({"client": "x"})
        except ValueError:
            ended.append(True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    client.close()
    for thread in threads:
        thread.join(30)

    assert [True] * 4 == ended
