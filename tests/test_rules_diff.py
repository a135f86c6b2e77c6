"""
What changes between two rule sets, in words.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tidegate import Limiter, rules
from tidegate.rules.diff import diff
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.rules.diff import Change

BASE = "name: a, per: client, quotas: 10/second"


def changes(old: str, new: str, head: str = "", new_head: str | None = None) -> tuple[Change, ...]:
    """
    The changes between two lists of rules, each written in braces.
    """
    texts = (f"version: 1\n{head}rules: [{old}]", f"version: 1\n{head if new_head is None else new_head}rules: [{new}]")
    return diff(*(rules.load("rules.yaml", text=text) for text in texts))


def of_rule(old: str, new: str) -> list[str]:
    """
    The sentences about one rule of which a part changes.
    """
    return [str(change) for change in changes(f"{{{BASE}{old}}}", f"{{{BASE}{new}}}")]


def of_quotas(old: str, new: str) -> list[str]:
    """
    The sentences about quotas.
    """
    rule = "{{name: a, per: client, quotas: [{}]}}"
    return [str(change) for change in changes(rule.format(old), rule.format(new))]


def test_no_change() -> None:
    """Comments, spaces, the order of keys and the spelling of quotas are none."""
    assert () == changes("{name: a, per: client, quotas: 10/second}", "{quotas: [10 per second], name: a, per: [client]} # the same\n")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("10/second", "20/second", ["a: 10/second becomes 20/second (looser)"]),
        ("10/second", "5/second", ["a: 10/second becomes 5/second (tighter)"]),
        ("10/second", "10/second, 100/minute", ["a: 100/minute is added (tighter)"]),
        ("10/second, 100/minute", "100/minute", ["a: 10/second is removed (looser)"]),
        ("10/second, 100/minute", "100/minute, 10/second", []),
        ("9/second, 99/hour", "10/second, 98/hour", ["a: 9/second becomes 10/second (looser)", "a: 99/hour becomes 98/hour (tighter)"]),
        ("100/minute", "100/hour", ["a: 100/minute becomes 100/hour (tighter)"]),
        ("100/minute", "200/hour", ["a: 100/minute becomes 200/hour"]),
        ("100/minute", "100/minute sliding_window_log", ["a: 100/minute becomes 100/minute sliding_window_log"]),
        ("100/minute", "200/minute burst 5", ["a: 100/minute becomes 200/minute burst 5"]),
        ("100/minute burst 5", "100/minute burst 6", ["a: 100/minute burst 5 becomes 100/minute burst 6 (looser)"]),
        ("100/minute burst 5", "90/minute burst 6", ["a: 100/minute burst 5 becomes 90/minute burst 6"]),
        ("100/minute min_interval 1s", "100/minute", ["a: 100/minute min_interval 1s becomes 100/minute (looser)"]),
        ("100/minute", "100/minute advance 1s", ["a: 100/minute becomes 100/minute advance 1s (tighter)"]),
        ("20 concurrent", "10 concurrent", ["a: 20 concurrent becomes 10 concurrent (tighter)"]),
        ("unlimited", "10/second", ["a: unlimited becomes 10/second (tighter)"]),
        ("10/second", "unlimited", ["a: 10/second becomes unlimited (looser)"]),
        ("10/day calendar", "10/month calendar", ["a: 10/day calendar becomes 10/month calendar"]),
    ],
)  # fmt: skip
def test_quotas(old: str, new: str, expected: list[str]) -> None:
    """Looser or tighter, where the numbers tell it."""
    assert expected == of_quotas(old, new)


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ("100/minute", "200/minute", None),
        ("100/minute burst 5", "100/hour burst 5", None),
        ("100/minute", "100/hour", "the window changes; with `transition: safe` the old quota is asked too, for 60.0 s"),
        ("100/minute sliding_window_counter", "100/hour sliding_window_counter", "for 120.0 s"),
        ("100/minute", "100/minute burst 5", "the algorithm changes; with `transition: safe` the old quota is asked too, for 60.0 s"),
        ("100/minute burst 5", "100/minute", "until it has drained"),
        ("10/day calendar", "10/hour calendar", "until the day is over"),
        ("10/day calendar Europe/Berlin", "10/day calendar", "the window changes"),
        ("5 concurrent", "5/second", "its counters start afresh, because the algorithm changes"),
        ("10/second", "unlimited", "its counters start afresh, because the algorithm changes"),
        ("unlimited", "10/second", None),
    ],
)
def test_counters_that_start_afresh_are_told(old: str, new: str, note: str | None) -> None:
    """And what `transition: safe` means for them."""
    rule = "{{name: a, per: client, quotas: [{}]}}"
    (change,) = changes(rule.format(old), rule.format(new))

    assert (note is None) == (change.note is None)
    assert (note or "") in (change.note or "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("4/minute", "5/minute"),
        ("4/minute", "5/hour"),
        ("4/minute", "5/minute sliding_window_log"),
        ("4/minute burst 4", "5/hour burst 5"),
        ("4/minute gcra", "5/minute fixed_window"),
        ("4/hour calendar", "5/hour calendar Europe/Berlin"),
        ("4/minute sliding_window_counter", "5/minute sliding_window_counter buckets 6"),
    ],
)
def test_what_is_said_about_counters_is_what_happens(old: str, new: str) -> None:
    """Exactly those of which nothing is said are kept by the engine."""
    rule = "version: 1\nrules: [{{name: a, per: client, quotas: [{}]}}]"
    sets = [rules.load("rules.yaml", text=rule.format(text)) for text in (old, new)]
    limiter = Limiter.from_rules(sets[0], clock=ManualClock())
    limiter.check({"client": "x"}, 4)
    limiter.load(sets[1], transition="immediate")
    (change,) = diff(*sets)

    assert (change.note is not None) == (limiter.peek({"client": "x"}).remaining == 5)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", ", mode: shadow", ["a: now shadow, was enforced (looser)"]),
        (", mode: shadow", "", ["a: now enforced, was shadow (tighter)"]),
        (", mode: off", ", mode: shadow", ["a: now shadow, was off"]),
        (", mode: off", "", ["a: now enforced, was off (tighter)"]),
        (", rollout: 25%", ", rollout: 50.5%", ["a: enforced for 50.5% of keys, was 25% (tighter)"]),
        ("", ", rollout: 5%", ["a: enforced for 5% of keys, was 100% (looser)"]),
        ("", ", cost: 2", ["a: a request costs 2, was 1 (tighter)"]),
        ("", ", cost: size", ["a: a request costs size or else 1, was 1"]),
        (", cost: size", ", cost: {attribute: size, max: 9}", ["a: a request costs size or else 1, at most 9, was size or else 1"]),
        ("", ", stop: true", ["a: now stops: no later rule is looked at once it applies (looser)"]),
        (", stop: true", "", ["a: no longer stops: later rules are looked at too (tighter)"]),
        ("", ", priority: 5", ["a: priority 5, was 0"]),
        ("", ", on_store_error: deny", ["a: when the store cannot answer: deny, was the engine's default"]),
        ("", ", budget_ms: 7", ["a: the store may take 7 ms, was the engine's default"]),
        ("", ", headers: false", ["a: clients are no longer told about its quotas"]),
        ("", ", owner: me", ["a: owner 'me' is added"]),
        (", owner: me", ", owner: you", ["a: owner 'you', was 'me'"]),
        (", description: d", "", ["a: description 'd' is removed"]),
        ("", ", match: {method: POST}", ["a: applies to method POST, was every request (looser)"]),
        (", match: {method: POST}", ", match: {method: GET}", ["a: applies to method GET, was method POST"]),
        (
            ", match: {method: POST, path: /a}",
            ", match: {path: /a}",
            ["a: applies to path /a, was method POST, path /a (tighter)"],
        ),
        (
            ", match: {host: {not: {suffix: .com}}}",
            ", match: {host: {regex: 'a+', ignore_case: true}, tier: {present: true}}",
            ["a: applies to host fits the expression a+, tier present, was host not ends with .com"],
        ),
        ("", ", tiers: {pro: 9/second}", ["a: tier pro is added with 9/second"]),
        (", tiers: {pro: 9/second}", "", ["a: tier pro is removed, its keys have 10/second, had 9/second"]),
        (", tiers: {pro: 9/second}", ", tiers: {pro: 8/second}", ["a: tier pro: 9/second becomes 8/second (tighter)"]),
        ("", ", overrides: {someclient: 9/second}", ["a: override client=so*** is added with 9/second"]),
        (", overrides: {someclient: 9/second}", "", ["a: override client=so*** is removed, had 9/second"]),
        (
            ", overrides: {someclient: 9/second}",
            ", overrides: {someclient: 90/second}",
            ["a: override client=so***: 9/second becomes 90/second (looser)"],
        ),
        (
            ", tiers: {pro: 9/second}, overrides: {someclient: 9/second}",
            ", tiers: {pro: 9/second}, overrides: {someclient: {tier: pro}}",
            ["a: override client=so*** has tier pro, had 9/second"],
        ),
    ],
)
def test_parts_of_a_rule(old: str, new: str, expected: list[str]) -> None:
    """Every key of a rule has its sentence."""
    assert expected == of_rule(old, new)


def test_other_keys_are_other_counters() -> None:
    """There is nobody whose counters could be kept."""
    (change,) = changes("{name: a, per: client, quotas: 1/s}", "{name: a, per: [ip, path], quotas: 1/s}")

    assert "a: counted per ip, path, was per client" == str(change)
    assert change.note == "its counters start afresh, because the keys are others"


def test_rules_come_and_go() -> None:
    """With what they say, and what that means."""
    found = changes(
        "{name: a, per: global, quotas: 1/s}, {name: s, match: {path: /x}, stop: true}",
        "{name: b, per: ip, match: {path: /b}, quotas: 2/s}, {name: c, per: ip, quotas: 2/s, mode: shadow, tiers: {pro: 1/s}}",
    )

    assert [
        "a: removed: 1/second per global for every request (looser)",
        "s: removed: no quotas per global for path /x, stops (tighter)",
        "b: added: 2/second per ip for path /b (tighter)",
        "c: added: 2/second and 1 tiers per ip for every request, shadow",
    ] == [str(change) for change in found]


def test_a_rule_gets_another_name() -> None:
    """It loses its counters, which nobody expects."""
    (change,) = changes("{name: a, per: global, quotas: 1/s}", "{name: b, per: global, quotas: 1/s}")

    assert "b: renamed, was a" == str(change)
    assert "start afresh" in (change.note or "")


def test_rules_are_reordered() -> None:
    """It matters if one of them stops."""
    a, b, c = (f"{{name: {name}, per: global, quotas: 1/s}}" for name in "abc")
    (change,) = changes(f"{a}, {b}, {c}", f"{a}, {c}, {b}")
    assert "rules: looked at in the order c, b, was b, c" == str(change)
    assert "none of them stops" in (change.note or "")

    stop = "{name: s, match: {path: /s}, stop: true}"
    (change,) = changes(f"{a}, {stop}", f"{stop}, {a}")
    assert "it matters because s stops" == change.note


def test_sections() -> None:
    """The domain, how clients are named, how tokens are verified."""
    old = "domain: one\nidentity: [{header: x-api-key}]\n"
    new = (
        "domain: two\nidentity: [{header: x-api-key}, {jwt_claim: sub}, {attribute: who}, {ip: {trusted_proxies: [10.0.0.0/8]}}]\n"
        "jwt: {verified_by: upstream}\n"
    )
    named = "header x-api-key as api_key; claim sub as user; attribute who; ip behind 10.0.0.0/8, IPv6 by /64"
    found = changes(f"{{{BASE}}}", f"{{{BASE}}}", old, new)

    assert [
        "domain: two, was one",
        f"identity: clients are named by {named}, was header x-api-key as api_key",
        "jwt: tokens are now looked at, without verifying signatures: an upstream does it",
    ] == [str(change) for change in found]
    assert "names now say which source they come from" in (found[1].note or "")


def test_no_secret_is_told(tmp_path: Path) -> None:
    """Neither keys of tokens, nor keys of clients, nor what a header must say."""
    secrets = ["0123456789abcdef" * 2, "fedcba9876543210" * 2, "zq81kk-xk27pd-1", "yw52mm-vb93rt-2", "Bearer abcdefgh", "Bearer ijklmnop"]
    files = []
    for number in (0, 1):
        (tmp_path / f"secret{number}").write_text(secrets[number])
        files.append(tmp_path / f"rules{number}.yaml")
        files[-1].write_text(
            f"""
version: 1
identity: [{{header: x-api-key}}, {{jwt_claim: sub}}]
jwt: {{algorithms: [HS256], secret_file: secret{number}, issuer: issuer{number}, audience: [a{number}]}}
rules:
  - name: a
    match: {{headers: {{authorization: "{secrets[4 + number]}"}}, api_key: {secrets[2 + number]}}}
    per: client
    quotas: 1/s
    overrides: {{"api_key:{secrets[2 + number]}": 5/s}}
  - {{name: b, per: "header:x-api-key", quotas: 1/s, overrides: {{"{secrets[2 + number]}": 5/s}}}}
  - {{name: c, per: api_key, quotas: 1/s, overrides: {{"{secrets[2 + number]}": 5/s}}}}
"""
        )
    found = diff(*map(rules.load, files))
    told = json.dumps([change.to_dict() for change in found]) + "".join(map(str, found))

    assert ["jwt: the secret changes", "jwt: the issuer issuer1, was issuer0", "jwt: the audience a1, was a0"] == list(map(str, found))[:3]
    assert {"jwt", "a", "b", "c"} == {change.about for change in found}
    for secret in secrets:
        assert not any(part in told for part in (secret[:6], secret[-6:], secret[4:12]))


def test_signatures_that_nobody_verifies_any_more_are_told(tmp_path: Path) -> None:
    """The most dangerous line of a file."""
    (tmp_path / "secret").write_text("s" * 32)
    texts = ("{algorithms: [HS256], secret_file: secret}", "{verified_by: upstream}")
    files = []
    for number, text in enumerate(texts):
        files.append(tmp_path / f"{number}.yaml")
        files[-1].write_text(f"version: 1\nidentity: [{{jwt_claim: sub}}]\njwt: {text}\nrules: [{{{BASE}}}]\n")
    old, new = map(rules.load, files)

    assert ["jwt: signatures are no longer verified here: an upstream does it (looser)"] == list(map(str, diff(old, new)))
    assert ["jwt: signatures are now verified here, and no longer by an upstream (tighter)"] == list(map(str, diff(new, old)))


def test_descriptors() -> None:
    """The reference service's trees are compared node by node."""
    old = """
domain: shop
descriptors:
  - {key: tenant, value: acme, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: ip, rate_limit: {unit: second, requests_per_unit: 5}}
  - {key: gone, rate_limit: {unit: second, requests_per_unit: 5}}
  - {key: path, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 5}}]}
"""
    new = """
domain: shop
descriptors:
  - {key: tenant, value: acme, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: ip, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: path, descriptors: [{key: user, rate_limit: {unlimited: true}}]}
  - {key: fresh, rate_limit: {unit: second, requests_per_unit: 5}}
"""
    found = diff(rules.load("old.yaml", text=old), rules.load("new.yaml", text=new))

    assert [
        "shop: tenant=acme: 10/minute becomes 20/minute (looser)",
        "shop: ip: 5/second becomes 5/hour",
        "shop: ip: now with shadow mode (looser)",
        "shop: gone is removed: 5/second (looser)",
        "shop: path > user: 5/day becomes unlimited (looser)",
        "shop: fresh is added: 5/second (tighter)",
    ] == [str(change) for change in found]
    assert found[1].note == "its counters start afresh, because the unit changes"


def test_domains_come_and_go() -> None:
    """As a whole."""
    old, new = (rules.load("r.yaml", text=f"domain: {name}\ndescriptors: [{{key: a}}, {{key: b}}]") for name in ("one", "two"))

    assert ["one: the domain is removed (looser)", "two: the domain is added, with 2 descriptors (tighter)"] == list(
        map(str, diff(old, new))
    )


def test_a_change_is_json() -> None:
    """For programs."""
    (change,) = changes("{name: a, per: client, quotas: 1/s}", "{name: a, per: client, quotas: 2/s}")

    assert {
        "about": "a",
        "what": "quotas",
        "text": "1/second becomes 2/second",
        "effect": "looser",
        "note": None,
    } == json.loads(json.dumps(change.to_dict()))
