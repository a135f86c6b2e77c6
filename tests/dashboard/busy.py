"""
A database as a busy fleet leaves it: two minutes of three instances, an hour of five rules, changes, keys, people. Some are hostile.
"""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tidegate.control.live import Live, Point, RuleCount, Shard, TopKey
from tidegate.control.models import (
    AuditEntry,
    Block,
    ChangeRequest,
    Instance,
    QuotaOverride,
    Recording,
    RuleRevision,
    StoredRule,
    Tenant,
    Tier,
    Token,
    Usage,
)

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

HOSTILE = "<img src=x onerror=alert(1)>"
"""What must be read and never run."""

DIGEST = "7f3a9c0e51d24b8896e1a2c4f05b6d7e"
FILES = """
version: 1
identity: [{header: x-api-key}, {ip: {}}]
rules:
  - {name: per_client, per: client, quotas: 100/minute, tiers: {pro: 1000/minute, enterprise: [200/second, 5000/minute burst 500]}}
  - {name: login, match: {method: POST, path: /login}, per: ip, quotas: 5/minute, on_store_error: deny}
"""
BODIES: dict[str, dict[str, Any]] = {
    "write_orders": {"match": {"method": "POST", "path": "/api/v1/orders/**"}, "per": "client", "quotas": ["10/second", "200/minute"]},
    "search": {"match": {"path": "/api/v1/search"}, "per": "client", "quotas": "30/minute burst 10", "mode": "shadow"},
    "backend": {"per": "global", "quotas": "10000/second"},
}


def fill(session: Session, now: datetime) -> None:
    """
    Fills the tables.
    """
    chance = random.Random(8)
    session.add_all([*_instances(now, chance), *_usage(now, chance), *_rules(now), *_keys(now), *_people(now), *_recordings(now, chance)])


def _instances(now: datetime, chance: random.Random) -> list[Instance]:
    end = int(now.timestamp()) - 1
    made = []
    for number, name in enumerate(("edge-1", "edge-2", "edge-3")):
        points = []
        for second in range(120):
            wave = 400 + 120 * math.sin(second / 18 + number) + chance.uniform(-25, 25)
            denied = 30 + 25 * math.sin(second / 9) + (140 if 70 <= second < 85 else 0) + chance.uniform(0, 12)
            p50 = 38 + chance.uniform(0, 6)
            points.append(
                Point(
                    end - 119 + second,
                    int(wave),
                    int(max(0, denied)),
                    5,
                    0,
                    p50,
                    p50 * 2.1 + chance.uniform(0, 20),
                    p50 * 4 + chance.uniform(0, 90),
                )
            )
        top = tuple(
            TopKey(rule, key, denied // (number + 1), end)
            for rule, key, denied in (
                ("per_client", "client=sk_l…", 8412),
                ("login", "ip=203.…", 3120),
                ("write_orders", f"client={HOSTILE}", 1204),
                ("per_client", "client=acme…", 611),
                ("per_client", "client=beta…", 207),
                ("search", "client=sk_t…", 88),
                ("login", "ip=198.…", 41),
            )
        )
        shards = tuple(Shard(f"redis-{part}:6379", "half_open" if part == 2 and number == 1 else "closed", is_up=True) for part in range(3))
        live = Live(
            tuple(points),
            {"per_client": RuleCount(21000, 900, 0)},
            top,
            shards if number < 2 else (),
            {"store_timeout": 12, "store_breaker_open": 3} if number == 1 else {},
            "redis" if number < 2 else "memory",
            0 if number < 2 else 48211,
            17 if number == 1 else 0,
        )
        made.append(
            Instance(
                name=name,
                started_at=now - timedelta(hours=5 * number + 2),
                seen_at=now - timedelta(seconds=0.6 if number < 2 else 240),
                version="0.1.0",
                number=7 - number,
                generation=12 + number,
                problem="rules.yaml:12:9: unknown field `quotes`" if number == 1 else None,
                live=live.to_json(),
            )
        )
    return made


def _usage(now: datetime, chance: random.Random) -> list[Usage]:
    minute = now.replace(second=0, microsecond=0)
    shapes = {
        "per_client": (52000, 0.021, 0.0),
        "write_orders": (9100, 0.064, 0.0),
        "login": (1200, 0.18, 0.0),
        "search": (14000, 0.0, 0.043),
        "backend": (61000, 0.0, 0.0),
    }
    made = []
    for back in range(60):
        at = minute - timedelta(minutes=back)
        for rule, (size, denied, shadow) in shapes.items():
            total = size * (1 + 0.3 * math.sin(back / 7)) * chance.uniform(0.9, 1.1)
            made.append(
                Usage(
                    minute=at,
                    rule_id=rule,
                    digest="",
                    instance="edge-1",
                    allowed=int(total * (1 - denied)),
                    denied=int(total * denied),
                    shadow_denied=int(total * shadow),
                )
            )
        for index, tier in enumerate(("enterprise", "pro", "", "free")):
            digest = DIGEST if tier == "pro" else f"{index}" * 32
            made.append(
                Usage(
                    minute=at,
                    rule_id="per_client",
                    digest=digest,
                    instance="edge-1",
                    tier=tier,
                    allowed=int(900 / (index + 1) * chance.uniform(0.5, 1)),
                    denied=int(120 * index * chance.uniform(0, 0.6)),
                )
            )
    return made


def _rules(now: datetime) -> list[object]:
    made: list[object] = []
    for age, (rule_id, body) in enumerate(BODIES.items()):
        at = now - timedelta(days=age, hours=3)
        first = body | {"quotas": "5/second" if rule_id == "write_orders" else body["quotas"]}
        made += [
            StoredRule(rule_id=rule_id, revision=2, body=body, updated_at=at, updated_by="alice"),
            RuleRevision(rule_id=rule_id, revision=1, body=first, at=at - timedelta(days=9), by="bob", reason="first draft"),
            RuleRevision(rule_id=rule_id, revision=2, body=body, at=at, by="alice", reason="customers asked for more"),
        ]
    tighter = BODIES["write_orders"] | {"quotas": ["8/second", "150/minute"]}
    hostile = {"per": "client", "quotas": "10/minute", "description": HOSTILE}
    made += [
        ChangeRequest(
            rule_id="write_orders",
            base_revision=2,
            body=tighter,
            state="proposed",
            steps=[0, 5, 25, 100],
            reason="orders overload the queue",
            by="bob",
            at=now - timedelta(minutes=12),
        ),
        ChangeRequest(
            rule_id="search",
            base_revision=2,
            body=BODIES["search"] | {"mode": "enforce"},
            state="rolling",
            steps=[0, 5, 25, 100],
            step=2,
            step_seconds=3600,
            step_at=now - timedelta(minutes=20),
            reason="shadow looked right",
            by="alice",
            at=now - timedelta(hours=9),
            decided_by="carol",
            decided_at=now - timedelta(hours=8),
        ),
        ChangeRequest(
            rule_id="hostile",
            base_revision=0,
            body=hostile,
            state="rejected",
            steps=[],
            reason=HOSTILE,
            by=HOSTILE,
            at=now - timedelta(days=2),
            decided_by="carol",
            decided_at=now - timedelta(days=1),
            ended_at=now - timedelta(days=1),
        ),
    ]
    return made


def _keys(now: datetime) -> list[object]:
    return [
        Tier(name="pro", about="paying customers", quotas={"per_client": "1000/minute"}, updated_at=now - timedelta(days=4)),
        Tier(
            name="enterprise",
            about="by contract",
            quotas={"per_client": ["200/second", "5000/minute burst 500"]},
            updated_at=now - timedelta(days=40),
        ),
        Tenant(name="acme", about="Acme Ltd.", tier="enterprise", quotas={"backend": "500/second"}, updated_at=now - timedelta(days=3)),
        QuotaOverride(
            digest=DIGEST,
            shown="sk_l…",
            tenant="acme",
            tier="pro",
            quotas={"per_client": "2500/minute"},
            effective_at=None,
            expires_at=now + timedelta(days=3),
            reason="launch week",
            updated_at=now - timedelta(hours=2),
            updated_by="alice",
        ),
        QuotaOverride(
            digest="2" * 32,
            shown=HOSTILE,
            tenant=None,
            tier="free",
            quotas={},
            effective_at=now + timedelta(hours=5),
            expires_at=None,
            reason="downgrade",
            updated_at=now - timedelta(hours=1),
            updated_by="bob",
        ),
        Block(
            digest="3" * 32,
            shown="sk_t…",
            until=now + timedelta(minutes=42),
            reason="credential stuffing, case 4711",
            at=now - timedelta(minutes=18),
            by="alice",
        ),
    ]


def _people(now: datetime) -> list[object]:
    made: list[object] = [
        Token(
            name=name,
            role=role,
            digest=name[0] * 64,
            created_at=now - timedelta(days=days),
            created_by="first admin",
            used_at=now - timedelta(minutes=days),
            revoked_at=revoked,
        )
        for name, role, days, revoked in (
            ("alice", "editor", 90, None),
            ("bob", "editor", 60, None),
            ("carol", "approver", 30, None),
            ("dan", "viewer", 3, now - timedelta(days=1)),
        )
    ]
    log = (
        (2, "alice", "quota.override", f"key:{DIGEST}", None, {"tier": "pro"}, "launch week"),
        (18, "alice", "key.block", f"key:{'3' * 32}", None, {"until": "19:00"}, "credential stuffing, case 4711"),
        (
            12,
            "bob",
            "change.propose",
            "change:1:write_orders",
            {"quotas": ["10/second", "200/minute"]},
            {"quotas": ["8/second", "150/minute"]},
            "orders overload the queue",
        ),
        (500, HOSTILE, "rule.create", f"rule:{HOSTILE}", None, {"description": HOSTILE}, HOSTILE),
    )
    made += [
        AuditEntry(
            at=now - timedelta(minutes=minutes),
            actor=actor,
            address="127.0.0.1",
            action=action,
            subject=subject,
            before=before,
            after=after,
            reason=reason,
        )
        for minutes, actor, action, subject, before, after, reason in log
    ]
    return made


def _recordings(now: datetime, chance: random.Random) -> list[Recording]:
    made = []
    for index in range(1500):
        at = now - timedelta(seconds=3500 - index * 2.3)
        client = f"#{chance.choice('aabbbccccdddddd')}"
        attributes = {
            "method": chance.choice(("GET", "POST")),
            "path": chance.choice(("/api/v1/orders/7", "/api/v1/search", "/login")),
            "client": client,
            "api_key": client,
        }
        made.append(Recording(at=at, attributes=attributes, cost=1, allowed=chance.random() > 0.05, weight=10))
    return made
