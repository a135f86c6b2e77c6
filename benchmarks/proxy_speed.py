"""
Requests through proxies to one server, by wrk, with latency at half load by pace.

The proxy has one core; the other one is for whoever asks and answers, and for the store. At half load the generator is the server too: two
programs that wake each other on one core take most of it, and what they show is how they wait for each other. Alone there it spins; where
the store is there as well it sleeps between calls.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import proxy_servers as proxies
import service_servers as servers
from child import Advance
from pace import Pace, is_built
from proxy_report import AWAKE
from service_lanes import GENERATOR, SERVER, Lane, Plan, Setup, missing, take_turns
from service_load import Load, Request, Wrk, first, program

if TYPE_CHECKING:
    from tests.servers.ports import free_port
else:
    from servers.ports import free_port

CONNECTIONS = 64
PATH = "/api/v1/orders?page=2"
HEADERS = {"X-API-Key": "4f1c2d7e-client-42"}
OWN: dict[str, dict[str, Any]] = {"memory": {}, AWAKE: {"busy_poll": "100us"}}
PEERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "nginx": ("`limit_req`", proxies.nginx),
    "HAProxy": ("a stick table", proxies.haproxy),
}


def speed(*, quick: bool, folder: Path, advance: Advance) -> dict[str, Any]:
    """Return a row for each proxy, counting in memory and on Redis, and one for the server alone at the same half load."""
    if program("wrk") is None or program("nginx") is None:
        return {"rows": [missing("tidegate", "memory", "wrk or nginx is not installed")]}
    plan = Plan.of(quick=quick)
    absent, lanes = [], []
    # Each has a twin that stands before the generator, and goes before the rest of the machine.
    behind = servers.Target(0, f"http://127.0.0.1:{free_port()}")
    with ExitStack() as stack:
        server = stack.enter_context(proxies.upstream(GENERATOR))
        store = stack.enter_context(servers.store(GENERATOR))
        for note, settings in {**OWN, "Redis": {"store": store.url()}}.items():
            own = stack.enter_context(proxies.tidegate(server, SERVER, settings=settings))
            # Who never sleeps cannot go first: the kernel takes the core away from it for 50 ms of every second.
            with nullcontext() if note == AWAKE else first():
                twin = stack.enter_context(proxies.tidegate(behind, SERVER, settings=settings))
            setup = Setup(plan, folder, is_shared="store" in settings)
            lanes.append(_lane("tidegate", note, *own, setup))
            lanes[-1].protocol, lanes[-1].twin = "proxy", twin[0]
            _pace(lanes[-1], twin[1], behind.http, setup)
        for who, (note, start) in PEERS.items():
            if program(who.lower()) is None:
                absent.append(missing(who, note, f"{who} is not installed"))
            else:
                target = stack.enter_context(start(server, SERVER))
                with first():
                    twin = stack.enter_context(start(behind, SERVER))
                setup = Setup(plan, folder)
                lanes.append(_lane(who, note, target, target.http, setup))
                _pace(lanes[-1], twin.http, behind.http, setup)
        rows = take_turns(lanes, plan, advance)
    return {"rows": rows + absent, "connections": CONNECTIONS, "first": os.geteuid() == 0}


def _lane(who: str, note: str, target: servers.Target, address: str, setup: Setup) -> Lane:
    request, wrk = Request(address + PATH, HEADERS), Wrk(CONNECTIONS, setup.plan.seconds)
    return Lane(who, note, "wrk", target, lambda: wrk.run(request, [], setup.folder, setup.cores))


def _pace(lane: Lane, address: str, behind: str, setup: Setup) -> None:
    """Let a lane be loaded with half of it at an address, and the generator alone with the same."""
    pace = Pace(CONNECTIONS, setup.plan.half_s, sleeps=setup.is_shared, serves=behind.removeprefix("http://"))

    def load(address: str) -> Callable[[float], Load]:
        request = Request(address + PATH, HEADERS)
        return lambda rate: pace.run(request, [], setup.folder, setup.cores, rate)

    if is_built():
        lane.half, lane.alone = load(address), load(behind)
