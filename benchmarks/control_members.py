"""Members: how long a hundred thousand overrides take from the database into force, and what a check costs with and without them."""

import json
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RULES = "version: 1\nidentity: [{header: x-api-key}]\nrules: [{name: calls, per: client, quotas: 1000000000/minute}]\n"
REQUEST = {"method": "GET", "path": "/", "headers": {"X-Api-Key": "key-7"}}


def measure(members: int = 100_000, checks: int = 100_000, rounds: int = 7) -> dict[str, Any]:
    """Return seconds to load, and nanoseconds of a check without members and with them. Each member has a quota that no other has."""
    from sqlalchemy import insert  # noqa: PLC0415  # peers are measured without it

    from tidegate import Limiter  # noqa: PLC0415
    from tidegate._options import engine_options  # noqa: PLC0415
    from tidegate.control import members as documents  # noqa: PLC0415
    from tidegate.control.database import Database  # noqa: PLC0415
    from tidegate.control.keys import Keys  # noqa: PLC0415
    from tidegate.control.models import QuotaOverride  # noqa: PLC0415

    now, keys = datetime.now(UTC), Keys(engine_options()["secret"])
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder, "rules.yaml")
        rules.write_text(RULES, encoding="utf-8")
        database = Database(f"sqlite:///{folder}/members.db")
        database.migrate()
        fixed = {"shown": "k…", "tier": "pro", "reason": "", "updated_at": now, "updated_by": "benchmark"}
        rows = [
            {
                "digest": keys.digest(f"key-{number}"),
                "tenant": f"t{number % 500}",
                "quotas": {"calls": [f"{10**8 + number}/minute"]},
                **fixed,
            }
            for number in range(members)
        ]
        with database.session() as session:
            session.execute(insert(QuotaOverride), rows)
        with Limiter.from_rules(rules) as limiter:
            without = _check(limiter, checks, rounds)
            started = time.perf_counter()
            with database.reading() as session:
                document, _ = documents.document(session, now)
            read = time.perf_counter()
            limiter.load_members(document)
            loaded = time.perf_counter()
            assert limiter.explain(REQUEST)["rules"][0]["plan"] == "member"
            with_members = _check(limiter, checks, rounds)
        database.close()
    return {
        "members": members,
        "read_seconds": read - started,
        "load_seconds": loaded - read,
        "seconds": loaded - started,
        "check_ns": {"without": without, "with": with_members},
    }


def _check(limiter: Any, checks: int, rounds: int) -> float:  # noqa: ANN401  # a limiter, which is not imported here
    """Return the fastest round, in nanoseconds of processor time for one check: others may use the machine."""
    fastest = float("inf")
    for _ in range(rounds):
        started = time.process_time_ns()
        for _ in range(checks):
            limiter.allow(REQUEST)
        fastest = min(fastest, (time.process_time_ns() - started) / checks)
    return fastest


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
