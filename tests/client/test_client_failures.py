"""
A service that is away, slow, frozen or no service at all: it costs the budget at most, and then the policy decides.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.client.conftest import Connect
    from tests.client.saying import SILENCE, Saying, response
    from tests.conftest import Eventually
    from tests.service.running import Running
    from tidegate import Client, Decision

    Check = Callable[[Client], Decision]
else:
    from client.saying import SILENCE, Saying, response
    from service.running import Running

RULES = """
version: 1
rules:
  - {name: all, per: client, quotas: 10/hour}
  - {name: login, match: {path: /login}, per: client, quotas: 10/hour, on_store_error: deny}
  - {name: slots, match: {path: /slots}, per: client, quotas: 4 concurrent}
"""
ALLOWED: dict[str, Any] = {
    "allowed": True,
    "rule": None,
    "limit": None,
    "remaining": None,
    "reset_at": None,
    "reset_after": 0,
    "retry_after": 0,
    "retry_is_hint": False,
    "delay": 0,
    "cost": 1,
    "lease": None,
    "degraded": False,
    "reason": None,
    "generation": 1,
    "rules": [],
    "shadowed": [],
    "quotas": [],
}
"""What a service answers if no rule applies."""

FACTS = {"client": "a", "path": "/"}


def blocking(client: Client) -> Decision:
    """
    Asks, and waits.
    """
    return client.check(FACTS)


def awaiting(client: Client) -> Decision:
    """
    Asks in an event loop.
    """
    return asyncio.run(client.check_async(FACTS))


@pytest.fixture
def nobody() -> Iterator[str]:
    """
    An address where nobody listens, and nobody else will: the port is taken.
    """
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


both = pytest.mark.parametrize("check", [blocking, awaiting])
GARBAGE = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-le",
    "an endless head": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 10_000,
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "another version": b"HTTP/2 200 OK\r\ncontent-length: 0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "a negative length": b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\n{}",
    "a length of gigabytes": b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n{}",
    "a field without a name": b"HTTP/1.1 200 OK\r\nhello\r\ncontent-length: 2\r\n\r\n{}",
    "compressed": b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n{}",
    "a chunk without a length": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "an empty body": response(b""),
    "no JSON": response(b"<html>welcome</html>"),
    "a list": response(b"[]"),
    "deep JSON": response(b"[" * 100_000),
    "another object": response(b'{"allowed": true}'),
    "a number for a text": response(json.dumps({**ALLOWED, "rule": 5}).encode()),
    "a text for a flag": response(json.dumps({**ALLOWED, "allowed": "yes"}).encode()),
    "a negative time": response(json.dumps({**ALLOWED, "retry_after": -1}).encode()),
    "a time that is no number": response(json.dumps({**ALLOWED, "delay": float("nan")}).encode()),
    "an endless time": response(json.dumps({**ALLOWED, "reset_after": 1e300}).encode()),
    "a fraction of units": response(json.dumps({**ALLOWED, "limit": 1.5}).encode()),
    "rules that are no texts": response(json.dumps({**ALLOWED, "rules": [1]}).encode()),
    "quotas that are none": response(json.dumps({**ALLOWED, "quotas": [{}]}).encode()),
    "a line break in a field": response(json.dumps({**ALLOWED, "fields": {"RateLimit": "a\r\nset-cookie: b"}}).encode()),
    "a field that is no name": response(json.dumps({**ALLOWED, "fields": {"a b": "c"}}).encode()),
}


@both
@pytest.mark.parametrize("answer", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_no_decision(check: Check, answer: bytes, connect: Connect) -> None:
    """
    It ends at the policy, and nowhere else. A head that does not end is waited for until the budget is over.
    """
    with Saying(answer) as server:
        decision = check(connect(server.url, on_service_error="deny", budget=0.2 if answer.endswith(b"content-le") else 5))

    assert (False, True) == (decision.allowed, decision.degraded)
    assert decision.reason in {"service_protocol_error", "service_timeout"}


@both
def test_a_proper_answer_is_one_however_it_comes(check: Check, connect: Connect) -> None:
    """
    In one piece, byte by byte, in chunks, until the end of the connection, and after an early hint.
    """
    body = json.dumps(ALLOWED).encode()
    chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"".join(
        b"%x;x=y\r\n%s\r\n" % (len(piece), piece) for piece in (body[:7], body[7:])
    )
    answers = [
        response(body),
        response(body, fields="Connection: close\r\n"),
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + response(body),
        chunks + b"0\r\n\r\n",
        chunks + b"0\r\ntrailer: x\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n" + body,
    ]
    for number, answer in enumerate(answers):
        with Saying(answer, pieces=[1 << 20, 97][number % 2], is_closing=b"HTTP/1.0" in answer) as server:
            client = connect(server.url)

            assert [False, False] == [check(client).degraded for _ in range(2)], answer


@both
@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("500 Internal Server Error", "service_error"),
        ("503 Service Unavailable", "service_error"),
        ("401 Unauthorized", "service_refused"),
        ("404 Not Found", "service_refused"),
        ("302 Found", "service_refused"),
        ("400 Bad Request", "service_refused"),
    ],
)
def test_a_status_says_why(check: Check, status: str, reason: str, connect: Connect) -> None:
    """
    What is not 200 is not a decision.
    """
    with Saying(response(b"{}", status)) as server:
        decision = check(connect(server.url))

    assert (True, True, reason) == (decision.allowed, decision.degraded, decision.reason)


@both
def test_a_request_that_is_too_large_is_not_free(check: Check, connect: Connect) -> None:
    """
    Otherwise a long header would be a way around the limit; and the breaker does not open because of it.
    """
    with Saying(response(b"{}", "413 Payload Too Large")) as server:
        client = connect(server.url, on_service_error="allow")
        decisions = [check(client) for _ in range(8)]

    assert {(False, "request_too_large")} == {(decision.allowed, decision.reason) for decision in decisions}
    assert not client.check({"client": "a" * 2_000_000}).allowed
    assert "ok" == client.health().status


@both
def test_silence_costs_the_budget_and_then_nothing(check: Check, connect: Connect, eventually: Eventually) -> None:
    """
    After five failures nobody is asked any more.
    """
    with Saying(SILENCE) as server:
        client = connect(server.url, budget=0.05)
        reasons = [check(client).reason for _ in range(5)]
        later = [check(client) for _ in range(20)]

        assert ["service_timeout"] * 5 == reasons
        assert {"service_breaker_open"} == {decision.reason for decision in later}
        # The thread that asks how the service is comes later than these would have come. One of the five may have had no time to be sent.
        eventually(lambda: any(b"/check" not in request for request in server.requests))
        assert sum(b"/check" in request for request in server.requests) <= 5
        assert "down" == client.health().status
        assert {"service_timeout": 5, "service_breaker_open": 20} == client.health().degraded


@both
def test_nobody_there_is_known_at_once(check: Check, connect: Connect, nobody: str) -> None:
    """
    Without waiting for the budget.
    """
    began = time.perf_counter()
    decision = check(connect(nobody, budget=30))

    assert "service_unavailable" == decision.reason
    assert time.perf_counter() - began < 20


def test_a_dripping_answer_does_not_prolong_the_budget(connect: Connect) -> None:
    """
    The budget is for all of it, and not for each piece.
    """
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n"
    with Saying(head + b" " * 1_000_000, pieces=100) as server:
        began = time.perf_counter()
        decision = connect(server.url, budget=0.02).check(FACTS)

    assert decision.reason in {"service_timeout", "service_protocol_error"}
    assert time.perf_counter() - began < 5


def test_a_connection_that_was_closed_meanwhile_is_replaced(connect: Connect, eventually: Eventually) -> None:
    """
    A keep-alive connection ends some time; nobody notices.
    """
    with Saying(response(json.dumps(ALLOWED).encode())) as server:
        client = connect(server.url)
        assert not client.check(FACTS).degraded
        assert not client.check(FACTS).degraded
        assert 1 == server.connections
        server.hang_up()
        assert not client.check(FACTS).degraded
        assert not asyncio.run(client.check_async(FACTS)).degraded

        eventually(lambda: server.connections == 2)


def test_a_slow_service_does_not_hold_up_the_loop(connect: Connect) -> None:
    """
    Other tasks run while one waits for an answer that does not come.
    """

    async def count() -> int:
        client = connect(server.url, budget=2)
        asked = asyncio.ensure_future(client.check_async(FACTS))
        turns = 0
        while not asked.done():
            turns += 1
            await asyncio.sleep(0)  # noqa: TID251  # turns are counted, not time
        assert (await asked).reason == "service_timeout"
        return turns

    with Saying(SILENCE) as server:
        assert asyncio.run(count()) > 50


def test_a_cancelled_check_leaves_nothing_behind(connect: Connect, eventually: Eventually) -> None:
    """
    Its connection is not used again: the answer that comes late would be taken for another one.
    """

    async def cancel(client: Client) -> None:
        asked = asyncio.ensure_future(client.check_async(FACTS))
        await asyncio.to_thread(eventually, lambda: bool(server.requests))
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    with Saying(SILENCE) as server:
        client = connect(server.url)
        asyncio.run(cancel(client))
        server.answer = response(json.dumps(ALLOWED).encode())

        assert not client.check(FACTS).degraded
        assert 2 == server.connections
        assert "ok" == client.health().status


def test_killed_and_started_again(connect: Connect, eventually: Eventually) -> None:
    """
    The client decides without the service while it is away, and comes back to it by itself.
    """
    with Running(RULES) as service:
        http, grpc = connect(service.http, budget=5), connect(f"grpc://{service.grpc}", budget=5)
        for client in (http, grpc):
            assert client.check(FACTS).rule == "all"
        service.kill()
        assert http.check(FACTS).degraded
        assert grpc.check(FACTS).degraded
        eventually(lambda: http.check(FACTS).reason == grpc.check(FACTS).reason == "service_breaker_open")
        assert ("down", "down") == (http.health().status, grpc.health().status)
        service.start()
        eventually(lambda: not http.check(FACTS).degraded and not grpc.check(FACTS).degraded, within=40)
        assert ("ok", "ok") == (http.health().status, grpc.health().status)


@both
def test_frozen_and_thawed(check: Check, connect: Connect, eventually: Eventually) -> None:
    """
    Connections stay open and nothing is answered.
    """
    with Running(RULES) as service:
        client = connect(service.http, budget=0.2, fallback=service.rules_file)
        eventually(lambda: not check(client).degraded)
        service.process.freeze()
        try:
            eventually(lambda: check(client).reason == "service_breaker_open")
            assert check(client).rule == "all"
        finally:
            service.process.thaw()
        eventually(lambda: not check(client).degraded, within=30)


def test_the_fallback_counts_this_process_its_share(connect: Connect, nobody: str, tmp_path: Path) -> None:
    """
    Of ten for four processes each has two; and a rule that says `deny` denies.
    """
    (tmp_path / "rules.yaml").write_text(RULES, encoding="utf-8")
    client = connect(nobody, fallback=tmp_path / "rules.yaml", instances=4)
    decisions = [client.check(FACTS) for _ in range(4)]

    assert [True, True, False, False] == [decision.allowed for decision in decisions]
    assert {("all", 10, True)} == {(decision.rule, decision.limit, decision.degraded) for decision in decisions}
    assert decisions[0].reason == "service_unavailable"
    assert "RateLimit" in decisions[0].headers()
    assert "login" == client.check({"client": "b", "path": "/login"}).rule
    assert not client.check({"client": "b", "path": "/login"}).allowed


def test_the_fallback_has_slots(connect: Connect, nobody: str, tmp_path: Path) -> None:
    """
    They are given back to whom they were taken from.
    """
    (tmp_path / "rules.yaml").write_text(RULES, encoding="utf-8")
    client = connect(nobody, fallback=tmp_path / "rules.yaml", instances=4)
    facts = {"client": "a", "path": "/slots"}
    with client.slot(facts) as slot:
        assert slot.decision.degraded
        assert slot.renew()
        assert not client.check({**facts, "client": "a"}).allowed

    assert client.peek(facts, 1).remaining == 1


@pytest.mark.parametrize(("policy", "expected"), [("allow", True), ("deny", False)])
def test_the_policy_decides(policy: Any, expected: bool, connect: Connect, nobody: str) -> None:  # noqa: ANN401  # one of the policies
    """
    And says that nobody counted; a denial says to come back soon, and that this is a guess.
    """
    client = connect(nobody, on_service_error=policy)
    decision = client.check(FACTS)

    assert (expected, True, None) == (decision.allowed, decision.degraded, decision.rule)
    assert (0.0 if expected else 1.0) == decision.retry_after
    assert decision.retry_is_hint is not expected
    assert ({} if expected else {"Retry-After": "1"}) == decision.headers()
    assert client.debit(FACTS, 5).allowed
    assert not client.reset(FACTS)
    assert not client.release(decision)
    assert not client.renew(decision)
