"""
A data plane that says what a test lets it say, and what such a test needs beside it.
"""

from __future__ import annotations

import itertools
import json
import threading
from dataclasses import dataclass, field
from typing import Any

_numbers = itertools.count(1)


def line(**said: Any) -> dict[str, Any]:  # noqa: ANN401  # parts of an event
    """
    An event as `Server.take_events` tells it: a denied one at the beginning of the epoch's second million, unless it says something else.
    """
    usual: dict[str, Any] = {
        "event_id": f"{next(_numbers):032x}",
        "at": 1_000_020.5,
        "protocol": "http",
        "client": "abcd…",
        "digest": "d" * 32,
        "method": "GET",
        "path": "/a",
        "tier": "",
        "rule": "strict",
        "allowed": False,
        "shadowed": [],
        "degraded": None,
        "current": 5,
        "limit": 5,
        "cost": 1,
        "weight": 1,
    }
    return {**usual, **said}


@dataclass
class Told:
    """
    A data plane: events that wait, and counts that a test moves.
    """

    waiting: list[dict[str, Any]] = field(default_factory=list)
    at: float = 1_000_020.0
    allowed: int = 0
    denied: int = 0
    rules: dict[str, list[int]] = field(default_factory=dict)
    up_to: list[int] = field(default_factory=lambda: [0, 0, 0])
    count: int = 0
    degraded: dict[str, int] = field(default_factory=dict)
    problem: str | None = None
    dropped: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take_events(self, limit: int) -> bytes:
        """
        See `DataPlane`.
        """
        with self.lock:
            taken, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return b"".join(json.dumps(one).encode() + b"\n" for one in taken)

    def snapshot(self) -> str:
        """
        See `DataPlane`.
        """
        return json.dumps(
            {
                "at": self.at,
                "started_at": 1_000_000.0,
                "generation": 3,
                "is_draining": False,
                "problem": self.problem,
                "allowed": self.allowed,
                "denied": self.denied,
                "unmatched": 0,
                "rules": self.rules,
                "latency": {"bounds_us": [10, 100, 1000], "up_to": self.up_to, "count": self.count, "sum_ns": 0},
                "degraded": self.degraded,
                "store": {"name": "memory", "keys": 7, "shards": [{"name": "s1", "is_up": False, "breaker": "open", "why": "gone"}]},
                "top": {
                    "since": 0.0,
                    "denied": 1,
                    "keys": [{"rule": "strict", "key": "client=abcd…", "denied": 1, "error": 0, "last_seen": 9.0}],
                },
                "events": {"taken": 0, "dropped": self.dropped, "waiting": 0},
            }
        )
