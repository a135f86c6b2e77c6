"""
Requests through proxies to one server, by wrk, with latency at half load by h2load.

The proxy has one core; the other one is for the generator, the server and the store.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import proxy_servers as proxies
import service_servers as servers
from child import Advance
from service_lanes import GENERATOR, SERVER, Lane, Plan, Setup, missing, take_turns
from service_load import H2load, Load, Request, Wrk, program

CONNECTIONS = 64
HEADERS = {"X-API-Key": "4f1c2d7e-client-42"}
PEERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "nginx": ("`limit_req`", proxies.nginx),
    "HAProxy": ("a stick table", proxies.haproxy),
}


def speed(*, quick: bool, folder: Path, advance: Advance) -> dict[str, Any]:
    """Return a row for each proxy, counting in memory and on Redis, and one for the server alone at the same half load."""
    if program("wrk") is None or program("nginx") is None:
        return {"rows": [missing("tidegate", "memory", "wrk or nginx is not installed")]}
    plan = Plan.of(quick=quick)
    setup = Setup(plan, folder)
    absent = []
    with ExitStack() as stack:
        server = stack.enter_context(proxies.upstream(GENERATOR))
        store = stack.enter_context(servers.store(GENERATOR))
        lanes = []
        for note, settings in (("memory", {}), ("Redis", {"store": store.url()})):
            own, address = stack.enter_context(proxies.tidegate(server, SERVER, settings=settings))
            lanes.append(_lane("tidegate", note, own, address, setup))
            lanes[-1].protocol = "proxy"
        for who, (note, start) in PEERS.items():
            if program(who.lower()) is None:
                absent.append(missing(who, note, f"{who} is not installed"))
            else:
                target = stack.enter_context(start(server, SERVER))
                lanes.append(_lane(who, note, target, target.http, setup))
        rows = take_turns(lanes, plan, advance)
        for row in rows:
            row["direct"] = _direct(server, row, setup)
    return {"rows": rows + absent, "connections": CONNECTIONS}


def _direct(server: servers.Target, row: dict[str, Any], setup: Setup) -> dict[str, float] | None:
    """Return the latency of the server without a proxy, at the rate at which the proxy had half of its load."""
    if row["half"] is None:
        return None
    load = H2load(CONNECTIONS, 0, setup.plan.half_s)
    return load.run(Request(server.http, HEADERS), setup.folder, setup.cores, rate=row["half"]["per_second"]).cuts_us


def _lane(who: str, note: str, target: servers.Target, address: str, setup: Setup) -> Lane:
    request = Request(f"{address}/api/v1/orders?page=2", HEADERS)
    wrk, paced = Wrk(CONNECTIONS, setup.plan.seconds), H2load(CONNECTIONS, 0, setup.plan.half_s)

    def full() -> Load:
        return wrk.run(request, [], setup.folder, setup.cores)

    def half(rate: float) -> Load:
        return paced.run(request, setup.folder, setup.cores, rate=rate)

    return Lane(who, note, "wrk", target, full, half if program("h2load") else None)
