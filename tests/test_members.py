"""
Members in the library: quotas of single customers, and customers who are blocked.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tidegate import Limiter
from tidegate._options import engine_options
from tidegate.control.keys import Keys
from tidegate.errors import ConfigError, UsageError
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.rule_limiter import RuleLimiter

RULES = """
version: 1
identity: [{header: x-api-key}, {ip: {}}]
rules:
  - {name: calls, per: client, quotas: 3/minute, tiers: {pro: 30/minute}}
  - {name: tenants, per: tenant, quotas: 100/minute}
"""


def digest(key: str, secret: str | None = None) -> str:
    """
    What a key is known by.
    """
    options = engine_options() if secret is None else engine_options(secret=secret)
    return Keys(options["secret"]).digest(key)


def asked(key: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401  # attributes
    """
    A request with a key.
    """
    return {"headers": {"X-Api-Key": key}, "ip": "192.0.2.1", **more}


@pytest.fixture
def clock() -> ManualClock:
    """
    A clock that the test moves.
    """
    return ManualClock()


@pytest.fixture
def limiter(tmp_path: Path, clock: ManualClock) -> RuleLimiter:
    """
    A limiter by `RULES`.
    """
    path = tmp_path / "rules.yaml"
    path.write_text(RULES, encoding="utf-8")
    return Limiter.from_rules(path, clock=clock)


def load(limiter: RuleLimiter, **members: Any) -> int:  # noqa: ANN401  # parts of the document
    """
    Loads a document of members.
    """
    return limiter.load_members(json.dumps({"version": 1, **members}))


def test_a_member_has_its_own_quota_on_the_same_counter(limiter: RuleLimiter) -> None:
    """
    What was used before counts, and the plan is named.
    """
    assert [True, True, True, False] == [limiter.allow(asked("k")) for _ in range(4)]

    assert load(limiter, keys={digest("k"): {"quotas": {"calls": [{"text": "5/minute"}]}}}) == 2

    assert [True, True, False] == [limiter.allow(asked("k")) for _ in range(3)]
    assert limiter.explain(asked("k"))["rules"][0]["plan"] == "member"
    assert limiter.explain(asked("other"))["rules"][0]["plan"] == "default"


def test_tenant_and_tier_of_a_key_win_over_the_request(limiter: RuleLimiter) -> None:
    """
    The store of quotas knows better than who asks.
    """
    load(limiter, keys={digest("k"): {"tenant": "acme", "tier": "pro"}})

    decision = limiter.check(asked("k", tier="free", tenant="other"))

    assert ("calls", "tenants") == decision.rules
    assert limiter.explain(asked("k", tier="free"))["attributes"]["tenant"] == "acme"
    assert [30, 100] == [status.limit for status in decision.quotas]


def test_members_stay_when_rules_are_loaded(limiter: RuleLimiter, tmp_path: Path) -> None:
    """
    And find their rule by its name.
    """
    load(limiter, keys={digest("k"): {"quotas": {"calls": [{"text": "5/minute"}]}}})
    (tmp_path / "rules.yaml").write_text(RULES.replace("3/minute", "4/minute"), encoding="utf-8")

    limiter.load(tmp_path / "rules.yaml")

    assert [5, 4] == [limiter.peek(asked(key)).limit for key in ("k", "other")]
    assert limiter.generation == 3


def test_who_is_blocked_is_told_until_when(limiter: RuleLimiter, clock: ManualClock) -> None:
    """
    By the rule `blocked`, exactly, and without being charged.
    """
    now_ns = round(clock.time()) * 10**9
    load(limiter, keys={digest("k"): {"blocked": {}}})
    assert limiter.check(asked("k")).retry_after is None

    load(limiter, keys={digest("k"): {"blocked": {"until_ns": now_ns + 60_000_000_000}}})
    decision = limiter.check(asked("k"))

    assert (False, "blocked", ("blocked",), 0, 60.0) == (
        decision.allowed,
        decision.rule,
        decision.rules,
        decision.remaining,
        decision.retry_after,
    )
    assert decision.headers()["Retry-After"] == "60"
    assert limiter.allow(asked("other"))
    assert [3] == [status.remaining for status in limiter.usage(asked("k")).quotas]
    clock.advance(60)
    assert limiter.check(asked("k")).allowed


def test_usage_is_told_by_every_rule_that_counts_the_key(limiter: RuleLimiter) -> None:
    """
    And what is forgotten is the key's alone.
    """
    load(limiter, keys={digest("k"): {"tenant": "acme"}})
    assert limiter.check(asked("k")).allowed

    assert [("calls", 2), ("tenants", 99)] == [(status.rule, status.remaining) for status in limiter.usage(asked("k")).quotas]
    assert limiter.forget(asked("k"))
    assert [3, 99] == [status.remaining for status in limiter.usage(asked("k")).quotas]
    assert not limiter.forget(asked("k"))


def test_the_algorithm_of_the_rule_is_that_of_its_members(tmp_path: Path) -> None:
    """
    Otherwise who gets a quota of its own would begin afresh.
    """
    path = tmp_path / "rules.yaml"
    path.write_text("version: 1\nrules: [{name: calls, per: client, algorithm: fixed_window, quotas: 3/minute}]\n", encoding="utf-8")
    limiter = Limiter.from_rules(path, clock=ManualClock())
    limiter.check({"client": "k"})

    load(limiter, keys={digest("k"): {"quotas": {"calls": [{"text": "5/minute"}]}}})

    status = limiter.usage({"client": "k"}).quotas[0]
    assert ("fixed_window", 4) == (status.algorithm, status.remaining)


def test_digests_are_those_of_the_operators_secret(tmp_path: Path) -> None:
    """
    Whatever the store; and they are nobody else's.
    """
    path = tmp_path / "rules.yaml"
    path.write_text(RULES, encoding="utf-8")
    limiter = Limiter.from_rules(path, secret="ours")  # of a test

    assert limiter.member_digest(asked("k")) == digest("k", "ours")
    assert digest("k", "ours") != digest("k")
    assert limiter.member_digest({}) is None


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "the members cannot be read"),
        ('{"version": 2}', "the members have version 2"),
        ('{"version": 1, "strangers": {}}', "unknown field `strangers`"),
        ('{"version": 1, "keys": {"k": {}}}', "is no digest of a key"),
        (json.dumps({"version": 1, "tiers": {"pro": {"quotas": {"calls": [{"text": "many"}]}}}}), "tier pro, rule calls"),
    ],
    ids=["text", "version", "field", "digest", "quota"],
)
def test_a_document_that_cannot_be_used_leaves_the_old_one(limiter: RuleLimiter, document: str, message: str) -> None:
    """
    With its reason.
    """
    load(limiter, keys={digest("k"): {"quotas": {"calls": [{"text": "5/minute"}]}}})

    with pytest.raises(ConfigError, match=message):
        limiter.load_members(document)

    assert (5, 2) == (limiter.peek(asked("k")).limit, limiter.generation)


def test_a_limiter_that_was_closed_loads_nothing(limiter: RuleLimiter) -> None:
    """
    As every other call.
    """
    limiter.close()

    with pytest.raises(UsageError):
        load(limiter)
