"""
Recorded traffic, as it can be decided again, and what has to be said about it.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import select

from tidegate.control.models import Recording
from tidegate.rules.replay import Request, facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from tidegate.rules import RuleSet

REQUESTS_MAX: Final = 50_000
"""The most that is decided again for one question: a few seconds of one core."""

_DIGEST: Final = re.compile(r"#([0-9a-f]{16})")
# What a request has by itself, and what is made of it.
_GIVEN: Final = frozenset({"client", "ip", "tenant", "tier", "path", "method", "host"})


def read(session: Session, since: datetime, until: datetime) -> list[Request]:
    """
    What was recorded in a time. Of more than `REQUESTS_MAX` it is the latest.

    Args:
        session: The transaction.
        since: From then on.
        until: Up to then.

    Returns:
        The requests, in the order of their times.
    """
    columns = (Recording.at, Recording.attributes, Recording.cost, Recording.weight)
    latest = select(*columns).where(Recording.at >= since, Recording.at < until).order_by(Recording.at.desc(), Recording.id.desc())
    rows = session.execute(latest.limit(REQUESTS_MAX)).all()
    return [
        # A cost of 1 is what nobody asked for: then the rules say it, also those that are not in force yet.
        Request(int(at.timestamp() * 1e9), _attributes(attributes), None if cost == 1 else cost, max(1, weight))
        for at, attributes, cost, weight in reversed(rows)
    ]


def notes(requests: Sequence[Request], rule_set: RuleSet) -> list[str]:
    """
    What has to be known to read the numbers.

    Args:
        requests: What was decided again.
        rule_set: By which rules.

    Returns:
        Sentences for people.
    """
    if not requests:
        return ["nothing was recorded in this time: data planes record traffic when a control plane is beside them"]
    found = []
    if any(request.weight > 1 for request in requests):
        found.append(
            "the traffic is a sample of keys, of which all requests were recorded; counts are scaled up by how many each stands for"
        )
        together = [rule.name for rule in rule_set.rules if not rule.per]
        if together:
            found.append(f"rules that count everybody together saw only the sample, and deny too little: {', '.join(together)}")
    if len(requests) >= REQUESTS_MAX:
        found.append(f"only the latest {REQUESTS_MAX:,} requests were looked at")
    if unknown := sorted(_read_by(rule_set) - _recorded(requests)):
        found.append(f"no recorded request has these attributes, which the rules read: {', '.join(unknown)}")
    return [*found, "counters begin empty, plans of single keys are not applied, and `concurrent` quotas deny nothing"]


def _attributes(recorded: dict[str, Any]) -> dict[str, Any]:
    made = facts(recorded)
    address = made.get("ip")
    if isinstance(address, str) and (digest := _DIGEST.fullmatch(address)):
        # Of addresses a digest is recorded too; as an address it makes a key. It is in no network that a rule names, but by chance.
        made["ip"] = str(ipaddress.IPv6Address(int(digest[1], 16) << 64))
    return made


def _read_by(rule_set: RuleSet) -> set[str]:
    asked = {condition.attribute for rule in rule_set.rules for condition in rule.match} | {
        name for rule in rule_set.rules for name in rule.per
    }
    return asked - _GIVEN


def _recorded(requests: Iterable[Request]) -> set[str]:
    names: set[str] = set()
    for request in requests:
        for name, value in request.attributes.items():
            names |= {f"{name.removesuffix('s')}:{inner}" for inner in value} if isinstance(value, dict) else {name}
    return names
