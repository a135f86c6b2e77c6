"""HTTP: checks and forward-auth by wrk, with latency at half load by pace."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import service_servers as servers
from child import Advance, part_of
from pace import Pace, is_built
from service_lanes import BOTH, GENERATOR, SERVER, Lane, Plan, Setup, missing, take_turns
from service_load import Load, LoadFailed, Request, Wrk, k6, program

CONNECTIONS = 64
CLIENTS = 1_000
CHECK, FORWARD_AUTH = "/api/v1/rate-limit/check", "/api/v1/rate-limit/forward-auth"
JSON = {"Content-Type": "application/json"}
FORWARDED = {
    "X-Forwarded-Method": "GET",
    "X-Forwarded-Uri": "/api/v1/orders?page=2",
    "X-Forwarded-Host": "api.example.com",
    "X-Forwarded-For": "203.0.113.9",
    "X-API-Key": "4f1c2d7e-client-42",
}
COMMAND = f"wrk -t1 -c{CONNECTIONS} -d4s --latency -s bodies.lua http://HOST:PORT{CHECK}"

K6_PER_SECOND = 500
K6_HEAD = """
import { check } from 'k6';
const settings = JSON.parse(__ENV.SETTINGS);
export const options = { scenarios: { steady: {
  executor: 'constant-arrival-rate', rate: settings.rate, timeUnit: '1s', duration: settings.duration, preAllocatedVUs: 10, maxVUs: 100,
} } };
function client() { return 'client-' + Math.floor(Math.random() * 100000); }
"""
K6_HTTP = (
    "import http from 'k6/http';"
    + K6_HEAD
    + """
export default function () {
  const body = JSON.stringify({ client_id: client(), endpoint: '/api/v1/orders', method: 'GET' });
  const answer = http.post(settings.url, body, { headers: { 'Content-Type': 'application/json' } });
  check(answer, { allowed: (answer) => answer.status === 200 && answer.json('allowed') === true });
}
"""
)
K6_GRPC = (
    "import grpc from 'k6/net/grpc';"
    + K6_HEAD
    + """
const stub = new grpc.Client();
export default function () {
  if (__ITER === 0) { stub.connect(settings.address, { plaintext: true, reflect: true }); }
  const question = { domain: 'bench', descriptors: [{ entries: [{ key: 'user', value: client() }] }] };
  const answer = stub.invoke('envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit', question);
  check(answer, { allowed: (answer) => answer.status === grpc.StatusOK && answer.message.overallCode === 'OK' });
}
"""
)


def speed(*, quick: bool, folder: Path, advance: Advance) -> dict[str, Any]:
    """Return the rows of one core beside nginx and FastAPI, then those of two threads on all cores."""
    plan = Plan.of(quick=quick)
    setup = Setup(plan, folder)
    if program("wrk") is None:
        return {"rows": [missing("tidegate", "check", "wrk is not installed")]}
    with ExitStack() as stack:
        own = stack.enter_context(servers.tidegate(servers.NATIVE, SERVER))
        lanes = _own_lanes(own, setup)
        absent = []
        if program("nginx") is None:
            absent.append(missing("nginx", "a constant", "nginx is not installed"))
        else:
            constant = stack.enter_context(servers.nginx(SERVER))
            lanes.append(check_lane("nginx", "a constant", constant, setup))
        limits = stack.enter_context(servers.peer("fastapi", SERVER))
        lanes.append(check_lane("FastAPI", "`limits` under uvicorn", limits, setup))
        rows = take_turns(lanes, plan, part_of(advance, 0, 2))
    with servers.tidegate(servers.NATIVE, BOTH, workers=2) as own:
        rows += take_turns(_own_lanes(own, Setup(plan, folder, BOTH, workers=2, is_shared=True)), plan, part_of(advance, 1, 2))
    return {"rows": rows + absent, "connections": CONNECTIONS, "clients": CLIENTS, "command": COMMAND}


def steady(*, quick: bool, folder: Path, advance: Advance) -> dict[str, Any]:
    """Return the latency that k6 sees at a steady rate, with a client of its own for almost every call."""
    if program("k6") is None:
        return {"rows": [missing("tidegate", name, "k6 is not installed") for name in ("HTTP check", "gRPC")]}
    rows = []
    with servers.tidegate(servers.NATIVE, SERVER) as own:
        settings = {"rate": K6_PER_SECOND, "duration": "2s" if quick else "10s", "url": f"{own.http}{CHECK}", "address": own.grpc}
        kinds = (("HTTP check", K6_HTTP, "http_req_duration"), ("gRPC", K6_GRPC, "grpc_req_duration"))
        for number, (note, script, metric) in enumerate(kinds):
            advance(f"k6, {note}", number / len(kinds))
            try:
                load = k6(script, settings, metric, folder, GENERATOR)
            except LoadFailed as failure:
                rows.append(missing("tidegate", note, str(failure).splitlines()[0]))
            else:
                about = {"per_second": load.per_second, "calls": load.calls, "dropped": load.dropped, "cuts_us": load.cuts_us}
                rows.append({"who": "tidegate", "note": note, **about})
    return {"rows": rows}


def _own_lanes(own: servers.Target, setup: Setup) -> list[Lane]:
    request = Request(f"{own.http}{FORWARD_AUTH}", FORWARDED)
    loads = _loads(request, [], setup)
    forward_auth = Lane("tidegate", "forward-auth", "wrk", own, *loads, protocol="forward_auth", workers=setup.workers)
    check = check_lane("tidegate", "check", own, setup)
    check.protocol = "http"
    return [check, forward_auth]


def check_lane(who: str, note: str, target: servers.Target, setup: Setup) -> Lane:
    """Return a lane of checks by many clients."""
    bodies = [_question(number) for number in range(CLIENTS)]
    loads = _loads(Request(f"{target.http}{CHECK}", JSON, bodies[0]), bodies, setup)
    return Lane(who, note, "wrk", target, *loads, workers=setup.workers)


def _loads(request: Request, bodies: list[bytes], setup: Setup) -> tuple[Callable[[], Load], Callable[[float], Load] | None]:
    """Return how it is loaded fully, and with half of that."""
    wrk, paced = Wrk(CONNECTIONS, setup.plan.seconds), Pace(CONNECTIONS, setup.plan.half_s, sleeps=setup.is_shared)

    def full() -> Load:
        return wrk.run(request, bodies, setup.folder, setup.cores)

    def half(rate: float) -> Load:
        return paced.run(request, bodies, setup.folder, setup.cores, rate)

    return full, half if is_built() else None


def _question(client: int) -> bytes:
    return json.dumps({"client_id": f"client-{client}", "endpoint": "/api/v1/orders", "method": "GET"}).encode()
