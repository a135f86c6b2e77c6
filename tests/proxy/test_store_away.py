"""
A store that says nothing: clients of the proxy wait for the budget at most, and soon not even that.
"""

from __future__ import annotations

import re
import statistics
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Eventually
    from tests.proxy.proxying import Answer, Running
    from tests.proxy.test_access_log import entries
    from tests.proxy.upstream import Upstream
    from tests.servers import Single
    from tests.servers.waiting import until
else:
    from proxying import Running
    from servers import Single
    from servers.waiting import until
    from test_access_log import entries

RULES = """
version: 1
identity: [{ip: {}}]
rules:
  - {name: open, match: {path: /open}, per: client, quotas: 10/hour, on_store_error: allow}
  - {name: strict, match: {path: /strict}, per: client, quotas: 10/hour, on_store_error: deny}
  - {name: own, match: {path: /own}, per: client, quotas: 10/hour, on_store_error: local}
  - {name: ready, match: {path: /ready}, per: client, quotas: 10000/hour}
"""
BUDGET_MS = 50
SLACK_S = 2.0
"""What a busy machine may add to an answer. Who waits for a store that is frozen waits until the client gives up, after 30 s."""
FIRST = 12
"""More than it takes until the breaker is open, which is when half of the calls have failed, and at least five."""
LATER = 30


def asked(proxy: Running, path: str, times: int) -> list[tuple[int, str | None, float]]:
    """
    Statuses, types of problems, and how many seconds the answers took.
    """
    seen = []
    for _ in range(times):
        begun = perf_counter()
        answer = proxy.ask("GET", path)
        took = perf_counter() - begun
        kind = answer.json.get("type", "").rpartition("#")[2] or None
        seen.append((answer.status, kind, took))
    return seen


def lines_of(log: Path, path: str) -> list[dict[str, Any]]:
    """
    What the access log has of a path.
    """
    return [entry for entry in entries(log) if entry["path"] == path]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        pytest.param("/open", None, id="allow"),
        pytest.param("/strict", "temporary-reduced-capacity", id="deny"),
        pytest.param("/own", "quota-exceeded", id="local"),
    ],
)
def test_a_store_that_hangs_costs_the_budget_and_soon_nothing(
    upstream: Upstream, tmp_path: Path, eventually: Eventually, path: str, kind: str | None
) -> None:
    """Each policy answers in time, forwards what it allows, and says in the log why the store was not asked."""
    log = tmp_path / "access.log"
    with Single() as store:
        settings = {"store": store.url(), "budget": f"{BUDGET_MS}ms", "access_log.to": log}
        with Running([upstream.url], RULES, settings) as proxy:
            # A busy machine may have used up the budget of the very first.
            eventually(lambda: is_counted(proxy, log, "/ready"))
            left = remaining(proxy.ask("GET", path))
            store.freeze()
            heard = upstream.count
            first, later = asked(proxy, path, FIRST), asked(proxy, path, LATER)
            heard = upstream.count - heard
            eventually(lambda: len(lines_of(log, path)) == 1 + FIRST + LATER)
            told = lines_of(log, path)[1:]
            store.thaw()
            eventually(lambda: is_counted(proxy, log, "/ready"), within=45)

    statuses = [status for status, _, _ in first + later]
    assert {"/open": FIRST + LATER, "/strict": 0, "/own": left}[path] == statuses.count(200) == heard
    assert {kind, None} >= {said for _, said, _ in first + later}
    assert max(took for _, _, took in first + later) < BUDGET_MS / 1000 + SLACK_S
    assert statuses == [entry["status"] for entry in told]
    assert {"store_timeout", "store_breaker_open"} == {entry["degraded"] for entry in told}
    waited = [entry["decision_ms"] for entry in told if entry["degraded"] == "store_timeout"]
    assert min(waited) > BUDGET_MS / 2, "it is the budget that was over"
    assert len(waited) < FIRST, "who comes later is not made to wait"
    assert statistics.median(entry["decision_ms"] for entry in told[FIRST:]) < BUDGET_MS / 10


def is_counted(proxy: Running, log: Path, path: str) -> bool:
    """Whether the store decides."""
    seen = len(lines_of(log, path))
    proxy.ask("GET", path)
    until(lambda: len(lines_of(log, path)) > seen, 10, "the log has the line")
    return "degraded" not in lines_of(log, path)[-1]


def remaining(answer: Answer) -> int:
    """What is left after an answer, as its client is told."""
    found = re.search(r";r=(\d+)", answer.headers["ratelimit"])
    assert found is not None
    return int(found[1])
