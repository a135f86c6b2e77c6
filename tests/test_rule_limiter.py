"""
The library's face for rules: what `RuleLimiter` answers, what it refuses, and how nobody gets around a rule by spelling.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from tidegate import Limiter, RuleLimiter, rules
from tidegate.errors import ConfigError, Denied, RuleError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tidegate import Decision
    from tidegate.testing import ManualClock

    Make = Callable[..., RuleLimiter]


@pytest.fixture
def make(clock: ManualClock) -> Make:
    """
    A limiter on the clock of the test, from rules that are written in braces.
    """

    def build(text: str, head: str = "", **options: Any) -> RuleLimiter:  # noqa: ANN401  # whatever the test gives
        return Limiter.from_rules(rules.load("rules.yaml", text=f"version: 1\n{head}rules: [{text}]"), clock=clock, **options)

    return build


def left(decision: Decision) -> dict[str | None, int | None]:
    """
    What each rule has left.
    """
    return {status.rule: status.remaining for status in decision.quotas}


# --- Making one -------------------------------------------------------------------------------------------------------------------------


def test_a_file_a_directory_and_a_rule_set_are_sources(tmp_path: Path) -> None:
    """With the same answers."""
    path = tmp_path / "rules.yaml"
    path.write_text("version: 1\ndomain: shop\nrules: [{name: a, per: client, quotas: 1/minute}]")
    for source in (path, str(path), tmp_path, rules.load(path)):
        limiter = Limiter.from_rules(source)

        assert "RuleLimiter('shop', 1 rules, generation 1)" == repr(limiter)
        assert [True, False] == [limiter.allow({"client": "a"}) for _ in range(2)]
        assert ("a",) == tuple(rule.name for rule in limiter.rule_set.rules)
        assert limiter.watcher is None


def test_it_is_public() -> None:
    """And what `from_rules` makes."""
    assert tidegate.RuleLimiter is RuleLimiter
    assert isinstance(Limiter.from_rules(rules.load("a.yaml", text="version: 1\nrules: []")), RuleLimiter)
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        tidegate.Nobody  # noqa: B018  # looking is the test


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"store": "redis://host:port"}, ConfigError),
        ({"store": 5}, UsageError),
        ({"max_keys": 0}, UsageError),
        ({"clock": 5}, UsageError),
        ({"on_store_error": "explode"}, UsageError),
        ({"watch": True}, UsageError),
    ],
    ids=str,
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    """As those of `Limiter`."""
    with pytest.raises(error):
        Limiter.from_rules(rules.load("a.yaml", text="version: 1\nrules: []"), **options)


def test_wrong_rules_are_refused(tmp_path: Path) -> None:
    """With all problems."""
    (tmp_path / "rules.yaml").write_text("version: 2\nrules: [{name: a b}]")
    with pytest.raises(RuleError) as caught:
        Limiter.from_rules(tmp_path / "rules.yaml")

    assert {"unknown-version", "bad-name", "missing-key"} == {problem.code for problem in caught.value.problems}


# --- Deciding ---------------------------------------------------------------------------------------------------------------------------

TWO = "{name: clients, per: client, quotas: 3/minute}, {name: all, per: global, quotas: 5/minute, cost: 2}"


def test_all_rules_are_charged_together_or_not_at_all(make: Make) -> None:
    """The tightest is told, and a denial takes nothing."""
    limiter = make(TWO)
    first, second, third = (limiter.check({"client": "a"}) for _ in range(3))

    assert [True, True, False] == [first.allowed, second.allowed, third.allowed]
    assert ("clients", "all") == third.rules
    assert ("all", "5/minute", 60.0) == (third.rule, third.quota.quota if third.quota else None, third.retry_after)
    assert {"clients": 1, "all": 1} == left(limiter.peek({"client": "a"}))


def test_a_given_cost_counts_everywhere(make: Make) -> None:
    """Otherwise each rule says what it costs."""
    limiter = make(TWO)

    assert {"clients": 0, "all": 2} == left(limiter.check({"client": "a"}, 3))
    assert limiter.check({"client": "a"}, 4).retry_after is None


def test_nobody_decides(make: Make) -> None:
    """Allowed, and it says so."""
    decision = make("{name: a, match: {path: /a}, per: global, quotas: 0/s}").check({"path": "/b"})

    assert decision.allowed
    assert (None, None, (), (), ()) == (decision.quota, decision.rule, decision.rules, decision.shadowed, decision.quotas)
    assert (None, None, 0.0, {}) == (decision.limit, decision.remaining, decision.retry_after, decision.headers())


def test_shadow_simulates_and_lets_pass(make: Make) -> None:
    """It charges only what it would have admitted."""
    limiter = make("{name: s, per: global, quotas: 2/minute, mode: shadow}, {name: e, per: global, quotas: 9/minute}")
    decisions = [limiter.check({}) for _ in range(4)]

    assert [(), (), ("s",), ("s",)] == [decision.shadowed for decision in decisions]
    assert {"e"} == {decision.rule for decision in decisions}
    assert ["shadow", "enforce"] == [status.mode for status in decisions[0].quotas]


def test_stop_ends_matching(make: Make) -> None:
    """Later rules are not looked at."""
    limiter = make("{name: all, per: global, quotas: 0/s}, {name: office, match: {ip: {cidr: 10.0.0.0/8}}, priority: 1, stop: true}")

    assert limiter.allow({"ip": "10.1.1.1"})
    assert not limiter.allow({"ip": "11.1.1.1"})


def test_peek_takes_nothing(make: Make) -> None:
    """It answers what `check` would."""
    limiter = make(TWO)

    assert [limiter.peek({"client": "a"}).remaining for _ in range(2)] == [3, 3]
    assert limiter.peek({"client": "a"}, 4).retry_after is None


def test_debit_takes_without_asking(make: Make) -> None:
    """As far as `max_debt` reaches."""
    limiter = make("{name: a, per: client, quotas: 5/minute max_debt 5}")
    limiter.debit({"client": "a"}, 8)

    assert not limiter.check({"client": "a"}).allowed
    assert 0 == limiter.peek({"client": "a"}).remaining
    assert 5 == limiter.peek({"client": "b"}).remaining


def test_refund_gives_back_by_the_decision_alone(make: Make) -> None:
    """Each unit once, and to the rules that were charged."""
    limiter = make(TWO)
    decision = limiter.check({"client": "a"})

    assert 2 == decision.cost
    assert [1, 1] == [limiter.refund(decision, 1), limiter.refund(decision)]
    assert {"clients": 3, "all": 5} == left(limiter.peek({"client": "a"}))
    with pytest.raises(UsageError):
        limiter.refund(decision, 1)
    with pytest.raises(UsageError):
        make(TWO).refund(decision)


def test_settle_corrects_a_reservation(make: Make) -> None:
    """Once."""
    limiter = make("{name: a, per: client, quotas: 100/minute}")
    decision = limiter.reserve({"client": "a"}, 60)

    assert 75 == limiter.settle(decision, 25).remaining
    with pytest.raises(UsageError):
        limiter.settle(decision, 10)


def test_reset_forgets_the_keys_of_a_request(make: Make) -> None:
    """Under all rules that apply."""
    limiter = make(TWO)
    limiter.check({"client": "a"})

    assert limiter.reset({"client": "a"})
    assert {"clients": 3, "all": 5} == left(limiter.peek({"client": "a"}))
    assert not limiter.reset({"client": "a"})


def test_a_denial_as_an_exception(make: Make) -> None:
    """With the decision in it."""
    limiter = make("{name: a, per: client, quotas: 1/minute}")
    assert limiter.check_or_raise({"client": "a"}).allowed
    with pytest.raises(Denied, match="1/minute") as caught:
        limiter.check_or_raise({"client": "a"})

    assert "a" == caught.value.decision.rule


def test_wait_sleeps_until_it_is_admitted(make: Make, clock: ManualClock) -> None:
    """On a manual clock nobody sleeps."""
    limiter = make("{name: a, per: client, quotas: 1/minute}")
    limiter.check({"client": "a"})
    began = clock.time()

    assert limiter.wait({"client": "a"}).allowed
    assert 60.0 == clock.time() - began
    assert not limiter.wait({"client": "a"}, timeout=1).allowed
    assert limiter.wait({"client": "b"}).allowed


def test_a_slot_is_held_and_given_back(make: Make) -> None:
    """By the decision: no key is needed."""
    limiter = make("{name: slots, per: client, quotas: 1 concurrent}, {name: rate, per: client, quotas: 9/minute}")
    with limiter.slot({"client": "a"}) as slot:
        assert slot.renew()
        with pytest.raises(Denied):
            limiter.slot({"client": "a"}).__enter__()

    assert not slot.held
    decision = limiter.check({"client": "a"})
    assert decision.allowed
    assert limiter.renew(decision)
    assert limiter.release(decision)
    assert not limiter.release(decision)
    assert 60.0 == limiter.lease_ttl


def test_a_slot_needs_a_rule_with_slots(make: Make) -> None:
    """A rate holds nothing."""
    limiter = make("{name: rate, per: client, quotas: 9/minute}")
    with pytest.raises(UsageError):
        limiter.slot({"client": "a"})

    assert limiter.lease_ttl is None


async def test_everything_can_be_awaited(make: Make) -> None:
    """With the same answers."""
    limiter = make("{name: a, per: client, quotas: [5/minute max_debt 9, 9 concurrent]}")
    request = {"client": "a"}
    decision = await limiter.check_async(request, 2)

    assert 3 == decision.remaining
    assert await limiter.allow_async(request)
    assert 2 == (await limiter.peek_async(request)).remaining
    assert await limiter.renew_async(decision)
    assert 2 == await limiter.refund_async(decision)
    assert not await limiter.release_async(decision)
    assert 3 == (await limiter.settle_async(await limiter.reserve_async(request, 3), 1)).remaining
    assert (await limiter.debit_async(request, 3)).allowed
    with pytest.raises(Denied):
        await limiter.check_or_raise_async(request)
    assert await limiter.reset_async(request)
    assert (await limiter.wait_async(request, timeout=1)).allowed
    async with limiter.slot(request):
        assert limiter.stats().allowed


def test_load_replaces_rules_and_keeps_counters(make: Make) -> None:
    """A wrong document is refused, and the old rules stay."""
    limiter = make("{name: a, per: client, quotas: 5/minute}")
    limiter.check({"client": "a"}, 4)

    new = rules.load("rules.yaml", text="version: 1\nrules: [{name: a, per: client, quotas: 9/minute}]")
    assert 2 == limiter.load(new)
    assert (5, 2) == (limiter.peek({"client": "a"}).remaining, limiter.generation)
    assert new is limiter.rule_set
    with pytest.raises(RuleError):
        limiter.load("/nowhere/rules.yaml")
    with pytest.raises(UsageError):
        limiter.load(new, transition="sudden")  # type: ignore[arg-type]
    assert 2 == limiter.generation


def test_a_safe_transition_lets_nobody_have_both(make: Make, clock: ManualClock) -> None:
    """For one old window the old quota is asked too."""
    limiter = make("{name: a, per: client, quotas: 5/minute}")
    limiter.check({"client": "a"}, 5)
    limiter.load(rules.load("rules.yaml", text="version: 1\nrules: [{name: a, per: client, quotas: 5/hour}]"))

    assert not limiter.allow({"client": "a"})
    clock.advance(60)
    assert limiter.allow({"client": "a"}, 5)


def test_close_frees_and_refuses(make: Make) -> None:
    """Any number of times; as a context manager too."""
    with make(TWO) as limiter:
        limiter.check({"client": "a"})
        assert limiter.stats().allowed
    limiter.close()

    assert limiter.closed is True
    for call in (limiter.check, limiter.allow, limiter.peek, limiter.reset, limiter.explain, limiter.wait):
        with pytest.raises(UsageError, match="closed"):
            call({"client": "a"})
    with pytest.raises(UsageError, match="closed"):
        limiter.stats()


def test_threads_share_a_limit_exactly(make: Make) -> None:
    """No more and no less than the rule says."""
    limiter = make("{name: a, per: client, quotas: 1000/minute}")
    allowed: list[int] = []
    threads = [threading.Thread(target=lambda: allowed.append(sum(limiter.allow({"client": "a"}) for _ in range(500)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 1000 == sum(allowed)


# --- Wrong attributes -------------------------------------------------------------------------------------------------------------------

METHODS = ["check", "allow", "peek", "reset", "explain"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "attributes",
    [
        5,
        None,
        "method=GET",
        b"GET",
        [("method", "GET")],
        {1: "GET"},
        {None: "GET"},
        {b"method": "GET"},
        {"client": 1.5},
        {"client": b"a"},
        {"client": ["a"]},
        {"client": {"a": "b"}},
        {"client": object()},
        {"headers": "x-api-key"},
        {"headers": ["x-api-key"]},
        {"headers": {1: "a"}},
        {"headers": {"a": {"b": "c"}}},
        {"query": {"a": 1.5}},
        {f"a{number}": "b" for number in range(2000)},
        {"headers": {f"a{number}": "b" for number in range(2000)}},
    ],
    ids=lambda attributes: f"{attributes!r:.40}",
)
def test_wrong_attributes_are_refused(make: Make, method: str, attributes: Any) -> None:  # noqa: ANN401  # that is the point
    """With a sentence, and never with a decision."""
    limiter = make(TWO)
    with pytest.raises(UsageError) as caught:
        getattr(limiter, method)(attributes)

    assert len(str(caught.value)) < 200
    assert (0, 0) == (limiter.stats().allowed, limiter.stats().denied)


@pytest.mark.parametrize(
    "attributes",
    [
        {"client": None},
        {"client": ""},
        {"nobody": "asks", "for": "this", "": "x"},
        {"\ud800": "x"},
        {"headers": {}, "query": {}},
        {"headers": {"client": "a"}, "query": {"client": "a"}},
    ],
    ids=str,
)
def test_what_is_absent_makes_no_key(make: Make, attributes: dict[str, Any]) -> None:
    """And what no rule asks for is ignored."""
    assert ("all",) == make(TWO).check(attributes).rules


@pytest.mark.parametrize(
    ("value", "same"),
    [(42, "42"), (True, "true"), (2**70, str(2**70)), ("\ud800", "\ud800"), ("x" * 1_000_000, "x" * 1_000_000), ("\0", "\0"), ("é", "é")],
    ids=["int", "bool", "large", "surrogate", "long", "zero", "accent"],
)
def test_odd_values_are_counted_like_others(make: Make, value: Any, same: str) -> None:  # noqa: ANN401  # that is the point
    """The same value has the same counter."""
    limiter = make("{name: a, per: client, quotas: 2/minute}")

    assert 1 == limiter.check({"client": value}).remaining
    assert 0 == limiter.check({"client": same}).remaining
    assert 1 == limiter.check({"client": "another"}).remaining


def test_a_number_that_python_does_not_write_is_refused(make: Make) -> None:
    """More than 4300 digits are nobody's name."""
    with pytest.raises(UsageError, match="too large a number"):
        make(TWO).check({"client": 10**5000})


def test_headers_may_be_absent_but_not_something_else(make: Make) -> None:
    """None is nothing, as everywhere; a text is a mistake, and the message names the right place."""
    assert make(TWO).check({"client": "a", "headers": None, "query": None})
    with pytest.raises(UsageError, match="headers must be a mapping of texts, not str"):
        make(TWO).check({"client": "a", "headers": "x"})


@pytest.mark.parametrize("kind", [OrderedDict, MappingProxyType], ids=["OrderedDict", "MappingProxyType"])
def test_every_mapping_will_do(make: Make, kind: Callable[[dict[str, Any]], Any]) -> None:
    """Also below `headers`."""
    limiter = make("{name: a, per: 'header:x-team', quotas: 2/minute}")

    assert ("a",) == limiter.check(kind({"headers": kind({"X-Team": "b"})})).rules


def test_a_mapping_that_fails_tells_its_own_error(make: Make) -> None:
    """It is not ours to hide."""

    class Broken(dict[str, str]):
        def items(self) -> Any:  # noqa: ANN401  # never returns
            raise RuntimeError("broken")

    class Lazy(OrderedDict[str, str]):
        def items(self) -> Any:  # noqa: ANN401  # never returns
            raise RuntimeError("broken")

    assert make(TWO).check(Broken(client="a")).allowed
    for attributes in (MappingProxyType(Lazy(client="a")),):
        with pytest.raises(RuntimeError, match="broken"):
            make(TWO).check(attributes)


@pytest.mark.parametrize("cost", [-1, 1.5, "1", 2**60, [1]], ids=repr)
def test_a_wrong_cost_is_refused(make: Make, cost: Any) -> None:  # noqa: ANN401  # that is the point
    """As for keys."""
    with pytest.raises(UsageError):
        make(TWO).check({"client": "a"}, cost)


# --- Getting around a rule --------------------------------------------------------------------------------------------------------------

LOGIN = "{name: login, match: {method: POST, path: /login}, per: ip, quotas: 1/minute}"


@pytest.mark.parametrize(
    "other",
    [
        {"method": "post"},
        {"method": "PoSt"},
        {"path": "//login"},
        {"path": "/login/"},
        {"path": "/login//"},
        {"path": "/./login"},
        {"path": "/x/../login"},
        {"path": "/../login"},
        {"path": "/%6Cogin"},
        {"path": "/%6cogin"},
        {"path": "/x/%2e%2e/login"},
        {"path": "/x/%2E./login"},
        {"path": "/login?x=1"},
        {"path": "/login#top"},
        {"path": "login"},
        {"ip": "::ffff:203.0.113.7"},
        {"ip": "::FFFF:cb00:7107"},
        {"ip": "203.0.113.7:4711"},
        {"ip": "[::ffff:203.0.113.7]:4711"},
        {"ip": " 203.0.113.7 "},
        {"client": "somebody else"},
        {"headers": {"X-Forwarded-For": "198.51.100.1"}},
        {"headers": {"x-forwarded-for": "198.51.100.1, 10.0.0.1"}},
        {"headers": {"Forwarded": "for=198.51.100.1", "X-Real-Ip": "198.51.100.1"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("head", ["", "identity: [{ip: {trusted_proxies: [10.0.0.0/8]}}]\n"], ids=["plain", "identity"])
def test_no_spelling_gets_around_a_rule(make: Make, head: str, other: dict[str, Any]) -> None:
    """The same request in other words has the same counter."""
    limiter = make(LOGIN, head)
    request = {"method": "POST", "path": "/login", "ip": "203.0.113.7"}

    assert limiter.check(request).allowed
    assert "login" == limiter.check(request | other).rule
    assert not limiter.check(request | other).allowed


def test_an_encoded_slash_is_no_separator(make: Make) -> None:
    """For most servers it is none, and `/a%2Fb` is another resource than `/a/b`."""
    limiter = make("{name: a, match: {path: /a/b}, per: global, quotas: 1/s}, {name: b, match: {path: '/*'}, per: global, quotas: 1/s}")

    assert ("b",) == limiter.peek({"path": "/a%2fb"}).rules
    assert ("a",) == limiter.peek({"path": "/a/b"}).rules


def test_a_client_behind_our_proxies_is_found(make: Make) -> None:
    """From the right, past the trusted ones; what stands further to the left is anybody's claim."""
    limiter = make("{name: a, per: client, quotas: 1/minute}", "identity: [{ip: {trusted_proxies: [10.0.0.0/8]}}]\n")

    def client(chain: str, peer: str = "10.0.0.1") -> str:
        return str(limiter.explain({"ip": peer, "headers": {"X-Forwarded-For": chain}})["attributes"]["client"])

    assert "198.51.100.1" == client("198.51.100.1")
    assert "198.51.100.1" == client("1.1.1.1, 198.51.100.1, 10.0.0.2")
    assert "203.0.113.9" == client("198.51.100.1", peer="203.0.113.9")
    assert "10.0.0.1" == client("198.51.100.1, nonsense")


def test_neighbours_in_an_ipv6_network_are_one_client(make: Make) -> None:
    """Whoever has a network of 2^64 addresses does not have as many limits."""
    limiter = make("{name: a, per: ip, quotas: 1/minute}")

    assert limiter.allow({"ip": "2001:db8::1"})
    assert not limiter.allow({"ip": "2001:db8::ffff:2"})
    assert limiter.allow({"ip": "2001:db8:0:1::1"})


def test_nobody_poses_as_another_source(make: Make) -> None:
    """With several sources the name of a client says where it comes from."""
    limiter = make("{name: a, per: client, quotas: 1/minute}", "identity: [{header: x-api-key}, {ip: {}}]\n")

    assert limiter.allow({"ip": "203.0.113.7"})
    assert limiter.allow({"ip": "198.51.100.1", "headers": {"x-api-key": "203.0.113.7"}})
    assert limiter.allow({"ip": "198.51.100.1", "headers": {"x-api-key": "ip:203.0.113.7"}})


def test_values_of_a_key_do_not_run_into_each_other(make: Make) -> None:
    """`ab` and `c` are not `a` and `bc`."""
    limiter = make("{name: a, per: [x, y], quotas: 1/minute}")

    assert limiter.allow({"x": "ab", "y": "c"})
    assert limiter.allow({"x": "a", "y": "bc"})
    assert not limiter.allow({"y": "c", "x": "ab"})
