"""
Code as users write it. It is type-checked by `make lint` and never run.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import assert_type

import tidegate
from tidegate import Decision, Limiter, Quota, QuotaStatus, Stats, errors, limit
from tidegate.slot import Slot
from tidegate.testing import ManualClock

limiter = Limiter("10/second, 200/minute")
Limiter(Quota(100, 60))
Limiter(Quota(100, timedelta(minutes=1), algorithm="gcra", burst=20), max_keys=1_000, on_store_error="allow")
Limiter({"limit": 100, "period": "1m"}, store="memory://")
Limiter(["10/second", Quota.parse("5/day calendar"), {"limit": 20, "algorithm": "concurrency"}], clock=ManualClock())
Limiter(100)  # type: ignore[arg-type]
Quota(100, 60, algorithm="magic")  # type: ignore[arg-type]


def decisions() -> None:
    """
    What `check` answers.
    """
    decision = limiter.check("user:42", cost=2)
    assert_type(decision, Decision)
    assert_type(decision.allowed, bool)
    assert_type(decision.remaining, int | None)
    assert_type(decision.retry_after, float | None)
    assert_type(decision.quota, QuotaStatus | None)
    assert_type(decision.quotas, tuple[QuotaStatus, ...])
    assert_type(decision.headers(), dict[str, str])
    assert_type(limiter.allow(b"user:42"), bool)
    assert_type(limiter.peek("user:42"), Decision)
    assert_type(limiter.check_or_raise("user:42"), Decision)
    assert_type(limiter.refund("user:42", decision), int)
    assert_type(limiter.debit("user:42", 5), Decision)
    assert_type(limiter.settle("user:42", limiter.reserve("user:42", 10), 7), Decision)
    assert_type(limiter.reset("user:42"), bool)
    assert_type(limiter.stats(), Stats)
    assert_type(limiter.quotas, tuple[Quota, ...])
    assert_type(limiter.load("20/second", transition="immediate"), int)
    limiter.check(42)  # type: ignore[arg-type]


def waiting() -> None:
    """
    Without a timeout there is always a decision.
    """
    assert_type(limiter.wait("user:42"), Decision)
    assert_type(limiter.wait("user:42", timeout=1.5), Decision)
    if limiter.wait("user:42", timeout=1):
        return


async def tasks() -> None:
    """
    The async faces have the same types.
    """
    assert_type(await limiter.check_async("user:42"), Decision)
    assert_type(await limiter.allow_async("user:42"), bool)
    assert_type(await limiter.wait_async("user:42"), Decision)
    assert_type(await limiter.wait_async("user:42", timeout=1), Decision)
    async with limiter.slot("user:42", timeout=1) as slot:
        assert_type(slot, Slot)
        assert_type(slot.held, bool)
    with limiter.slot("user:42", 2) as slot:
        assert_type(slot.decision, Decision)


def handling() -> None:
    """
    What exceptions carry.
    """
    try:
        limiter.check_or_raise("user:42")
    except errors.Denied as denied:
        assert_type(denied.decision, Decision)
        assert_type(denied.retry_after, float | None)
    except errors.QuotaError as error:
        assert_type(error.code, str)
        assert_type(error.span, tuple[int, int] | None)
    except errors.StoreError as error:
        assert_type(error.is_transient, bool)


@limiter.limit(key=lambda user, _: user, cost=lambda _, size: size)
def upload(user: str, size: int) -> str:
    """
    Arguments and result keep their types.
    """
    return f"{user} {size}"


@limit("5/minute", timeout=2)
async def fetch(url: str) -> bytes:
    """
    Async functions too.
    """
    return url.encode()


class Client:
    """
    Methods are bound as before.
    """

    @limit("5/minute", key=lambda self, _: self.name)
    def get(self, path: str) -> str:
        """
        A method.
        """
        return self.name + path

    name = "client"


assert_type(upload("ann", 3), str)
assert_type(upload.limiter, Limiter)
assert_type(asyncio.run(fetch("x")), bytes)
assert_type(Client().get("/"), str)
upload("ann", "3")  # type: ignore[arg-type]
asyncio.run(fetch(5))  # type: ignore[arg-type]
Client().get(5)  # type: ignore[arg-type]


def clients(client: tidegate.Client) -> None:
    """
    Code that was written for a limiter keeps its types when it moves to a service.
    """
    assert_type(client.check({"path": "/orders", "headers": {"x-api-key": "abc"}}), Decision)
    assert_type(client.allow({"client": "a"}, 2), bool)
    with client.slot({"client": "a"}, timeout=1.5) as slot:
        assert_type(slot, Slot)
    tidegate.Client("http://localhost", budget=0.01, fallback="rules.yaml", instances=3, token="abc")
    tidegate.Client("http://localhost", timeout=3)  # type: ignore[call-arg]
    tidegate.Client("http://localhost", on_service_error="panic")  # type: ignore[arg-type]
