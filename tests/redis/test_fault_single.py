"""
Every way in which one server can fail, under load.

Callers wait no longer than the budget, nobody is admitted above the rule, and the store decides again by itself.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tidegate import Limiter

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.redis.fault_load import GRACE_S, Load, Story, most_in_window, suffer
    from tests.servers import Proxy, Single
else:
    from fault_load import GRACE_S, Load, Story, most_in_window, suffer
    from servers import Proxy, Single

pytestmark = pytest.mark.timeout(150)

LIMIT, WINDOW_S = 100, 2.0
BUDGET_S = 0.05
"""Longer than the default: on a busy machine a server that works must not look like one that does not."""
OUTAGE_S = 1.0
IN_FLIGHT = 6
"""What may be above the rule: while one caller asks the store, the other three decide here, when the breaker opens and when it closes."""


@dataclass(frozen=True)
class Fault:
    """
    One way to fail.

    Args:
        act: Breaks the server or the way to it, and mends it.
        reasons: What decisions without the store may say.
        has_proxy: Whether the way to the server is what breaks.
    """

    act: Callable[[Single, Proxy, Load], None]
    reasons: frozenset[str]
    has_proxy: bool = False


def _for_a_while(
    break_it: Callable[[Single, Proxy], object], mend: Callable[[Single, Proxy], object], seconds: float = OUTAGE_S
) -> Callable[[Single, Proxy, Load], None]:
    def act(server: Single, proxy: Proxy, load: Load) -> None:
        break_it(server, proxy)
        load.go_on(seconds)
        mend(server, proxy)

    return act


def _again_and_again(break_it: Callable[[Single, Proxy], object]) -> Callable[[Single, Proxy, Load], None]:
    def act(server: Single, proxy: Proxy, load: Load) -> None:
        for _ in range(20):
            break_it(server, proxy)
            load.go_on(OUTAGE_S / 20)

    return act


TIMEOUT, OPEN, UNAVAILABLE, REFUSED = "store_timeout", "store_breaker_open", "store_unavailable", "store_refused"
LATE = frozenset({TIMEOUT, OPEN})
GONE = frozenset({TIMEOUT, OPEN, UNAVAILABLE})
FAULTS = {
    "frozen": Fault(_for_a_while(lambda server, _: server.freeze(), lambda server, _: server.thaw()), GONE),
    "frozen for 10 s": Fault(_for_a_while(lambda server, _: server.freeze(), lambda server, _: server.thaw(), 10), GONE),
    "paused": Fault(
        _for_a_while(lambda server, _: server.command("CLIENT", "PAUSE", round(OUTAGE_S * 1000), "ALL"), lambda *_: None), LATE
    ),
    "asleep": Fault(lambda server, *_: (server.command("DEBUG", "SLEEP", str(OUTAGE_S)), None)[-1], LATE),
    "resets": Fault(_again_and_again(lambda _, proxy: proxy.reset()), GONE, has_proxy=True),
    "refuses connections": Fault(
        _for_a_while(lambda _, proxy: proxy.refuse(), lambda _, proxy: proxy.pass_through()), GONE, has_proxy=True
    ),
    "accepts and never answers": Fault(
        _for_a_while(lambda _, proxy: proxy.silence(), lambda _, proxy: proxy.pass_through()), GONE, has_proxy=True
    ),
    "answers late": Fault(_for_a_while(lambda _, proxy: proxy.black_hole(), lambda _, proxy: proxy.pass_through()), GONE, has_proxy=True),
    "slower than the budget": Fault(
        _for_a_while(lambda _, proxy: proxy.delay(replies_ms=int(1_000 * BUDGET_S)), lambda _, proxy: proxy.delay()), LATE, has_proxy=True
    ),
    "forgets its scripts": Fault(_again_and_again(lambda server, _: server.command("SCRIPT", "FLUSH")), LATE),
    "out of memory": Fault(
        _for_a_while(
            lambda server, _: server.command("CONFIG", "SET", "maxmemory", 1),
            lambda server, _: server.command("CONFIG", "SET", "maxmemory", 0),
        ),
        frozenset({REFUSED, *LATE}),
    ),
}


@functools.cache
def story_of(name: str) -> Story:
    """
    Suffers a fault once for all tests that look at it.
    """
    fault = FAULTS[name]
    with Single() as server, Proxy(server.port) as proxy:
        url = proxy.url if fault.has_proxy else server.url()
        with Limiter(f"{LIMIT}/{WINDOW_S:.0f}s", store=url, budget=BUDGET_S) as limiter:
            story = suffer(limiter, lambda load: fault.act(server, proxy, load))
    sys.stdout.write(f"\n{story.summary(name)}\n  most in a window: {most_in_window(story.seen, WINDOW_S)}\n")
    return story


@pytest.fixture(params=FAULTS)
def name(request: pytest.FixtureRequest) -> str:
    """
    A fault.
    """
    assert isinstance(request.param, str)
    return request.param


def test_callers_wait_no_longer_than_the_budget(name: str) -> None:
    """
    At the 99.9th percentile, with 2 ms for the machine, and with what the machine is late in the same run.
    """
    story = story_of(name)

    assert story.took_s(0.999) <= BUDGET_S + GRACE_S + story.stall_s, story.summary(name)


def test_no_window_has_more_than_the_rule(name: str) -> None:
    """
    Before, during and after the fault, and in windows that see two of them.
    """
    story = story_of(name)
    most = most_in_window(story.seen, WINDOW_S)

    assert all(count <= LIMIT + IN_FLIGHT + story.strays[key] for key, count in most.items()), (most, story.strays, story.summary(name))


def test_callers_are_still_admitted_while_the_store_is_away(name: str) -> None:
    """
    The only instance has the whole quota.
    """
    story = story_of(name)

    assert any(one.is_allowed for one in story.seen if story.broke_at + BUDGET_S < one.start < story.mended_at)


def test_the_store_decides_again_by_itself(name: str) -> None:
    """
    Without a restart, and soon.
    """
    story = story_of(name)

    assert story.enforced_at - story.mended_at < story.soon_s, story.summary(name)


def test_every_decision_without_the_store_is_counted_by_its_reason(name: str) -> None:
    """
    What callers saw is what health tells.
    """
    story = story_of(name)

    assert Counter(one.reason for one in story.seen if one.reason) == story.by_reason
    assert story.reasons <= FAULTS[name].reasons
