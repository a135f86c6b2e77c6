"""
Slots that a service lends: held, renewed and given back over HTTP.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tidegate import RuleLimiter
from tidegate.errors import Denied, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.client.conftest import RULES, Connect
    from tests.conftest import Eventually
    from tests.service.running import here
    from tidegate import Client
    from tidegate.service import Service

    Facts = Callable[..., dict[str, Any]]
else:
    from client.conftest import RULES
    from service.running import here


@pytest.fixture
def client(service: Service, connect: Connect) -> Client:
    """
    A client over HTTP.
    """
    return connect(f"http://{service.addresses['http']}")


def test_a_slot_is_held_while_the_block_runs(client: Client, facts: Facts) -> None:
    """
    And given back when it ends, also by an exception.
    """
    attributes = facts("/slots")
    with client.slot(attributes) as slot, client.slot(attributes):
        assert slot.held
        assert slot.renew()
        assert 30.0 == client.lease_ttl
        with pytest.raises(Denied), client.slot(attributes):
            pytest.fail("a third one")
    with pytest.raises(ZeroDivisionError), client.slot(attributes):
        raise ZeroDivisionError

    assert 2 == client.peek(attributes).remaining


def test_a_slot_is_held_while_an_async_block_runs(client: Client, facts: Facts) -> None:
    """
    Leaving it waits until the slot is given back.
    """

    async def hold() -> tuple[int | None, int | None]:
        async with client.slot(facts("/slots")) as slot:
            assert await client.renew_async(slot.decision)
            left = (await client.peek_async(facts("/slots"))).remaining
        return left, (await client.peek_async(facts("/slots"))).remaining

    assert (1, 2) == asyncio.run(hold())


def test_waiting_for_a_slot(client: Client, facts: Facts) -> None:
    """
    Until somebody gives one back.
    """

    async def both() -> None:
        async def work() -> None:
            async with client.slot(facts("/slots"), 2, timeout=30):
                await asyncio.sleep(0.01)  # noqa: TID251  # the work

        await asyncio.gather(work(), work(), work())

    asyncio.run(both())

    assert 2 == client.peek(facts("/slots")).remaining


def test_a_cancelled_task_gives_its_slot_back(client: Client, facts: Facts, eventually: Eventually) -> None:
    """
    While it holds one, and while it asks for one.
    """

    async def cancel() -> None:
        holding = asyncio.Event()

        async def work() -> None:
            async with client.slot(facts("/slots")):
                holding.set()
                await asyncio.Event().wait()

        held, asking = asyncio.create_task(work()), asyncio.create_task(work())
        await holding.wait()
        held.cancel()
        asking.cancel()
        await asyncio.gather(held, asking, return_exceptions=True)
        # What was cancelled while it asked is given back by a task of its own.
        await asyncio.to_thread(eventually, lambda: client.peek(facts("/slots")).remaining == 2)

    asyncio.run(cancel())

    assert 2 == client.peek(facts("/slots")).remaining


def test_a_slot_by_hand(client: Client, facts: Facts) -> None:
    """
    The same lease is the same slot, and what was given back is gone.
    """
    attributes = facts("/slots")
    first = client.check(attributes, lease="abc")
    again = client.check(attributes, lease="abc")

    assert first.lease == again.lease == "abc".zfill(32)
    assert 1 == client.peek(attributes).remaining
    assert [True, True, False, False] == [
        client.renew(first),
        client.release(first),
        client.release(first),
        client.renew(first),
    ]


def test_a_lost_slot_is_told(connect: Connect, facts: Facts) -> None:
    """
    The service forgot it, as if its lease had expired.
    """
    with here(RULES) as service:
        client = connect(f"http://{service.addresses['http']}")
        with client.slot(facts("/slots")) as slot:
            assert client.reset(facts("/slots"))
            assert not slot.renew()
            assert slot.lost


def test_a_delay_is_waited_for(client: Client, facts: Facts) -> None:
    """
    A `leaky_bucket` says when to start, and who cannot wait so long is not charged.
    """
    delays = [client.check(facts("/paced")).delay for _ in range(3)]

    assert 0.0 == delays[0]
    assert 0 < delays[1] < delays[2]
    assert not client.check(facts("/paced"), max_delay=0.01).allowed
    assert not client.wait(facts("/paced"), timeout=1).allowed
    assert delays[2] < client.check(facts("/paced")).delay <= 180
    assert [True] * 3 == [client.wait(facts("/brief"), timeout=20).allowed for _ in range(3)]


def test_headers_are_those_of_the_service(client: Client, connect: Connect, facts: Facts) -> None:
    """
    As its settings want them; and of a rule that is not to be talked about only the wait is told.
    """
    quiet = [client.check(facts("/quiet"), cost).headers() for cost in (5, 1)]
    with here(RULES, {"headers.x_ratelimit": "delta"}) as service:
        more = connect(f"http://{service.addresses['http']}").check(facts("/few")).headers()

    assert {"RateLimit-Policy": '"few";q=5;w=3600', "RateLimit": '"few";r=4;t=3600'} == client.check(facts("/few")).headers()
    assert {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} <= set(more)
    assert [set(), {"Retry-After"}] == [set(headers) for headers in quiet]


def test_what_grpc_cannot_carry_is_refused(service: Service, connect: Connect, facts: Facts) -> None:
    """
    With a word on what to do.
    """
    client = connect(f"grpc://{service.addresses['grpc']}")
    decision = client.check(facts("/few"))
    calls: list[Callable[[], object]] = [
        lambda: client.slot(facts("/slots")),
        lambda: client.check(facts("/few"), lease="abc"),
        lambda: client.check(facts("/few"), max_delay=1),
        lambda: client.reset(facts("/few")),
        lambda: client.check(facts("/few"), 2**32),
    ]
    for call in calls:
        with pytest.raises(UsageError, match="http://"):
            call()

    assert not client.release(decision)
    assert client.lease_ttl is None


def test_receipts_of_others_are_refused(client: Client, facts: Facts, tmp_path: Path) -> None:
    """
    A client knows its own decisions only; and a service takes nothing back but slots.
    """
    (tmp_path / "rules.yaml").write_text(RULES, encoding="utf-8")
    with RuleLimiter(tmp_path / "rules.yaml") as library:
        foreign = library.check(facts("/few"))
    own = client.check(facts("/few"))
    calls: list[Callable[[], object]] = [
        lambda: client.release(foreign),
        lambda: client.renew(foreign),
        lambda: client.refund(own),
        lambda: client.settle(own, 3),
    ]
    for call in calls:
        with pytest.raises(UsageError):
            call()
