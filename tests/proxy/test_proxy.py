"""
The proxy between real clients and a real server.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import signal
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import websockets.sync.client

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.proxy import patient_http2
    from tests.proxy.proxying import Answer, Running, ask, here
    from tests.proxy.upstream import Upstream
    from tests.proxy.upstream_app import CHUNK
    from tests.servers import Single, certificates
else:
    import patient_http2
    from proxying import Running, ask, here
    from servers import Single, certificates
    from upstream import Upstream
    from upstream_app import CHUNK

PER_CLIENT = """
version: 1
identity: [{header: x-api-key}, {ip: {}}]
rules: [{name: per_client, per: client, quotas: 3/hour}]
"""
ONE_AT_A_TIME = "version: 1\nrules: [{name: slots, per: global, quotas: 1 concurrent}]\n"


def told_headers(answer: Answer) -> dict[str, str]:
    """What a server heard, by name."""
    return dict(answer.json["headers"])


def test_a_request_and_its_response_pass(upstream: Upstream) -> None:
    """Method, path, fields and body reach the server, and its answer the client."""
    with here([upstream.url]) as proxy:
        answer = ask(proxy, "POST", "/a/b", b"hello", {"x-field": "value", "host": "shop.example.com"})

    assert (200, "1.1 tidegate") == (answer.status, answer.headers["via"])
    assert ("POST", "/a/b", 5) == (answer.json["method"], answer.json["path"], answer.json["size"])
    heard = told_headers(answer)
    assert ("value", "shop.example.com", "127.0.0.1") == (heard["x-field"], heard["host"], heard["x-forwarded-for"])


def test_keys_are_counted_apart_and_who_has_none_by_address(upstream: Upstream) -> None:
    """Three of each pass; the fourth is told when to come again."""
    with here([upstream.url], PER_CLIENT) as proxy:
        by_key = [ask(proxy, "GET", "/", headers={"x-api-key": "a"}) for _ in range(4)]
        by_address = [ask(proxy, "GET", "/") for _ in range(4)]

    for answers in (by_key, by_address):
        assert [200, 200, 200, 429] == [answer.status for answer in answers]
        first, second = (answer.headers["ratelimit"] for answer in answers[:2])
        assert first.startswith('"per_client";r=2;t=3600')
        # A second may pass on a busy machine.
        assert second.startswith(('"per_client";r=1;t=3600', '"per_client";r=1;t=3599'))
        denied = answers[3]
        assert "application/problem+json" == denied.headers["content-type"]
        assert 0 < int(denied.headers["retry-after"]) <= 3600
        assert ["per_client"] == denied.json["violated-policies"]


def test_who_makes_up_keys_is_its_address(upstream: Upstream) -> None:
    """A key that is none of the valid ones names nobody: all of them, and requests without one, are counted together."""
    with here([upstream.url], PER_CLIENT.replace("{header: x-api-key}", '{header: x-api-key, valid: ["live_*"]}')) as proxy:
        made_up = [ask(proxy, "GET", "/", headers={"x-api-key": f"guess_{number}"}).status for number in range(3)]
        none = ask(proxy, "GET", "/").status
        valid = [ask(proxy, "GET", "/", headers={"x-api-key": f"live_{number}"}).status for number in range(4)]

    assert ([200] * 3, 429, [200] * 4) == (made_up, none, valid)


def test_a_client_of_http2_is_served(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without TLS, by knowing that HTTP/2 is spoken; many requests at a time."""
    patient_http2.mend(monkeypatch)

    async def ask_all(proxy: str) -> list[httpx.Response]:
        async with httpx.AsyncClient(http1=False, http2=True, timeout=30) as client:
            return await asyncio.gather(*(client.post(f"{proxy}/{number}", content=b"x" * 100_000) for number in range(20)))

    with here([upstream.url]) as proxy:
        answers = asyncio.run(ask_all(proxy))

    assert {("HTTP/2", 200, "2 tidegate")} == {(answer.http_version, answer.status_code, answer.headers["via"]) for answer in answers}
    assert [(f"/{number}", 100_000) for number in range(20)] == [(answer.json()["path"], answer.json()["size"]) for answer in answers]


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/2"])
def test_clients_may_speak_tls(upstream: Upstream, version: str) -> None:
    """The version is agreed on in the handshake, and the server hears that the client came by TLS."""
    made = certificates()
    settings = {"proxy.tls.cert": made.server_cert, "proxy.tls.key": made.server_key}
    trusted = ssl.create_default_context(cafile=str(made.ca))
    with (
        here([upstream.url], settings=settings) as proxy,
        httpx.Client(verify=trusted, http1=True, http2=version == "HTTP/2", timeout=30, trust_env=False) as client,
    ):
        answer = client.get(proxy.replace("http:", "https:"))

    assert (version, 200) == (answer.http_version, answer.status_code)
    assert ["x-forwarded-proto", "https"] in answer.json()["headers"]


def test_servers_may_speak_tls() -> None:
    """They are asked if an authority vouches for them that is trusted, and not otherwise."""
    made = certificates()
    with Upstream(made.server_cert, made.server_key) as secured:
        with here([secured.url], settings={"upstream.tls_ca": made.ca}) as proxy:
            trusted = ask(proxy, "POST", "/", b"hello")
        with here([secured.url], settings={"upstream.tls_ca": certificates(("stranger",)).ca}) as proxy:
            stranger = ask(proxy, "POST", "/", b"hello")

    assert (200, 5) == (trusted.status, trusted.json["size"])
    assert 502 == stranger.status


@pytest.mark.parametrize("inside", ["http1", "http2"])
@pytest.mark.parametrize("outside", ["HTTP/1.1", "HTTP/2"])
def test_tls_and_both_versions_on_both_sides(outside: str, inside: str) -> None:
    """What the client speaks says nothing about what the server is spoken to."""
    made = certificates()
    settings = {
        "proxy.tls.cert": made.server_cert,
        "proxy.tls.key": made.server_key,
        "upstream.tls_ca": made.ca,
        "upstream.protocol": inside,
    }
    trusted = ssl.create_default_context(cafile=str(made.ca))
    with (
        Upstream(made.server_cert, made.server_key, is_http2=inside == "http2") as secured,
        here([secured.url], settings=settings) as proxy,
        httpx.Client(verify=trusted, http1=True, http2=outside == "HTTP/2", timeout=30, trust_env=False) as client,
    ):
        answers = [client.post(proxy.replace("http:", "https:"), content=b"x" * 100_000) for _ in range(3)]

    told = {(answer.http_version, answer.status_code, answer.json()["version"], answer.json()["size"]) for answer in answers}
    assert {(outside, 200, "2" if inside == "http2" else "1.1", 100_000)} == told


def test_events_arrive_while_the_response_goes_on(upstream: Upstream) -> None:
    """Server-sent events: the client hears the first ones, although the server never ends."""
    with here([upstream.url]) as proxy:
        connection = http.client.HTTPConnection(proxy.removeprefix("http://"), timeout=30)
        connection.request("GET", "/events")
        response = connection.getresponse()
        lines = [response.readline() for _ in range(3)]
        connection.close()

    assert "text/event-stream" == response.headers["content-type"]
    assert [b"data: one\n", b"\n", b"data: two\n"] == lines


def test_who_would_wait_too_long_is_denied(upstream: Upstream) -> None:
    """A queue of half a minute, and the next one would wait a whole one: no server hears of it."""
    with here([upstream.url], "version: 1\nrules: [{name: queue, per: global, quotas: 1/minute queue 30s}]\n") as proxy:
        before = upstream.count
        answers = [ask(proxy, "GET", "/") for _ in range(2)]
        heard = upstream.count - before

    assert ([200, 429], 1) == ([answer.status for answer in answers], heard)


def test_servers_may_ask_for_a_certificate() -> None:
    """Who shows the one that its settings name is let in, who has none is not."""
    made = certificates()
    shown = {"upstream.tls_ca": made.ca, "upstream.tls_cert": made.client_cert, "upstream.tls_key": made.client_key}
    with Upstream(made.server_cert, made.server_key, made.ca) as secured:
        with here([secured.url], settings=shown) as proxy:
            known = ask(proxy, "GET", "/").status
        with here([secured.url], settings={"upstream.tls_ca": made.ca}) as proxy:
            stranger = ask(proxy, "GET", "/").status

    assert (200, 502) == (known, stranger)


def test_web_sockets_pass_and_hold_their_slot(upstream: Upstream, eventually: Eventually) -> None:
    """Messages go both ways; the slot is free once the connection has ended."""
    with here([upstream.url], ONE_AT_A_TIME) as proxy:
        with websockets.sync.client.connect(proxy.replace("http", "ws"), proxy=None) as client:
            for message in ("hello", "x" * 200_000):
                client.send(message)
                assert message == client.recv(timeout=20)
            assert 429 == ask(proxy, "GET", "/").status
        eventually(lambda: ask(proxy, "GET", "/").status == 200)


def test_a_slot_is_free_again_when_a_client_breaks_off(upstream: Upstream, eventually: Eventually) -> None:
    """Also when the server would never have answered."""
    with here([upstream.url], ONE_AT_A_TIME) as proxy:
        host, port = proxy.removeprefix("http://").split(":")
        before = upstream.count
        with socket.create_connection((host, int(port)), timeout=10) as client:
            client.sendall(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n")
            eventually(lambda: upstream.count > before)
            assert 429 == ask(proxy, "GET", "/").status
        eventually(lambda: ask(proxy, "GET", "/").status == 200)


def test_long_bodies_stream_in_flat_memory(upstream: Upstream) -> None:
    """64 MiB down and 64 MiB up pass whole, and the proxy does not hold them."""
    size = 64 * 1024 * 1024
    with Running([upstream.url]) as proxy:
        ask(proxy.address, "GET", "/stream/16")
        before = memory_of(proxy)
        connection = http.client.HTTPConnection(proxy.address.removeprefix("http://"), timeout=60)
        connection.request("GET", f"/stream/{size // len(CHUNK)}")
        response = connection.getresponse()
        received = 0
        while part := response.read(1024 * 1024):
            received += len(part)
        digest = hashlib.sha256()

        def parts() -> Any:  # noqa: ANN401  # what http.client takes
            for _ in range(size // len(CHUNK)):
                digest.update(CHUNK)
                yield CHUNK

        connection.request("PUT", "/", body=parts(), headers={"transfer-encoding": "chunked"}, encode_chunked=True)
        told = connection.getresponse().read()
        connection.close()
        after = memory_of(proxy)

    assert size == received
    assert digest.hexdigest().encode() in told
    assert after - before < 24 * 1024 * 1024, "a fraction of what passed"


def memory_of(proxy: Running) -> int:
    """The most memory that it ever had, in bytes."""
    status = Path(f"/proc/{proxy.process.pid}/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def test_a_drain_answers_what_runs(upstream: Upstream) -> None:
    """A download that runs when SIGTERM comes ends whole, and the exit code says so."""
    size = 32 * 1024 * 1024
    with Running([upstream.url], settings={"shutdown.limit": "30s"}) as proxy:
        connection = http.client.HTTPConnection(proxy.address.removeprefix("http://"), timeout=30)
        connection.request("GET", f"/stream/{size // len(CHUNK)}")
        response = connection.getresponse()
        first = len(response.read(len(CHUNK)))
        proxy.send(signal.SIGTERM)
        rest = len(response.read())
        connection.close()

        assert size == first + rest
        assert 0 == proxy.wait()


def test_a_drain_under_load_loses_no_request(upstream: Upstream, eventually: Eventually) -> None:
    """Who asks without a pause is answered until it is told that its connection ends; nobody is cut off."""
    statuses: list[int] = []

    def load(address: str) -> None:
        connection = http.client.HTTPConnection(address, timeout=30)
        is_last = False
        while not is_last:
            connection.request("GET", "/")
            response = connection.getresponse()
            is_last = response.will_close
            response.read()
            statuses.append(response.status)
        connection.close()

    # A connection without a request is ended half a second after the grace; a thread of a busy machine may stand still for as long.
    settings = {"shutdown.grace": "2s", "shutdown.limit": "30s"}
    with Running([upstream.url], settings=settings) as proxy, ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(load, proxy.address.removeprefix("http://")) for _ in range(4)]
        eventually(lambda: len(statuses) >= 40)
        proxy.send(signal.SIGTERM)
        for client in clients:
            client.result(timeout=30)

        assert 0 == proxy.wait()
    assert {200} == set(statuses)


def test_a_server_that_is_killed_costs_only_what_it_was_working_on(eventually: Eventually) -> None:
    """Two servers under load, one is killed: what it had begun breaks off, the rest goes elsewhere or fails, all later ones pass."""
    with Upstream() as stays, Upstream() as goes, here([stays.url, goes.url]) as proxy:
        answers: list[int | None] = []
        is_over = threading.Event()

        def load() -> None:
            while not is_over.is_set():
                try:
                    answers.append(ask(proxy, "GET", "/").status)
                except http.client.IncompleteRead:
                    answers.append(None)

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            eventually(lambda: len(answers) >= 40)
            goes.process.kill()
            seen = len(answers)
            eventually(lambda: len(answers) >= seen + 40, within=20)
        finally:
            is_over.set()
            for thread in threads:
                thread.join()

        failed = [status for status in answers if status != 200]
        assert len(failed) <= len(threads), "at most the requests in flight"
        assert {502, None} >= set(failed)


@pytest.mark.parametrize("path", ["/", "/stream/1"])
def test_a_store_that_is_away_does_not_stop_the_proxy(upstream: Upstream, path: str) -> None:
    """`on_store_error` decides, and the request is forwarded all the same."""
    away = {"store": "redis://127.0.0.1:1", "budget": "20ms", "on_store_error": "allow"}
    with here([upstream.url], PER_CLIENT, away) as proxy:
        statuses = {ask(proxy, "GET", path).status for _ in range(8)}

    assert {200} == statuses


def test_busy_workers_that_do_not_sleep_answer_as_others_do() -> None:
    """In memory and on a store, whose thread is a worker too; and they end when they are told to."""
    rules = "version: 1\nidentity: [ip: {}]\nrules: [{name: all, per: client, quotas: 150/hour}]\n"
    with Upstream() as one, Single() as store:
        for settings in ({}, {"store": store.url(), "budget": "5s"}):
            with Running([one.url], rules, {"busy_poll": "1ms", **settings}) as proxy:
                statuses = [proxy.ask("GET", "/").status for _ in range(200)]
                proxy.send(signal.SIGTERM)
                assert 0 == proxy.wait()

            assert [200] * 150 + [429] * 50 == statuses
