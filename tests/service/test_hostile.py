"""
Slow, greedy and lying clients: each gets a defined answer, and the service stays up and small.
"""

from __future__ import annotations

import random
import resource
import selectors
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Eventually
    from tests.service import frames
    from tests.service.conftest import Serve
    from tests.service.running import Running
else:
    import frames
    from running import Running

RULES = """
version: 1
rules:
  - {name: each, per: [client], quotas: 1000000/minute}
"""
CHECK = "/api/v1/rate-limit/check"
METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
READ_S = 2.0
IDLE_S = 4.0
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    """
    One service for all of them: what one client does must not show to the next.
    """
    with Running(RULES, {"limits.read_timeout": READ_S, "limits.idle_timeout": IDLE_S, "workers": 2}) as running:
        yield running


@pytest.fixture(autouse=True)
def _stays_up_and_small(service: Running) -> Iterator[None]:
    """
    After each test: it answers on both ports, and its memory is what it was.
    """
    before = memory(service)
    yield
    assert service.ask("GET", "/healthz").status == 200
    assert service.ask("POST", CHECK, {"client_id": "honest"}).json["allowed"] is True
    assert code(service, b"") == grpc.StatusCode.INVALID_ARGUMENT
    assert memory(service) - before < 60 * MEGABYTE


def memory(service: Running) -> int:
    """
    The resident bytes of a service.
    """
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def ports(service: Running) -> dict[str, str]:
    """
    Both ports without a scheme.
    """
    return {"http": service.http.rpartition("/")[2], "grpc": service.grpc}


def connect(address: str) -> socket.socket:
    """
    A plain connection.
    """
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def rest(connection: socket.socket) -> bytes:
    """
    Whatever comes until the other side ends the connection.
    """
    read = bytearray()
    try:
        while some := connection.recv(65_536):
            read += some
    except ConnectionResetError:
        pass
    return bytes(read)


def talk(address: str, *sent: bytes) -> bytes:
    """
    Sends, and reads until the other side ends the connection.
    """
    with connect(address) as connection:
        try:
            for part in sent:
                connection.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it had enough before the end
        return rest(connection)


def code(service: Running, message: bytes) -> grpc.StatusCode:
    """
    How a message to the service is answered over gRPC.
    """
    with grpc.insecure_channel(service.grpc, options=[("grpc.max_send_message_length", -1)]) as channel:
        call: Callable[..., bytes] = channel.unary_unary(METHOD)
        try:
            call(message, timeout=20)
        except grpc.RpcError as error:
            found: grpc.StatusCode = error.code()
            return found
        return grpc.StatusCode.OK


def field(number: int, value: bytes) -> bytes:
    """
    A field of protobuf with a length.
    """
    length, size = len(value), bytearray()
    while length > 127:  # seven bits each
        size.append(length % 128 + 128)
        length //= 128
    return bytes([number << 3 | 2, *size, length]) + value


def descriptor(key: bytes, value: bytes) -> bytes:
    """
    A descriptor with one entry, in a request.
    """
    return field(2, field(1, field(1, key) + field(2, value)))


@pytest.mark.parametrize("port", ["http", "grpc"])
def test_a_slow_loris_is_told_so(port: str, service: Running) -> None:
    """
    Many heads that never end. Others are served meanwhile.
    """
    connections = [connect(ports(service)[port]) for _ in range(200)]
    for connection in connections:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: te")
    assert service.ask("GET", "/healthz").status == 200

    said = {rest(connection).split(b"\r\n")[0] for connection in connections}
    for connection in connections:
        connection.close()
    assert {b"HTTP/1.1 408 Request Timeout"} == said


def test_a_body_that_never_comes_is_not_waited_for(service: Running) -> None:
    """
    The head promises a hundred bytes.
    """
    head = f"POST {CHECK} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    said = talk(ports(service)["http"], head.encode())

    assert said.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("port", ["http", "grpc"])
def test_who_says_nothing_is_sent_away(port: str, service: Running) -> None:
    """
    Without an answer: there was no question.
    """
    assert talk(ports(service)[port]) == b""


def test_ten_thousand_idle_connections(serve: Serve, eventually: Eventually) -> None:
    """
    As many as the system lets this process have, half of each version of HTTP, and all have asked once.

    Each costs about twenty kilobytes: the buffers of its protocol.
    """
    service = serve(RULES, {"workers": 2})
    count = min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 1_000)
    before = memory(service)
    sent = {
        "http": b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n",
        "grpc": frames.PREFACE
        + frames.frame(frames.SETTINGS, 0, 0)
        + frames.frame(frames.HEADERS, frames.END_STREAM | frames.END_HEADERS, 1, frames.get("/")),
    }
    waiting = selectors.DefaultSelector()
    connections: list[socket.socket] = []
    for number in range(count):
        port = "grpc" if number % 2 else "http"
        connection = connect(ports(service)[port])
        connection.sendall(sent[port])
        waiting.register(connection, selectors.EVENT_READ)
        connections.append(connection)
    while waiting.get_map():
        ready = waiting.select(timeout=20)
        assert ready, "some were not answered"
        for key, _ in ready:
            waiting.unregister(key.fileobj)
    open_now = service.ask("GET", "/metrics").body.decode()
    grown = memory(service) - before
    for connection in connections:
        connection.close()

    assert f'ratelimit_connections{{port="grpc"}} {count // 2}' in open_now
    assert grown < 30 * 1024 * count
    eventually(lambda: 'ratelimit_connections{port="grpc"} 0' in service.ask("GET", "/metrics").body.decode(), within=30)


def test_no_file_descriptors_left_is_no_end(serve: Serve) -> None:
    """
    Who comes then waits until others go.
    """
    service = serve(RULES)
    held = len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))
    resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (held + 20, held + 20))
    connections = [connect(ports(service)["http"]) for _ in range(60)]
    for connection in connections:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n")
    # In the order in which they came: each makes room for one of those who wait.
    for connection in connections:
        assert connection.recv(1_000).startswith(b"HTTP/1.1 200 ")
        connection.close()

    assert service.ask("GET", "/healthz").status == 200
    refused = 'ratelimit_connection_failures_total{port="http",reason="accept"} '
    counted = [line for line in service.ask("GET", "/metrics").body.decode().splitlines() if line.startswith(refused)]
    assert [float(line.removeprefix(refused)) > 0 for line in counted] == [True]


def test_a_thousand_requests_at_a_time_on_one_connection(service: Running) -> None:
    """
    All begun before the first is ended, and one more than allowed.
    """
    body = b'{"client_id": "many"}'
    streams = range(1, 2_001, 2)
    with frames.Connection(ports(service)["http"]) as connection:
        begun = b"".join(frames.frame(frames.HEADERS, frames.END_HEADERS, stream, frames.post(CHECK)) for stream in [*streams, 2_001])
        connection.send(begun)
        connection.send(b"".join(frames.frame(frames.DATA, frames.END_STREAM, stream, body) for stream in streams))
        answered: set[int] = set()
        refused: dict[int, int] = {}
        for frame in connection.frames():
            if frame.kind == frames.HEADERS:
                assert frame.payload[0] == 0x88, "the status is 200"  # an entry of the static table
                answered.add(frame.stream)
            if frame.kind == frames.RST_STREAM:
                refused[frame.stream] = frame.error
            if len(answered) == len(streams) and refused:
                break

    assert answered == set(streams)
    assert refused == {2_001: frames.REFUSED_STREAM}


@pytest.mark.parametrize("port", ["http", "grpc"])
def test_rapid_reset_ends_the_connection(port: str, service: Running) -> None:
    """
    Requests that are taken back as fast as they come.
    """
    path = frames.post(METHOD if port == "grpc" else CHECK)
    both = [
        frames.frame(frames.HEADERS, frames.END_HEADERS, stream, path) + frames.frame(frames.RST_STREAM, 0, stream, struct.pack(">I", 8))
        for stream in range(1, 200_000, 2)
    ]
    with frames.Connection(ports(service)[port]) as connection:
        is_open = all(connection.send(b"".join(both[start : start + 1_000])) for start in range(0, len(both), 1_000))
        said = [frame.error for frame in connection.frames() if frame.kind == frames.GOAWAY] if is_open else []

    assert not is_open or said[-1:] == [frames.ENHANCE_YOUR_CALM]


@pytest.mark.parametrize("port", ["http", "grpc"])
def test_giant_heads_are_refused(port: str, service: Running) -> None:
    """
    One line of a megabyte, and a hundred thousand short ones.
    """
    for line in [b"x: " + b"x" * MEGABYTE + b"\r\n", b"x: y\r\n" * 100_000]:
        said = talk(ports(service)[port], b"GET / HTTP/1.1\r\nhost: test\r\n", line, b"\r\n")

        # It is cut while it is sent, and then the answer can get lost on the way.
        assert said.startswith(b"HTTP/1.1 431 ") or not said


def test_a_head_that_never_ends_ends_the_connection(service: Running) -> None:
    """
    CONTINUATION after CONTINUATION.
    """
    more = frames.frame(frames.CONTINUATION, 0, 1, frames.fields({"x": "y" * 1_000}) * 10)
    with frames.Connection(ports(service)["grpc"]) as connection:
        connection.send(frames.frame(frames.HEADERS, 0, 1, frames.post(METHOD)))
        is_open = all(connection.send(more) for _ in range(2_000))
        said = [frame.kind for frame in connection.frames()] if is_open else []

    assert not is_open or frames.GOAWAY in said


def test_giant_bodies_are_refused(service: Running) -> None:
    """
    Whether their size is told or not, and whether it is true or not.
    """
    http = ports(service)["http"]
    head = f"POST {CHECK} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\nconnection: close\r\n"
    promised = talk(http, f"{head}content-length: 10000000000\r\n\r\n".encode())
    chunk = b"100000\r\n" + b" " * MEGABYTE + b"\r\n"
    chunked = talk(http, f"{head}transfer-encoding: chunked\r\n\r\n".encode(), *[chunk] * 3)

    assert promised.startswith(b"HTTP/1.1 413 ")
    assert chunked.startswith(b"HTTP/1.1 413 ") or not chunked
    assert code(service, field(1, b"x" * 2 * MEGABYTE)) == grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("port", ["http", "grpc"])
def test_half_a_frame_is_waited_for_as_long_as_one_may_be_idle(port: str, service: Running) -> None:
    """
    HTTP/2 has no heads to be slow with: who dawdles is as idle as who says nothing.
    """
    whole = frames.frame(frames.PING, 0, 0, bytes(8))
    said = talk(ports(service)[port], frames.PREFACE + frames.frame(frames.SETTINGS, 0, 0) + whole[:-1])

    assert said.startswith(b"\0")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("port", ["http", "grpc"])
def test_garbage_is_refused(port: str, seed: int, service: Running) -> None:
    """
    Random bytes, alone and behind what looks like a beginning.
    """
    chosen = random.Random(seed)  # nothing secret
    for begin in [
        b"",
        b"GET ",
        b"POST / HTTP/1.1\r\n",
        frames.PREFACE,
        frames.PREFACE + frames.frame(frames.SETTINGS, 0, 0),
        b"\x16\x03\x01",
    ]:
        for _ in range(10):
            said = talk(ports(service)[port], begin + chosen.randbytes(chosen.randrange(1, 500)))

            # What happens to be a request of HTTP/1.1 is none that the port of gRPC speaks: 505.
            refusals = (b"HTTP/1.1 4", b"\0", *([b"HTTP/1.1 505 "] if port == "grpc" else []))
            assert not said or said.startswith(refusals), said


def test_messages_that_are_none_are_refused(service: Running) -> None:
    """
    Truncated, or something else.
    """
    whole = field(1, b"domain") + descriptor(b"key", b"value")
    for message in [whole[:-1], whole[:-3], b"\xff" * 100, b"\x12\xff\xff\xff\xff\x0f", descriptor(b"\xff\xfe", b"x")]:
        assert code(service, message) == grpc.StatusCode.INVALID_ARGUMENT, message


def test_ten_thousand_descriptors_have_an_answer(service: Running) -> None:
    """
    Decided or refused, but in words.
    """
    descriptors = b"".join(descriptor(b"client", b"%d" % number) for number in range(10_000))

    assert code(service, field(1, b"default") + descriptors) in {
        grpc.StatusCode.OK,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }


@pytest.mark.parametrize(
    "body",
    [b'{"client_id": "\xff\xfe"}', b"[" * 100_000, b'{"attributes":' * 50_000, b"{", b"\0" * 1_000, b"", b"1e999", b'{"cost": 1e999}'],
    ids=["invalid utf-8", "deep list", "deep object", "truncated", "zeros", "nothing", "a number", "a giant cost"],
)
def test_json_that_is_none_is_refused(body: bytes, service: Running) -> None:
    """
    With a problem that says so.
    """
    said = service.ask("POST", CHECK, body, {"content-type": "application/json"})

    assert said.status == 400  # Bad Request
    assert said.headers["content-type"] == "application/problem+json"
