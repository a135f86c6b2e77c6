"""Members: how long a hundred thousand overrides take from the database into force, and what a check costs with and without them."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from child import Advance
from sqlalchemy import insert

from tidegate import Limiter, RuleLimiter
from tidegate._options import engine_options
from tidegate.control import members as documents
from tidegate.control.database import Database
from tidegate.control.keys import Keys
from tidegate.control.models import QuotaOverride

RULES = "version: 1\nidentity: [{header: x-api-key}]\nrules: [{name: calls, per: client, quotas: 1000000000/minute}]\n"
WITHOUT, MEMBER, OTHER = "no members", "a member", "no member, among many"


def measure(*, quick: bool, folder: Path, advance: Advance) -> dict[str, Any]:
    """Return seconds to load, and nanoseconds of a check without members and with them. Each member has a quota that no other has."""
    count, checks, rounds = (10_000, 2_000, 10) if quick else (100_000, 5_000, 180)
    rules = folder / "members.yaml"
    rules.write_text(RULES, encoding="utf-8")
    advance(f"{count:,} overrides are written", 0.0)
    database = _filled(folder, count)
    with Limiter.from_rules(rules) as alone, Limiter.from_rules(rules) as limiter:
        advance("they are loaded", 0.4)
        started = time.perf_counter()
        with database.reading() as session:
            document, _ = documents.document(session, datetime.now(UTC))
        read = time.perf_counter()
        limiter.load_members(document)
        loaded = time.perf_counter()
        assert limiter.explain(_request("key-7"))["rules"][0]["plan"] == "member"
        lanes = {WITHOUT: (alone, "key-7"), MEMBER: (limiter, "key-7"), OTHER: (limiter, "somebody")}
        fastest = dict.fromkeys(lanes, float("inf"))
        # Many short turns: whatever else the machine does, one of them has it for itself.
        for turn in range(rounds):
            advance(f"checks, round {turn + 1} of {rounds}", 0.5 + 0.5 * turn / rounds)
            for name, (who, key) in lanes.items():
                fastest[name] = min(fastest[name], _check(who, _request(key), checks))
    database.close()
    seconds = {"read_seconds": read - started, "load_seconds": loaded - read, "seconds": loaded - started}
    return {"members": count, **seconds, "check_ns": fastest}


def _filled(folder: Path, count: int) -> Database:
    now, keys = datetime.now(UTC), Keys(engine_options()["secret"])
    database = Database(f"sqlite:///{folder}/members.db")
    database.migrate()
    fixed = {"shown": "k…", "tier": "pro", "reason": "", "updated_at": now, "updated_by": "benchmark"}
    rows = [
        {"digest": keys.digest(f"key-{number}"), "tenant": f"t{number % 500}", "quotas": {"calls": [f"{10**8 + number}/minute"]}, **fixed}
        for number in range(count)
    ]
    with database.session() as session:
        session.execute(insert(QuotaOverride), rows)
    return database


def _request(key: str) -> dict[str, Any]:
    return {"method": "GET", "path": "/", "headers": {"X-Api-Key": key}}


def _check(limiter: RuleLimiter, request: dict[str, Any], checks: int) -> float:
    """Return nanoseconds of processor time for one check: others may use the machine."""
    started = time.process_time_ns()
    for _ in range(checks):
        limiter.allow(request)
    return (time.process_time_ns() - started) / checks
