"""
Traces, as a collector gets them: a small one that reads them with OpenTelemetry's own messages.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    from tests.conftest import Eventually
    from tests.service.running import ask, here
    from tidegate.service import Service
else:
    from running import ask, here

RULES = "version: 1\nrules: [{name: strict, per: client, quotas: 1/hour}]\n"
CHECK = "/api/v1/rate-limit/check"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


class Collector(ThreadingHTTPServer):
    """
    Takes spans.
    """

    daemon_threads = True

    def __init__(self) -> None:
        self.requests: list[tuple[str, str | None]] = []
        self.exports: list[ExportTraceServiceRequest] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def endpoint(self) -> str:
        """
        Where it is.
        """
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def spans(self) -> list[Span]:
        """
        What it got.
        """
        resources = (resource for export in self.exports for resource in export.resource_spans)
        return [span for resource in resources for scope in resource.scope_spans for span in scope.spans]


class Handler(BaseHTTPRequestHandler):
    """
    One connection of it.
    """

    server: Collector

    def do_POST(self) -> None:
        """
        Takes one batch.
        """
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.requests.append((self.path, self.headers["content-type"]))
        self.server.exports.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:  # noqa: ANN401  # as the class says
        """
        Says nothing.
        """


@contextmanager
def collecting() -> Iterator[Collector]:
    """
    A collector that runs.
    """
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield collector
        finally:
            collector.shutdown()
            thread.join()


def check(service: Service, client: str, traceparent: str | None = None) -> bool:
    """
    Asks whether a client may pass.
    """
    headers = {"traceparent": traceparent} if traceparent else {}
    answer = ask(f"http://{service.addresses['http']}", "POST", CHECK, {"client_id": client}, headers)
    assert 200 == answer.status
    return bool(answer.json["allowed"])


def attributes(span: Span) -> dict[str, Any]:
    """
    What a span says, by name.
    """
    return {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in span.attributes}


def test_a_span_tells_the_decision(eventually: Eventually) -> None:
    """Rule, outcome and status; with names that are OpenTelemetry's where it has some."""
    with collecting() as collector, here(RULES, {"otlp.endpoint": collector.endpoint, "otlp.share": 1}) as service:
        check(service, "alice")
        check(service, "alice")
        eventually(lambda: len(collector.spans) == 2)

    allowed, denied = sorted(collector.spans, key=lambda span: span.start_time_unix_nano)
    assert ("/v1/traces", "application/x-protobuf") == collector.requests[0]
    assert ("tidegate.check", 2) == (denied.name, denied.kind)
    assert "allowed" == attributes(allowed)["tidegate.outcome"]
    assert {
        "tidegate.protocol": "http",
        "http.response.status_code": 200,
        "tidegate.outcome": "denied",
        "tidegate.decisions": 1,
        "tidegate.shadowed": False,
        "tidegate.degraded": False,
        "tidegate.rule": "strict",
    } == attributes(denied)
    assert (16, 8, b"") == (len(denied.trace_id), len(denied.span_id), denied.parent_span_id)
    assert denied.trace_id != allowed.trace_id
    assert 0 < denied.start_time_unix_nano <= denied.end_time_unix_nano
    resource = {pair.key: pair.value.string_value for pair in collector.exports[0].resource_spans[0].resource.attributes}
    assert "tidegate" == resource["service.name"]


def test_who_has_a_trace_decides_whether_it_is_sampled(eventually: Eventually) -> None:
    """A sampled caller is followed although nothing is sampled here, and one that is not sampled is not."""
    with collecting() as collector, here(RULES, {"otlp.endpoint": collector.endpoint, "otlp.share": 0}) as service:
        check(service, "alice")
        check(service, "alice", f"00-{TRACE}-{PARENT}-00")
        check(service, "alice", "nonsense")
        check(service, "alice", f"00-{TRACE}-{PARENT}-01")
        eventually(lambda: len(collector.spans) > 0)

    (span,) = collector.spans
    assert (TRACE, PARENT) == (span.trace_id.hex(), span.parent_span_id.hex())


@pytest.mark.parametrize("is_listening", [False, True], ids=["nobody listens", "nobody answers"])
def test_a_dead_collector_costs_requests_nothing(is_listening: bool, eventually: Eventually) -> None:
    """They are answered, and what is lost is counted."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as deaf:
        if not is_listening:
            deaf.socket.close()
        endpoint = f"http://127.0.0.1:{deaf.server_address[1]}"
        with here(RULES, {"otlp.endpoint": endpoint, "otlp.share": 1}) as service:
            answers = [check(service, f"client {number}") for number in range(50)]

            def dropped() -> float:
                text = ask(f"http://{service.addresses['http']}", "GET", "/metrics").body.decode()
                return float(text.split("\nratelimit_spans_dropped_total ")[1].split("\n")[0])

            eventually(lambda: dropped() >= 50, within=20)

    assert [True] * 50 == answers
