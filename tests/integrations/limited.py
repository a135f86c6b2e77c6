"""
A server that limits its clients and says so in the forms that are found in the wild.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tidegate import Decision, Limiter
    from tidegate.testing import ManualClock

    Form = Callable[[Decision, ManualClock], dict[str, str]]


@dataclass(frozen=True)
class Asked:
    """
    A request as the server saw it.
    """

    method: str
    path: str
    body: bytes


@dataclass(frozen=True)
class Answer:
    """
    What the server says to it.

    Args:
        status: The status.
        fields: The header fields.
        body: The body.
        gap: Seconds between its bytes.
    """

    status: int = 200
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"
    gap: float = 0.0


class LimitedServer:
    """
    A real server on a free port of loopback, for as long as the `with` block runs.

    Args:
        decide: Answers each request.
    """

    def __init__(self, decide: Callable[[Asked], Answer]) -> None:
        self.decide = decide
        self.asked: list[Asked] = []
        self.statuses: Counter[int] = Counter()
        self.connections = 0
        self.is_closing = threading.Event()
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"limited": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        """
        Its address.
        """
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.is_closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    """
    One connection. Each server has a subclass that knows it.
    """

    limited: ClassVar[LimitedServer]
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # One packet per answer: otherwise each waits for the acknowledgement of its first half.

    def setup(self) -> None:
        super().setup()
        with self.limited.lock:
            self.limited.connections += 1

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def answer(self) -> None:
        asked = Asked(self.command, self.path, self._body())
        answer = self.limited.decide(asked)
        with self.limited.lock:
            self.limited.asked.append(asked)
            self.limited.statuses[answer.status] += 1
        # Without the fields that the module adds by itself: a test tells the time.
        self.send_response_only(answer.status)
        for name, value in answer.fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self._write(answer)

    do_GET = do_PUT = do_POST = answer  # noqa: N815  # the names that the module looks for

    def _write(self, answer: Answer) -> None:
        size = 1 if answer.gap else max(1, len(answer.body))
        for start in range(0, len(answer.body), size):
            self.wfile.write(answer.body[start : start + size])
            self.wfile.flush()
            if answer.gap and self.limited.is_closing.wait(answer.gap):
                return

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in the base class
        pass


def by(limiter: Limiter, form: Form, clock: ManualClock) -> Callable[[Asked], Answer]:
    """
    Answers 200 or 429 as a limiter says.
    """

    def decide(_: Asked) -> Answer:
        decision = limiter.check("client")
        return Answer(200 if decision else 429, form(decision, clock))

    return decide


def in_turn(*answers: Answer, then: Answer = Answer()) -> Callable[[Asked], Answer]:  # noqa: B008  # a value that never changes
    """
    Answers one after the other, and from then on always the same.
    """
    left = iter(answers)
    lock = threading.Lock()

    def decide(_: Asked) -> Answer:
        with lock:
            return next(left, then)

    return decide


# --- Forms ------------------------------------------------------------------------------------------------------------------------------


def _reset(decision: Decision) -> float:
    return decision.reset_after if decision else decision.retry_after or 0.0


def _seconds(decision: Decision) -> int:
    return -int(-_reset(decision) // 1)


def _retry(decision: Decision) -> dict[str, str]:
    return {} if decision else {"Retry-After": str(_seconds(decision))}


def draft_11(decision: Decision, clock: ManualClock) -> dict[str, str]:
    """
    `RateLimit` as Tidegate sends it.
    """
    return decision.headers()


def draft_07(decision: Decision, clock: ManualClock) -> dict[str, str]:
    """
    `RateLimit` as a dictionary.
    """
    value = f"limit={decision.limit}, remaining={decision.remaining}, reset={_seconds(decision)}"
    return {"RateLimit": value, "RateLimit-Policy": "10;w=10", **_retry(decision)}


def draft_03(decision: Decision, clock: ManualClock) -> dict[str, str]:
    """
    Three fields.
    """
    limit = {"RateLimit-Limit": f"{decision.limit}, 10;w=10"}
    return {**limit, "RateLimit-Remaining": str(decision.remaining), "RateLimit-Reset": str(_seconds(decision)), **_retry(decision)}


def _legacy(decision: Decision, reset: str) -> dict[str, str]:
    fields = {"X-RateLimit-Limit": str(decision.limit), "X-RateLimit-Remaining": str(decision.remaining)}
    return {**fields, "X-RateLimit-Reset": reset}


def x_delta(decision: Decision, clock: ManualClock) -> dict[str, str]:
    """
    `X-RateLimit-*` with seconds.
    """
    return _legacy(decision, str(_seconds(decision)))


def x_epoch(decision: Decision, clock: ManualClock) -> dict[str, str]:
    """
    `X-RateLimit-*` with an instant, by the clock of everybody.
    """
    return _legacy(decision, str(round(clock.time()) + _seconds(decision)))


def x_epoch_skewed(decision: Decision, clock: ManualClock) -> dict[str, str]:
    """
    The same by a clock that is an hour ahead, and says so.
    """
    there = clock.time() + 3600
    return {"Date": formatdate(there, usegmt=True), **_legacy(decision, str(round(there) + _seconds(decision)))}


def x_epoch_ms(decision: Decision, clock: ManualClock) -> dict[str, str]:
    """
    The same in milliseconds.
    """
    return _legacy(decision, str(round((clock.time() + _reset(decision)) * 1000)))


def x_length(decision: Decision, clock: ManualClock) -> dict[str, str]:
    """
    `X-RateLimit-*-Requests` with a length of time.
    """
    return {f"{name}-Requests": value for name, value in _legacy(decision, f"0m{_reset(decision):.3f}s").items()}


FORMS = [draft_11, draft_07, draft_03, x_delta, x_epoch, x_epoch_skewed, x_epoch_ms, x_length]
