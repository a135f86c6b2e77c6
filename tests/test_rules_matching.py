"""
The engine against a naive reading of the language: the same rules apply, for the same reason, to the same key, at the same cost.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import event, example, given
from hypothesis import strategies as st

from tidegate import Limiter, RuleLimiter, rules

if TYPE_CHECKING:
    from tests.naive_rules import captures_of, naive_explain, naive_facts, naive_path
else:  # Tests are scripts in a folder, not a package.
    from naive_rules import captures_of, naive_explain, naive_facts, naive_path

SEGMENTS = st.sampled_from(["a", "b", "v1", "A", "%61", "", ".", "..", "%2e%2E", "a%2fb", "x y", "é", "7"])
PATHS = st.lists(SEGMENTS, max_size=5).map(lambda segments: "/" + "/".join(segments))
ADDRESSES = st.sampled_from(
    ["10.0.0.1", "10.9.9.9", "203.0.113.7", "::ffff:10.0.0.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "no"]
)
TEXTS = st.sampled_from(["a", "b", "pro", "PRO", "Pro1", "free", "7", "12", "", "é"])

REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "method": st.sampled_from(["GET", "get", "POST", "Put"]),
        "path": PATHS | PATHS.map(lambda path: f"{path}?a=/b/../c"),
        "host": st.sampled_from(["api.example.com", "API.Example.com:8443", "example.com.", "other.org"]),
        "ip": ADDRESSES,
        "tier": TEXTS,
        "plan": TEXTS,
        "size": TEXTS | st.integers(0, 2000),
        "client": TEXTS,
        "headers": st.dictionaries(
            st.sampled_from(["X-Api-Key", "x-plan", "X-Forwarded-For", "other"]),
            TEXTS | st.lists(ADDRESSES, max_size=3).map(", ".join),
            max_size=3,
        ),
        "query": st.dictionaries(st.sampled_from(["page", "debug"]), TEXTS, max_size=2),
    },
)


def some(values: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """
    One value or a list of them.
    """
    return values | st.lists(values, min_size=1, max_size=3, unique=True)


WORDS = st.sampled_from(["a", "b", "pro", "PRO", "free", "7"])
TESTS = st.one_of(
    st.builds(lambda test, texts: {test: texts}, st.sampled_from(["exact", "prefix", "suffix"]), some(WORDS)),
    st.builds(lambda texts: {"glob": texts}, some(st.sampled_from(["p*", "*o", "?", "*", "P?o", "a*b*c"]))),
    st.builds(lambda texts: {"regex": texts}, some(st.sampled_from(["p.*", "[a-c]", "pro|free", "\\d+", "a|b"]))),
    st.builds(lambda flag: {"present": flag}, st.booleans()),
)
FOLDED = st.builds(
    lambda test, flag: test if "present" in test else {**test, "ignore_case": flag},
    TESTS,
    st.booleans(),
)
ANY = st.one_of(some(WORDS), FOLDED, FOLDED.map(lambda test: {"not": test}), WORDS.map(lambda word: {"not": word}))
PATTERNS = st.sampled_from(
    ["/", "/**", "/a", "/a/*", "/a/**", "/{id}", "/a/{id}", "/a/{id}/**", "/v*/b", "/*/b/**", "/A", "/é/{id}", "/a%2Fb", "/{id}/b"]
)
PATH_TESTS = st.one_of(
    some(PATTERNS),
    PATTERNS.map(lambda pattern: {"not": pattern}),
    PATTERNS.map(lambda pattern: {"pattern": pattern.replace("{id}", "*"), "ignore_case": True}),
    st.sampled_from([{"exact": "/a/b"}, {"prefix": "/a"}, {"suffix": "b"}, {"regex": "/a(/.*)?"}, {"glob": "*a*"}, {"present": False}]),
)
NETWORKS = st.sampled_from(["10.0.0.0/8", "203.0.113.0/24", "2001:db8::/32", "2001:db8::1/128", "0.0.0.0/0"])
MATCHES = st.fixed_dictionaries(
    {},
    optional={
        "method": some(st.sampled_from(["GET", "post", "PUT"])) | st.just({"not": "GET"}) | st.just({"prefix": "p"}),
        "path": PATH_TESTS,
        "host": some(st.sampled_from(["api.example.com", "*.example.com", "EXAMPLE.com", "*"])) | st.just({"suffix": ".COM"}),
        "ip": some(NETWORKS).map(lambda networks: {"cidr": networks})
        | NETWORKS.map(lambda one: {"not": {"cidr": one}})
        | st.just("10.0.0.1"),
        "tier": ANY,
        "plan": ANY,
        "headers": st.dictionaries(st.sampled_from(["x-plan", "X-Api-Key"]), ANY, min_size=1, max_size=2),
        "query": st.dictionaries(st.sampled_from(["page", "debug"]), ANY, min_size=1, max_size=2),
    },
)
QUOTAS = st.sampled_from(["5/minute", "1000/hour", ["2/second", "20/minute"], "0/minute", "7/minute burst 3"])
PER = st.sampled_from(
    ["client", "ip", "global", "plan", ["client", "ip"], ["ip", "header:x-plan"], "header:x-plan", "query:page", "api_key"]
)
COSTS = st.sampled_from(
    [0, 1, 3, "size", "header:x-plan", {"attribute": "size", "default": 2}, {"attribute": "size", "default": 0, "max": 9}]
)


@st.composite
def rule(draw: st.DrawFn) -> dict[str, Any]:
    """
    A rule without its name.
    """
    found: dict[str, Any] = {"match": draw(MATCHES), "per": draw(PER), "quotas": draw(QUOTAS)}
    if "{id}" in str(found["match"].get("path")) and "not" not in found["match"]["path"] and draw(st.booleans()):
        found["per"] = draw(st.sampled_from(["id", ["id", "ip"]]))
    optional = {
        "tiers": st.dictionaries(WORDS, QUOTAS, max_size=2),
        "cost": COSTS,
        "mode": st.sampled_from(["enforce", "shadow", "off"]),
        "priority": st.integers(-2, 2),
        "stop": st.booleans(),
        "rollout": st.sampled_from(["0%", "100%"]),
    }
    found |= draw(st.fixed_dictionaries({}, optional=optional))
    if found["per"] in ("plan", "query:page") and found.get("tiers"):
        plans = st.one_of(
            QUOTAS.map(lambda quotas: {"quotas": quotas}), st.sampled_from(sorted(found["tiers"])).map(lambda tier: {"tier": tier})
        )
        keys = draw(st.lists(WORDS, max_size=2, unique=True))
        found["overrides"] = [{"key": {found["per"]: key}, **draw(plans)} for key in keys]
    return found


SOURCES = st.sampled_from(
    [
        [],
        [{"header": "x-api-key"}],
        [{"header": "X-Api-Key", "as": "who"}, {"attribute": "plan"}],
        [{"attribute": "plan"}, {"ip": {}}],
        [{"header": "x-api-key"}, {"ip": {"trusted_proxies": ["10.0.0.0/8", "2001:db8::/127"], "ipv6_prefix": 48}}],
        [{"ip": {"trusted_proxies": ["10.0.0.0/8"], "ipv6_prefix": 128}}],
    ]
)
FILES = st.builds(
    lambda found, identity: {
        "version": 1,
        **({"identity": identity} if identity else {}),
        "rules": [{"name": f"r{number}", **one} for number, one in enumerate(found)],
    },
    st.lists(rule(), max_size=8),
    SOURCES,
)


def limiter_of(file: dict[str, Any]) -> RuleLimiter:
    """
    A limiter with these rules; JSON is accepted where YAML is.
    """
    return Limiter.from_rules(rules.load("rules.json", text=json.dumps(file)))


@given(file=FILES, request=REQUESTS)
def test_explain_agrees_with_a_naive_matcher(file: dict[str, Any], request: dict[str, Any]) -> None:
    """Rule by rule: what becomes of it, the key, the quotas, the cost and the mode."""
    told = limiter_of(file).explain(request)
    naive = naive_explain(file, request)

    for expected, actual in zip(naive, told["rules"], strict=True):
        event(expected.outcome)
        assert (expected.rule, expected.outcome) == (actual["rule"], actual["outcome"])
        if expected.outcome == "applies":
            assert (expected.key, expected.cost, expected.mode) == (tuple(actual["key"]), actual["cost"], actual["mode"])
            assert expected.quotas == tuple(actual["quotas"])
    seen = naive_facts(file, request)
    assert told["attributes"].items() <= seen.items()


@given(file=FILES, request=REQUESTS)
@example(file={"version": 1, "rules": [{"name": "a", "per": "global", "quotas": "0/minute", "cost": 0}]}, request={})
@example(
    # The index once looked an exact address up by the text that came in, and the rule was not found.
    file={"version": 1, "rules": [{"name": "a", "match": {"ip": "10.0.0.1"}, "per": "ip", "quotas": "5/minute"}]},
    request={"ip": "::ffff:10.0.0.1"},
)
def test_check_agrees_with_a_naive_matcher(file: dict[str, Any], request: dict[str, Any]) -> None:
    """On a fresh limiter: which rules apply, whether it passes, and who would have denied in shadow."""
    decision = limiter_of(file).check(request)
    applying = [found for found in naive_explain(file, request) if found.outcome == "applies"]
    denying = [found for found in applying if any(_denies(quota, found.cost or 0) for quota in found.quotas)]

    assert tuple(found.rule for found in applying) == decision.rules
    assert (not [found for found in denying if found.mode == "enforce"]) == decision.allowed
    assert [found.rule for found in denying if found.mode == "shadow"] == list(decision.shadowed)
    assert (decision.quota is None) == (not [found for found in applying if found.mode == "enforce" and found.quotas])
    if not decision.allowed:
        assert decision.rule in [found.rule for found in denying if found.mode == "enforce"]


def _denies(quota: str, cost: int) -> bool:
    capacity = 3 if quota.endswith("burst 3") else int(quota.partition("/")[0])
    # A limit of 0 denies everything, also what costs nothing.
    return cost > capacity or capacity == 0


@given(path=PATHS)
@example(path="/a/%2e%2e/b")
@example(path="/a%2F..%2Fb")
@example(path="/%%32e")
@example(path="/caf%C3%A9/%3F%23")
def test_every_spelling_of_a_path_is_one(path: str) -> None:
    """What one rule sees, every rule sees."""
    limiter = limiter_of({"version": 1, "rules": [{"name": "a", "per": "path", "quotas": "1/s"}]})
    seen = limiter.explain({"path": path})["attributes"]["path"]

    assert naive_path(path) == seen
    assert seen == limiter.explain({"path": seen})["attributes"]["path"]


@given(pattern=PATTERNS, path=PATHS)
def test_a_pattern_captures_what_it_says(pattern: str, path: str) -> None:
    """One segment, under its name."""
    limiter = limiter_of({"version": 1, "rules": [{"name": "a", "match": {"path": pattern}, "per": "id", "quotas": "1/s"}]})
    (told,) = limiter.explain({"path": path})["rules"]
    captured = captures_of(pattern, naive_path(path))

    assert (captured is not None) == (told["outcome"] != "no_match")
    if captured and "id" in captured:
        assert [f"id={captured['id']}"] == told["key"]
