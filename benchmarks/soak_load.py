"""
The load of the soak: checks over HTTP at a steady rate from a process of its own, and a few calls over gRPC.

Most requests carry many checks, so that the service has more to do than this program. Each is scheduled in time, whatever became of the
ones before it, and its latency counts from then. What came back is named:

    allowed, denied                      decided by the store
    allowed degraded, denied degraded    decided without it
    cut, refused                         no answer: the connection broke, or there was nobody to connect to
    anything else                        an answer that nobody expects, with its beginning

A line of JSON on standard output says each second what came back.
"""

import asyncio
import json
import random
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

import grpc

CONNECTIONS = 24
"""To each instance."""
CLIENTS = 2_000
BATCH = 16
TICK_S = 0.005
GRPC_PAUSE_S = 0.02
RECONNECT_S = 0.05
GIVE_UP_S = 10.0
SAMPLES_MAX = 200_000


def _question(client: int) -> dict[str, str]:
    return {"client_id": f"client-{client}", "endpoint": f"/orders/{client}", "method": "POST"}


def _request(path: str, content: object) -> bytes:
    body = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: soak\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _requests() -> list[bytes]:
    single = [_request("/api/v1/rate-limit/check", _question(client)) for client in range(0, CLIENTS, BATCH)]
    batches = [[_question(random.randrange(CLIENTS)) for _ in range(BATCH)] for _ in range(3 * len(single))]
    return single + [_request("/api/v1/rate-limit/check/batch", batch) for batch in batches]


def _field(number: int, value: bytes) -> bytes:
    """A field of protobuf that is shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(value)]) + value


def _rls_request(client: int) -> bytes:
    entries = {"client": f"client-{client}", "method": "POST", "path": "/orders/1"}
    pairs = (_field(1, _field(1, key.encode()) + _field(2, value.encode())) for key, value in entries.items())
    return _field(1, b"soak") + _field(2, b"".join(pairs))


REQUESTS = _requests()


@dataclass
class Tally:
    """What came back since the last line."""

    outcomes: Counter[str] = field(default_factory=Counter)
    losses: list[tuple[float, int, str]] = field(default_factory=list)
    """When, which instance, how."""
    latencies: list[float] = field(default_factory=list)
    """Of HTTP requests, from the time that they were scheduled for."""

    def lose(self, instance: int, how: str) -> None:
        """Note a request without an answer, or a connection that nobody accepted."""
        self.losses.append((time.monotonic(), instance, how))

    def line(self) -> str:
        """Say it, and begin again."""
        text = json.dumps({"outcomes": self.outcomes, "losses": self.losses, "latencies": self.latencies})
        self.outcomes, self.losses, self.latencies = Counter(), [], []
        return text


class Caller(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, load: "Load", instance: int) -> None:
        self._load = load
        self._instance = instance
        self._transport: asyncio.Transport | None = None
        self._held = b""
        self._asked_at: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take part."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._load.idle.append(self)

    def ask(self, scheduled_at: float) -> bool:
        """Send a request, unless the connection is about to close."""
        if self._transport is None or self._transport.is_closing():
            return False
        self._asked_at = scheduled_at
        self._transport.write(random.choice(REQUESTS))
        return True

    def data_received(self, data: bytes) -> None:
        """Read an answer, which may come in parts."""
        self._held += data
        head, separator, body = self._held.partition(b"\r\n\r\n")
        if not separator:
            return
        lower = head.lower()
        length = int(lower.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if len(body) < length:
            return
        self._held = b""
        if self._asked_at is not None and len(self._load.tally.latencies) < SAMPLES_MAX:
            self._load.tally.latencies.append(time.monotonic() - self._asked_at)
        self._asked_at = None
        self._load.tally.outcomes.update(_outcomes(head, body))
        if b"connection: close" in lower:
            assert self._transport is not None
            self._transport.close()
        else:
            self._load.idle.append(self)

    def connection_lost(self, _: Exception | None) -> None:
        """Come again."""
        self._transport = None
        if self._asked_at is not None:
            self._load.tally.lose(self._instance, "cut")
        self._load.connect_soon(self._instance)


def _outcomes(head: bytes, body: bytes) -> list[str]:
    if head.startswith(b"HTTP/1.1 200"):
        try:
            answers = json.loads(body)
            return [_outcome(answer) for answer in (answers if isinstance(answers, list) else [answers])]
        except (ValueError, KeyError, TypeError):
            pass
    return [f"{head[:40]!r} {body[:200]!r}"]


def _outcome(answer: dict[str, Any]) -> str:
    return ("allowed" if answer["allowed"] else "denied") + (" degraded" if answer["degraded"] else "")


class Load:
    """
    All connections, and what is scheduled for them.

    Args:
        instances: The ports of the instances, each of HTTP and of gRPC.
        rate: HTTP requests per second; 0 is as many as come back.
    """

    def __init__(self, instances: list[tuple[int, int]], rate: float) -> None:
        self._instances = instances
        self._rate = rate
        self._tasks: set[asyncio.Task[None]] = set()
        self.idle: deque[Caller] = deque()
        self.tally = Tally()

    async def run(self) -> None:
        """Ask until somebody ends the process."""
        for instance in range(len(self._instances)):
            for _ in range(CONNECTIONS):
                self.connect_soon(instance, 0)
            self._start(self._ask_over_grpc(instance))
        self._start(self._say())
        begun, asked = time.monotonic(), 0
        while True:
            await asyncio.sleep(TICK_S if self._rate else 0)
            now = time.monotonic()
            due = int((now - begun) * self._rate) if self._rate else asked + len(self.idle)
            while asked < due and self.idle:
                # Not the moment at which it is sent: who waits for a connection waits.
                scheduled_at = begun + asked / self._rate if self._rate else now
                asked += self.idle.popleft().ask(scheduled_at)

    def connect_soon(self, instance: int, pause_s: float = RECONNECT_S) -> None:
        """Open one more connection."""
        self._start(self._connect(instance, pause_s))

    def _start(self, work: Any) -> None:  # noqa: ANN401 - a coroutine
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, instance: int, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        port = self._instances[instance][0]
        try:
            await asyncio.get_running_loop().create_connection(lambda: Caller(self, instance), "127.0.0.1", port)
        except OSError:
            self.tally.lose(instance, "refused")
            self.connect_soon(instance)

    async def _ask_over_grpc(self, instance: int) -> None:
        options = [("grpc.max_reconnect_backoff_ms", 200), ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 50)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self._instances[instance][1]}", options) as channel:
            ask = channel.unary_unary("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")
            while True:
                await asyncio.sleep(GRPC_PAUSE_S)
                try:
                    answer: bytes = await ask(_rls_request(random.randrange(CLIENTS)), timeout=GIVE_UP_S)
                except grpc.aio.AioRpcError as error:
                    if error.code() == grpc.StatusCode.UNAVAILABLE:
                        self.tally.lose(instance, "cut")
                    else:
                        self.tally.outcomes[f"gRPC {error.code().name}: {error.details()}"] += 1
                else:
                    # The first field is overall_code.
                    known = {b"\x08\x01": "gRPC allowed", b"\x08\x02": "gRPC denied"}
                    self.tally.outcomes[known.get(answer[:2], f"gRPC {answer!r}")] += 1

    async def _say(self) -> None:
        while True:
            await asyncio.sleep(1)
            print(self.tally.line(), flush=True)


if __name__ == "__main__":
    asyncio.run(Load(json.loads(sys.argv[1]), float(sys.argv[2])).run())
