"""
What a million clients take in the memory of the service, and whether it stays at that.

Each client asks once, through the HTTP port, and then all of them ask again.
"""

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import service_servers as servers
from child import Advance, part_of

BATCH = 1_000
SAMPLES = 20
MILLION = 1_000_000
# How often everybody asks until a state has its full size, and how often in all. `gcra` has one size; `sliding_window`, the default,
# remembers up to 16 checks, and has taken the room for them with the ninth.
ALGORITHMS = {"gcra": (1, 3), "sliding_window": (9, 11)}
# A day, because a counter is dropped as soon as everything is there again.
RULES = """version: 1
rules: [{{name: per_client, per: client, quotas: 100/day {algorithm}}}]
"""


def measure(*, quick: bool, folder: Path, advance: Advance) -> dict[str, Any]:  # noqa: ARG001 - as the others
    """Return one row per algorithm."""
    rows = [_weigh(name, quick=quick, advance=part_of(advance, number, len(ALGORITHMS))) for number, name in enumerate(ALGORITHMS)]
    return {"rows": rows}


def _weigh(algorithm: str, *, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return the resident bytes after each share of the clients, each time that they all ask."""
    full, times = ALGORITHMS[algorithm]
    clients = MILLION // 20 if quick else MILLION
    samples = []
    with servers.tidegate(RULES.format(algorithm=algorithm), ()) as own:
        address = urlsplit(own.http)
        assert address.hostname is not None
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        # Buffers, tables and threads are there before anybody is counted.
        for _ in range(20):
            _ask(connection, 0, BATCH, own)
        start = own.resident()
        for asked in range(1, times + 1):
            for first in range(0, clients, BATCH):
                _ask(connection, first, BATCH, own)
                done = first + BATCH
                if done % (clients // SAMPLES) == 0:
                    samples.append({"asked": asked, "clients": done, "rss": own.resident()})
                    advance(f"{algorithm}, {done:,} clients, time {asked} of {times}", (asked - 1 + done / clients) / times)
        held = own.metric("ratelimit_keys")
        connection.close()
    assert held == clients, f"{held:.0f} keys are held for {clients} clients"
    return {"algorithm": algorithm, "clients": clients, "full_after": full, "start": start, "samples": samples}


def _ask(connection: http.client.HTTPConnection, first: int, count: int, own: servers.Target) -> None:
    questions = [{"client_id": f"client-{number}", "endpoint": "/api/v1/orders", "method": "GET"} for number in range(first, first + count)]
    connection.request("POST", "/api/v1/rate-limit/check/batch", json.dumps(questions), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    assert response.status == 200, f"{own.http} answered {response.status}: {answer[:200]!r}"
    # Reading a thousand answers takes longer than making them: it is enough that nobody is denied.
    assert b'"allowed":false' not in answer
