"""
What all integrations decide by: arguments, addresses, exemptions, what rules read, and the words of a denial.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from tidegate import Limiter, rules
from tidegate.errors import ConfigError, QuotaError
from tidegate.integrations._address import NOWHERE, client_of_address, peer_address
from tidegate.integrations._exempt import Exemptions
from tidegate.integrations._functions import key_function
from tidegate.integrations._guard import Guard, problem
from tidegate.integrations._target import escaped_path, parameters_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.service.running import ask, here
    from tidegate.testing import ManualClock
else:
    from service.running import ask, here


@pytest.fixture
def guards() -> Iterator[Any]:
    """
    Makes guards that are closed after the test.
    """
    made: list[Guard] = []

    def make(*args: Any, **options: Any) -> Guard:  # noqa: ANN401  # as for `Guard`
        made.append(Guard(*args, **options))
        return made[-1]

    yield make
    for guard in made:
        guard.close()


def rule_set(text: str) -> rules.RuleSet:
    """
    Rules from a text.
    """
    return rules.load("rules.yaml", text=text)


WITH_IDENTITY = "{version: 1, identity: [{header: x-api-key}], rules: [{name: a, per: client, quotas: 1/minute}]}"
WITHOUT = "{version: 1, rules: [{name: a, per: client, quotas: 1/minute}]}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "say by what to decide, once.*given is none of them"),
        ({"quotas": "1/minute", "service": "http://localhost"}, "say by what to decide, once.*given are quotas and service"),
        ({"quotas": "1/minute", "watch": True}, "watch goes with rules only"),
        ({"rules": rule_set(WITHOUT), "trusted_proxies": ["10.0.0.0/8"]}, "trusted_proxies goes with quotas only"),
        ({"rules": rule_set(WITHOUT), "scoped": True}, "scoped goes with quotas only"),
        ({"rules": rule_set(WITH_IDENTITY), "key": str}, "the rules say who the client is"),
        ({"quotas": "1/minute", "key": "name"}, "the key is a function of the request"),
        ({"quotas": "1/minute", "cost": -1}, "the cost is a whole number"),
        ({"quotas": "1/minute", "cost": 1.5}, "the cost is a whole number"),
        ({"quotas": "1/minute", "name": "two words"}, "cannot be a name"),
        ({"quotas": "1/minute", "trusted_proxies": ["proxy"]}, "'proxy' is no network"),
        ({"quotas": "1/minute", "trusted_proxies": ["10.0.0.1/8"]}, "is no network"),
        ({"quotas": "1/minute", "exempt": ["healthz"]}, "exempts nothing"),
        ({"quotas": "1/minute", "exempt": ["/a/*/b"]}, "exempts nothing"),
        ({"limiter": object()}, "the limiter decides by rules"),
        ({"quotas": "1/minute", "store": "nowhere"}, "the store is no address"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(arguments: dict[str, Any], says: str) -> None:
    """With a sentence that says what to write."""
    with pytest.raises(ConfigError, match=says):
        Guard(**arguments)


def test_an_option_that_is_misspelt_is_told_with_all_that_there_are() -> None:
    """Not only those of the store."""
    with pytest.raises(TypeError, match=r"unknown option 'exemptions'.*exempt, headers.*store, trusted_proxies"):
        Guard("1/minute", exemptions=["/healthz"])  # type: ignore[call-arg]  # what is tested


def test_a_limiter_by_keys_is_refused() -> None:
    """It cannot read requests."""
    with Limiter("1/minute") as limiter, pytest.raises(ConfigError, match="for quotas, write them instead"):
        Guard(limiter=limiter)  # type: ignore[arg-type]  # what is tested


def test_wrong_quotas_are_told_as_everywhere() -> None:
    """By the error of the quota language."""
    with pytest.raises(QuotaError):
        Guard("many")


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1:443", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:DB8::1]:443", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        (None, NOWHERE),
        ("", NOWHERE),
        ("testclient", NOWHERE),
        ("1garbage", NOWHERE),
        ("/run/socket", NOWHERE),
        ("1" * 100_000, NOWHERE),
    ],
    ids=lambda value: str(value)[:20],
)
def test_whoever_asks_has_an_address(host: str | None, address: str) -> None:
    """Those without one are counted together: a rule by address applies to everybody."""
    assert address == peer_address(host)


def test_one_customer_of_ipv6_is_one_client(guards: Any) -> None:  # noqa: ANN401  # a fixture
    """By its network, with quotas and with rules that have no identity; IPv4 inside IPv6 is IPv4."""
    for guard in (guards("1/minute"), guards(rules=rule_set(WITHOUT))):
        allowed = []
        for host in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "::ffff:192.0.2.1", "192.0.2.1"):
            attributes = {"ip": peer_address(host)}
            guard.identify_request(attributes, None)
            allowed.append(guard.check(attributes).allowed)
        assert [True, False, True, True, False] == allowed
    assert "192.0.2.1" == client_of_address("::ffff:192.0.2.1")


def test_a_proxy_behind_a_socket_can_be_trusted(guards: Any) -> None:  # noqa: ANN401  # a fixture
    """By the word `unix`, because it has no address."""
    guard = guards("1/minute", trusted_proxies=["unix"])
    asked = [guard.check({"ip": NOWHERE, "headers": {"X-Forwarded-For": f"203.0.113.{number}"}}).allowed for number in (1, 2, 1)]

    assert [True, True, False] == asked
    assert frozenset({"x-forwarded-for"}) == guard.reads.headers


def test_only_what_is_read_has_to_be_told(guards: Any) -> None:  # noqa: ANN401  # a fixture
    """Headers, parameters and attributes of all rules and of the identity."""
    text = """
        version: 1
        identity: [{header: X-Api-Key}, {jwt_claim: sub}, {ip: {trusted_proxies: [10.0.0.0/8]}}]
        jwt: {verified_by: upstream, header: X-Token}
        rules:
          - {name: a, match: {path: /a, headers: {X-Beta: "1"}, query: {Export: csv}}, per: [client, "header:X-Tenant"], quotas: 1/s}
          - {name: b, match: {host: "*.example.com"}, per: "query:Account", quotas: 1/s, cost: "header:x-units"}
    """
    reads = guards(rules=rule_set(text)).reads

    assert frozenset({"x-api-key", "x-token", "x-forwarded-for", "x-beta", "x-tenant", "x-units"}) == reads.headers
    assert frozenset({"Export", "Account"}) == reads.query
    assert {"path", "host", "client"} <= reads.attributes
    assert "method" not in reads.attributes
    assert not reads.is_address_only
    assert guards("1/minute").reads.is_address_only


def test_exemptions_are_paths_and_beginnings_of_paths() -> None:
    """One text is one path and not its letters."""
    paths = Exemptions(["/healthz", "/static/*", "/api/**"])

    assert all(path in paths for path in ("/healthz", "/static/", "/static/a/b", "/api/x"))
    assert not any(path in paths for path in ("/healthz/", "/static", "/static/../login", "/api/..", "/"))
    assert "/healthz" in Exemptions("/healthz")
    assert not Exemptions(())


@pytest.mark.parametrize(("said", "key"), [("a", "a"), (7, "7"), (UUID(int=1), str(UUID(int=1))), (1.5, None), (b"a", None), (True, None)])
def test_a_key_is_a_text_a_number_or_a_uuid(said: object, key: str | None) -> None:
    """Other objects may spell themselves anew each time, and then nobody would be limited."""
    assert key == key_function(lambda _request: said).ask(None)


def test_an_async_key_function_is_of_no_use_to_blocking_code() -> None:
    """It is a failure like others, and leaves nothing behind that was never awaited."""

    async def key(_request: object) -> str:
        return "a"

    assert None is key_function(key).ask(None)
    assert "a" == asyncio.run(key_function(key).ask_async(None))


def test_failures_of_a_key_function_are_logged_once_per_kind(caplog: pytest.LogCaptureFixture) -> None:
    """However often they happen, and however many kinds there are."""
    kinds = [type(f"Error{number}", (Exception,), {}) for number in range(100)]

    def fail(number: int) -> None:
        raise kinds[number]("secret")

    function = key_function(fail)
    with caplog.at_level(logging.WARNING):
        assert [None] * 400 == [function.ask(number % 100) for number in range(400)]

    assert 32 == len(caplog.records)
    assert "secret" not in caplog.text


def test_paths_are_escaped_so_that_rules_decode_them_once() -> None:
    """What the application sees as a percent sign stays one."""
    assert ["/a/b", "/a%2541", "/a%3Fb", "/a%23"] == [escaped_path(path) for path in ("/a/b", "/a%41", "/a?b", "/a#")]


def test_parameters_are_those_that_are_read() -> None:
    """Of any number that are sent; the last of one name counts, and without a list there is an end."""
    query = "&".join(f"p{number}={number}" for number in range(5000)) + "&p7=last+one&%70%38=%38"

    assert {"p7": "last one", "p8": "8"} == parameters_of(query, frozenset({"p7", "p8", "absent"}))
    assert 100 == len(parameters_of(query, None))
    assert {} == parameters_of("", None)


def test_equal_limits_of_routes_share_a_limiter(guards: Any) -> None:  # noqa: ANN401  # a fixture
    """And count by themselves, by their scope."""
    first, second = guards("1/minute", scoped=True), guards("1/minute", scoped=True)
    other = guards("2/minute", scoped=True)

    assert first.limiter is second.limiter
    assert first.limiter is not other.limiter
    assert [True, False, True] == [first.check({"ip": "192.0.2.1", "scope": scope}).allowed for scope in ("a", "a", "b")]


def test_slots_are_given_back_once_and_quietly(guards: Any, clock: ManualClock) -> None:  # noqa: ANN401  # a fixture
    """Twice, without any, and after the limiter was closed."""
    guard = guards("2 concurrent", clock=clock)
    first, second = (guard.check({"ip": "192.0.2.1"}) for _ in range(2))
    denied = guard.check({"ip": "192.0.2.1"})
    assert (True, True, False, 2) == (first.allowed, second.allowed, denied.allowed, guard.held)
    guard.release(first)
    guard.release(first)
    guard.release(denied)

    assert 1 == guard.limiter.peek({"ip": "192.0.2.1"}).remaining
    guard.close()
    guard.release(second)
    assert 0 == guard.held


async def test_a_delay_is_waited_for_and_given_back(guards: Any, clock: ManualClock) -> None:  # noqa: ANN401  # a fixture
    """Blocking and async; whoever is cancelled meanwhile gives the place back."""
    begun = clock.time()
    guard = guards("1/minute queue 5m", clock=clock)
    assert guard.check({"ip": "192.0.2.1"}).allowed
    assert guard.check({"ip": "192.0.2.1"}).allowed
    assert (await guard.check_async({"ip": "192.0.2.1"})).allowed
    assert 120 == clock.time() - begun

    real = guards("1/minute queue 5m")
    real.check({"ip": "192.0.2.1"})
    waiting = asyncio.create_task(real.check_async({"ip": "192.0.2.1"}))
    await asyncio.sleep(0)  # noqa: TID251  # one turn: now it waits
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert real.decide({"ip": "192.0.2.1"}).delay <= 60


def test_a_denial_has_the_words_of_the_service() -> None:
    """Type, title and detail are what a gateway in front of the service would pass on."""
    text = "{version: 1, rules: [{name: all, per: global, quotas: 0/minute}]}"
    with here(text) as service:
        answer = ask(f"http://{service.addresses['http']}", "GET", "/api/v1/rate-limit/forward-auth")
    with Limiter.from_rules(rule_set(text)) as limiter:
        said = json.loads(problem(limiter.check({})))

    assert 429 == answer.status
    assert answer.json == {name: said[name] for name in answer.json}
    assert {"rule"} == said.keys() - answer.json.keys()


def test_a_denial_does_not_tell_of_rules_that_are_not_told() -> None:
    """A rule with `headers: false` is named neither in the headers nor in the body."""
    text = "{version: 1, rules: [{name: hidden, per: global, quotas: 0/minute, headers: false}]}"
    with Limiter.from_rules(rule_set(text)) as limiter:
        said = problem(limiter.check({}))

    assert b"hidden" not in said
    assert [] == json.loads(said)["violated-policies"]


def test_who_is_denied_for_lack_of_a_store_did_not_ask_too_often(guards: Any) -> None:  # noqa: ANN401  # a fixture
    """The problem is another one."""
    with socket.socket() as nobody:
        # Bound, so that nobody else can listen there, and not listening.
        nobody.bind(("127.0.0.1", 0))
        guard = guards("5/minute", store=f"redis://127.0.0.1:{nobody.getsockname()[1]}", on_store_error="deny")
        said = json.loads(problem(guard.check({"ip": "192.0.2.1"})))

    assert ("Temporary Reduced Capacity", "try again in 1 s") == (said["title"], said["detail"])
