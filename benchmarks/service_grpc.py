"""gRPC: `ShouldRateLimit` with one descriptor, by h2load, and at half load by pace, in memory and on a shared store."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import service_servers as servers
from child import Advance, part_of
from pace import Pace, is_built
from service_lanes import BOTH, GENERATOR, SERVER, Lane, Plan, Setup, missing, shown, take_turns
from service_load import H2load, Request, program

METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
CONNECTIONS, STREAMS = 8, 10
CLIENTS = 1_000
DOMAIN, KEY, VALUE = b"bench", b"user", b"4f1c2d7e-user-%d"
ALLOWED = b"\x08\x01"
HEADERS = {"content-type": "application/grpc", "te": "trailers"}


def memory(*, quick: bool, folder: Path, advance: Advance) -> dict[str, Any]:
    """Return the rows of the memory store: one core beside `grpcio.aio`, then two threads on all cores."""
    plan = Plan.of(quick=quick)
    setup = Setup(plan, folder)
    if program("h2load") is None:
        return {"rows": [missing("tidegate", "native rules", "h2load is not installed")]}
    with ExitStack() as stack:
        native = stack.enter_context(servers.tidegate(servers.NATIVE, SERVER))
        reference = stack.enter_context(servers.tidegate(servers.REFERENCE, SERVER))
        constant = stack.enter_context(servers.peer("grpcio", SERVER))
        lanes = [
            _lane("tidegate", "native rules", native, setup),
            _lane("tidegate", "file of the reference service", reference, setup),
            _lane("grpcio.aio", "a constant", constant, setup),
        ]
        rows = take_turns(lanes, plan, part_of(advance, 0, 2))
    with servers.tidegate(servers.NATIVE, BOTH, workers=2) as native:
        lane = _lane("tidegate", "native rules", native, Setup(plan, folder, BOTH, workers=2, is_shared=True))
        rows += take_turns([lane], plan, part_of(advance, 1, 2))
    commands = {"command": _command(plan, folder), "half_command": _half_command(plan)}
    return {"rows": rows, "connections": CONNECTIONS, "streams": STREAMS, "clients": CLIENTS, **commands}


def redis(*, quick: bool, folder: Path, advance: Advance) -> dict[str, Any]:
    """Return the rows of a shared store: one core for the service, one for the store, and the generator on both."""
    plan = Plan.of(quick=quick)
    setup = Setup(plan, folder, BOTH, is_shared=True)
    if program("h2load") is None:
        return {"rows": [missing("tidegate", "native rules", "h2load is not installed")]}
    with ExitStack() as stack:
        store = stack.enter_context(servers.store(GENERATOR))
        settings = {"store": store.url()}
        native = stack.enter_context(servers.tidegate(servers.NATIVE, SERVER, settings=settings))
        reference = stack.enter_context(servers.tidegate(servers.REFERENCE, SERVER, settings=settings))
        lanes = [
            _lane("tidegate", "native rules", native, setup),
            _lane("tidegate", "file of the reference service", reference, setup),
        ]
        absent = []
        if program("service_cmd") is None:
            absent.append(missing("envoyproxy/ratelimit", "the same file", "its program `service_cmd` is not installed"))
        else:
            peer = stack.enter_context(servers.reference_service(store, SERVER))
            lanes.append(_lane("envoyproxy/ratelimit", "the same file", peer, setup))
        rows = take_turns(lanes, plan, advance)
        server = store.node.binary.text
    return {"rows": rows + absent, "server": server, "connections": CONNECTIONS, "streams": STREAMS}


def question(client: int = 42) -> bytes:
    """Return a request with one descriptor of one entry."""
    entry = _field(1, KEY) + _field(2, VALUE % client)
    return _field(1, DOMAIN) + _field(2, _field(1, entry))


def _lane(who: str, note: str, target: servers.Target, setup: Setup) -> Lane:
    _require_an_answer(target.grpc)
    request = _request(target.grpc)
    full = H2load(CONNECTIONS, STREAMS, setup.plan.seconds)
    half, bodies = (
        Pace(CONNECTIONS, setup.plan.half_s, is_http2=True, sleeps=setup.is_shared),
        [_framed(client) for client in range(CLIENTS)],
    )
    return Lane(
        who,
        note,
        "h2load",
        target,
        load=lambda: full.run(request, setup.folder, setup.cores),
        half=(lambda rate: half.run(request, bodies, setup.folder, setup.cores, rate)) if is_built() else None,
        protocol="grpc" if who == "tidegate" else "",
        workers=setup.workers,
    )


def _request(address: str) -> Request:
    return Request(f"http://{address}{METHOD}", HEADERS, _framed())


def _framed(client: int = 42) -> bytes:
    """Return a request as gRPC sends it."""
    message = question(client)
    return b"\x00" + len(message).to_bytes(4, "big") + message


def _require_an_answer(address: str) -> None:
    """Ask once with a client that reads the answer: h2load takes every gRPC error for a success."""
    with grpc.insecure_channel(address) as channel:
        call: Any = channel.unary_unary(METHOD)
        answer = call(question(), timeout=10, wait_for_ready=True)
    assert answer.startswith(ALLOWED), f"not allowed by {address}: {answer!r}"


def _command(plan: Plan, folder: Path) -> str:
    return shown(H2load(CONNECTIONS, STREAMS, plan.seconds).words(_request("HOST:PORT")), folder)


def _half_command(plan: Plan) -> str:
    return shown(Pace(CONNECTIONS, plan.half_s, is_http2=True).words(_request("HOST:PORT"), "bodies", "RATE"), Path())


def _field(number: int, value: bytes) -> bytes:
    assert len(value) < 128, "a length of one byte"
    return bytes((number << 3 | 2, len(value))) + value
