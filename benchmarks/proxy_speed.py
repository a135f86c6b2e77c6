"""
Requests through proxies to one server, by wrk, with latency at half load by pace.

The proxy has one core; the other one is for the generator, the server and the store. At half load the generator sleeps between calls, or it
would take the core from those.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import proxy_servers as proxies
import service_servers as servers
from child import Advance
from pace import Pace, is_built
from service_lanes import GENERATOR, SERVER, Lane, Plan, Setup, missing, take_turns
from service_load import Load, Request, Wrk, program

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
    setup = Setup(plan, folder, is_shared=True)
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
        for lane in lanes:
            lane.alone = _paced(Request(server.http, HEADERS), setup)
        rows = take_turns(lanes, plan, advance)
    return {"rows": rows + absent, "connections": CONNECTIONS}


def _lane(who: str, note: str, target: servers.Target, address: str, setup: Setup) -> Lane:
    request = Request(f"{address}/api/v1/orders?page=2", HEADERS)
    wrk = Wrk(CONNECTIONS, setup.plan.seconds)
    return Lane(who, note, "wrk", target, lambda: wrk.run(request, [], setup.folder, setup.cores), _paced(request, setup))


def _paced(request: Request, setup: Setup) -> Callable[[float], Load] | None:
    pace = Pace(CONNECTIONS, setup.plan.half_s, sleeps=setup.is_shared)
    return (lambda rate: pace.run(request, [], setup.folder, setup.cores, rate)) if is_built() else None
