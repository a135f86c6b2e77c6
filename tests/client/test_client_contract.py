"""
One contract for a limiter in this process and for clients of a service: moving from one to the other changes one line.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from tidegate import Client, RuleLimiter
from tidegate.client import RemoteDecision, RemoteQuotaStatus
from tidegate.errors import Denied, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.client.conftest import RULES, Connect
    from tidegate import Decision
    from tidegate.service import Service

    Facts = Callable[..., dict[str, Any]]
else:
    from client.conftest import RULES

Limiter: TypeAlias = RuleLimiter | Client


@pytest.fixture(params=["library", "http", "grpc"])
def limiter(request: pytest.FixtureRequest, service: Service, connect: Connect, tmp_path: Path) -> Limiter:
    """
    The same rules in this process, over HTTP and over gRPC.
    """
    if request.param == "library":
        (tmp_path / "rules.yaml").write_text(RULES, encoding="utf-8")
        return RuleLimiter(tmp_path / "rules.yaml")
    return connect(f"{request.param}://{service.addresses[request.param]}")


@pytest.fixture(params=["blocking", "async"])
def call(request: pytest.FixtureRequest, limiter: Limiter) -> Callable[..., Any]:
    """
    Calls a method by its name, in both call styles.
    """
    if request.param == "blocking":
        return lambda name, *arguments, **options: getattr(limiter, name)(*arguments, **options)
    return lambda name, *arguments, **options: asyncio.run(getattr(limiter, f"{name}_async")(*arguments, **options))


Call: TypeAlias = "Callable[..., Any]"


def test_exactly_the_limit_is_admitted(call: Call, facts: Facts) -> None:
    """
    And every decision says what is left, who decided, and nothing of a failure.
    """
    decisions: list[Decision] = [call("check", facts("/few")) for _ in range(7)]

    assert [True] * 5 + [False] * 2 == [decision.allowed for decision in decisions]
    assert [True] * 5 + [False] * 2 == [bool(decision) for decision in decisions]
    assert [4, 3, 2, 1, 0, 0, 0] == [decision.remaining for decision in decisions]
    assert {("few", 5, False, None, 1, None)} == {
        (decision.rule, decision.limit, decision.degraded, decision.reason, decision.cost, decision.lease) for decision in decisions
    }
    assert ("few",) == decisions[0].rules


def test_a_denial_says_how_long_to_wait(call: Call, facts: Facts) -> None:
    """
    In seconds and in nanoseconds, and as the header that clients know.
    """
    denial = [call("check", facts("/few"), 5), call("check", facts("/few"))][1]

    assert 3590 < denial.retry_after <= 3600
    assert round(denial.retry_after * 1e9) == pytest.approx(denial.retry_after_ns, rel=1e-9)
    assert int(denial.headers()["Retry-After"]) >= denial.retry_after
    assert not denial.retry_is_hint


def test_keys_are_apart(call: Call, facts: Facts) -> None:
    """
    One client's requests are not another's.
    """
    assert call("allow", facts("/few"), 5)
    assert not call("allow", facts("/few"))
    assert call("allow", facts("/few", client=facts("")["client"] + "-2"))


def test_a_peek_takes_nothing(call: Call, facts: Facts) -> None:
    """
    It answers what a check would.
    """
    assert [True, True, True] == [call("peek", facts("/few"), 5).allowed for _ in range(3)]
    assert call("check", facts("/few"), 5).allowed
    assert not call("peek", facts("/few")).allowed


def test_rules_say_what_a_request_costs(call: Call, facts: Facts) -> None:
    """
    Unless the caller does.
    """
    assert 6 == call("check", facts("/costly")).remaining
    assert 5 == call("check", facts("/costly"), 1).remaining
    assert not call("peek", facts("/costly"), 6).allowed
    assert call("peek", facts("/costly")).allowed


def test_a_debit_takes_without_asking(call: Call, facts: Facts) -> None:
    """
    And is paid off before the next request passes.
    """
    assert call("debit", facts("/owed"), 12).allowed
    assert not call("check", facts("/owed")).allowed


def test_a_request_without_rules_is_allowed(call: Call, facts: Facts) -> None:
    """
    And says so.
    """
    decision = call("check", facts("/elsewhere"))

    assert (True, None, None, ()) == (decision.allowed, decision.rule, decision.limit, decision.rules)


def test_headers_and_parameters_are_facts(call: Call, facts: Facts) -> None:
    """
    Under their own names, in any case, with numbers and booleans as rules write them.
    """
    name = facts("")["client"]

    assert call("allow", {"path": "/header", "headers": {"X-Api-Key": name}})
    assert not call("allow", {"path": "/header", "headers": {"x-api-key": name}, "ip": None, "size": 7, "is_new": True})
    assert call("allow", {"path": "/query", "query": {"page": name}})
    assert not call("allow", {"path": "/query", "query": {"page": name}})


def test_a_denial_can_be_an_exception(call: Call, facts: Facts) -> None:
    """
    With the decision in it.
    """
    assert call("check_or_raise", facts("/few"), 5).allowed
    with pytest.raises(Denied, match="few") as caught:
        call("check_or_raise", facts("/few"))

    assert caught.value.retry_after == caught.value.decision.retry_after


def test_waiting_ends_with_being_admitted(call: Call, facts: Facts) -> None:
    """
    As soon as there is room.
    """
    assert [True, True, True] == [call("wait", facts("/fast"), timeout=30).allowed for _ in range(3)]


def test_waiting_in_vain_is_not_begun(call: Call, facts: Facts) -> None:
    """
    A wait that ends after the timeout is answered at once.
    """
    call("check", facts("/few"), 5)

    assert not call("wait", facts("/few"), timeout=5).allowed


@pytest.mark.parametrize(
    ("attributes", "options"),
    [
        pytest.param("a text", {}, id="no mapping"),
        pytest.param({1: "a"}, {}, id="a name that is no text"),
        pytest.param({"a": 1.5}, {}, id="a fraction"),
        pytest.param({"a": ["b"]}, {}, id="a list"),
        pytest.param({"headers": "x"}, {}, id="headers that are no mapping"),
        pytest.param({"headers": {"x": b"y"}}, {}, id="a header of bytes"),
        pytest.param({f"a{number}": "b" for number in range(1001)}, {}, id="too many"),
        pytest.param({}, {"cost": -1}, id="a negative cost"),
        pytest.param({}, {"cost": 2**53 + 1}, id="too large a cost"),
        pytest.param({}, {"cost": 1.0}, id="a cost that is no whole number"),
    ],
)
def test_wrong_arguments_are_told(call: Call, attributes: Any, options: dict[str, Any]) -> None:  # noqa: ANN401  # anything
    """
    They are mistakes of the program, and no failure of the service.
    """
    with pytest.raises(UsageError):
        call("check", attributes, **options)


@pytest.mark.parametrize("value", ["\ud800", "\x00", "ü" * 1000, '"}', "a" * 100_000])
def test_odd_values_are_counted_like_others(call: Call, facts: Facts, value: str) -> None:
    """
    Whatever a client writes into a header is a key.
    """
    attributes = {"path": "/header", "headers": {"x-api-key": value + facts("")["client"]}}

    assert [True, False] == [call("allow", attributes), call("allow", attributes)]


def test_decisions_have_the_same_attributes(tmp_path: Path) -> None:
    """
    Whatever is known of a decision in this process is known of a service's, and of what its quotas said.
    """
    (tmp_path / "rules.yaml").write_text(RULES, encoding="utf-8")
    with RuleLimiter(tmp_path / "rules.yaml") as library:
        decision = library.check({"client": "a", "path": "/few"})

    assert {name for name in dir(decision) if not name.startswith("_")} <= set(dir(RemoteDecision))
    assert {name for name in dir(decision.quota) if not name.startswith("_")} <= set(dir(RemoteQuotaStatus))
