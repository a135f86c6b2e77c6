"""
Costs that a server says when it has done the work: they replace what the request took, and clients do not see them.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.proxy.proxying import Answer, ask, here
    from tests.proxy.upstream import Upstream
    from tests.servers import Single
else:
    from proxying import ask, here

RULES = """
version: 1
identity: [{header: x-api-key}]
rules: [{name: units, per: client, quotas: 100/hour, cost: {attribute: "header:x-estimate", default: 10, max: 100}}]
"""
KEY = {"x-api-key": "somebody"}


@pytest.fixture(params=["memory", "valkey"])
def settings(request: pytest.FixtureRequest) -> dict[str, object]:
    """
    A proxy that listens to servers, by its own counters and by those of a store.
    """
    said: dict[str, object] = {"proxy.cost_header": "X-Cost"}
    if request.param == "memory":
        return said
    server: Single = request.getfixturevalue("server")
    return {**said, "store": f"{server.url()}?prefix={uuid.uuid4().hex}", "budget": "5s"}


def left(answer: Answer) -> int:
    """What its client is told is left."""
    found = re.search(r";r=(\d+)", answer.headers["ratelimit"])
    assert found is not None
    return int(found[1])


def test_what_a_server_says_is_what_a_request_cost(upstream: Upstream, settings: dict[str, object]) -> None:
    """Less than the estimate goes back, more is taken, none is free; the answer says so already, and so does the next one."""
    with here([upstream.url], RULES, settings) as proxy:
        answers = [ask(proxy, "GET", path, headers=KEY) for path in ("/", "/cost/3", "/cost/25", "/cost/0", "/")]

    assert {200} == {answer.status for answer in answers}
    assert [90, 87, 62, 62, 52] == [left(answer) for answer in answers]
    assert {None} == {answer.headers["x-cost"] for answer in answers}, "it is for the proxy"


def test_who_cost_more_than_there_was_pays_later(upstream: Upstream, settings: dict[str, object]) -> None:
    """The work is done, so the request is answered; the next one is denied, and no server hears of it."""
    with here([upstream.url], RULES, settings) as proxy:
        debtor = ask(proxy, "GET", "/cost/100", headers=KEY)
        before = upstream.count
        denied = ask(proxy, "GET", "/cost/0", headers=KEY)
        heard = upstream.count - before
        other = ask(proxy, "GET", "/cost/1", headers={"x-api-key": "somebody else"})

    assert (200, 0) == (debtor.status, left(debtor))
    assert (429, 0) == (denied.status, heard)
    assert (200, 99) == (other.status, left(other))


@pytest.mark.parametrize("said", ["many", "-1", "1.5", "99999999999999999999999"])
def test_a_cost_that_is_none_changes_nothing(upstream: Upstream, settings: dict[str, object], said: str) -> None:
    """The estimate stands, and the header does not reach the client all the same."""
    with here([upstream.url], RULES, settings) as proxy:
        answer = ask(proxy, "GET", f"/cost/{said}", headers=KEY)
        after = ask(proxy, "GET", "/cost/0", headers=KEY)

    assert (200, 90, None) == (answer.status, left(answer), answer.headers["x-cost"])
    assert 90 == left(after)


def test_without_the_setting_the_header_is_one_like_others(upstream: Upstream) -> None:
    """It costs nothing, and reaches the client."""
    with here([upstream.url], RULES) as proxy:
        answer = ask(proxy, "GET", "/cost/3", headers=KEY)

    assert ("3", 90) == (answer.headers["x-cost"], left(answer))


def test_proxies_on_one_store_share_what_requests_cost(upstream: Upstream, server: Single) -> None:
    """What one corrects, the other one counts on."""
    settings = {"proxy.cost_header": "x-cost", "store": f"{server.url()}?prefix={uuid.uuid4().hex}", "budget": "5s", "secret": "of two"}
    with here([upstream.url], RULES, settings) as one, here([upstream.url], RULES, settings) as other:
        told = [left(ask(proxy, "GET", path, headers=KEY)) for proxy, path in ((one, "/cost/40"), (other, "/cost/5"), (one, "/cost/0"))]

    assert [60, 55, 55] == told
