"""
What settings say is what a real proxy does: each from the file to the wire.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.conftest import Eventually
    from tests.proxy.proxying import Answer, Running, ask
    from tests.proxy.test_store_away import lines_of
    from tests.proxy.upstream import Upstream
    from tests.servers import certificates
    from tests.servers.process import new_folder
else:
    from proxying import Answer, Running, ask
    from servers import certificates
    from servers.process import new_folder
    from test_store_away import lines_of
    from upstream import Upstream

CONFIG = """
proxy: {{trusted_proxies: [127.0.0.1], request_id: x-trace}}
access_log: {{to: {log}}}
upstreams:
  app: {app}
  shop: {{servers: {shop}, host: rewrite}}
  idle: {{servers: {app}, idle_timeout: 1s}}
  total: {{servers: {app}, total_timeout: 1s}}
  silent: {{servers: {silent}, connect_timeout: 3s, retries: 0}}
routes:
  - {{upstream: app}}
  - {{hosts: [shop.test, "*.shop.test"], upstream: shop}}
  - {{hosts: idle.test, upstream: idle}}
  - {{hosts: total.test, upstream: total}}
  - {{hosts: silent.test, upstream: silent}}
"""


@pytest.fixture(scope="module")
def shop() -> Iterator[Upstream]:
    """
    Another server than the one that all share.
    """
    with Upstream() as server:
        yield server


@pytest.fixture(scope="module")
def log() -> Path:
    """
    The access log of the proxy.
    """
    return new_folder("log") / "access.log"


@pytest.fixture(scope="module")
def proxy(upstream: Upstream, shop: Upstream, log: Path) -> Iterator[Running]:
    """
    One proxy whose groups differ.
    """
    # Connections are taken by the system, and nobody ever shakes hands.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = CONFIG.format(app=upstream.url, shop=shop.url, silent=f"https://127.0.0.1:{silent.getsockname()[1]}", log=log)
        with Running([], config=config) as running:
            yield running


def ask_from(address: str, proxy: Running, path: str, headers: Mapping[str, str]) -> Answer:
    """
    Sends one request from another address of this machine.
    """
    connection = http.client.HTTPConnection(proxy.address.removeprefix("http://"), timeout=30, source_address=(address, 0))
    try:
        connection.request("GET", path, headers=dict(headers))
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


def told(answer: Answer) -> dict[str, str]:
    """What a server heard, by name."""
    return dict(answer.json["headers"])


def test_trusted_proxies_are_believed_and_nobody_else(proxy: Running, log: Path, eventually: Eventually) -> None:
    """What they say is passed on with their address added, and the log names their client; others are whom they come from."""
    says = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https", "x-forwarded-host": "outside.test"}
    trusted, stranger = (told(ask_from(address, proxy, "/trust", says)) for address in ("127.0.0.1", "127.0.0.2"))
    eventually(lambda: len(lines_of(log, "/trust")) == 2)

    names = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host")
    assert ("203.0.113.9, 127.0.0.1", "https", "outside.test") == tuple(trusted[name] for name in names)
    assert ("127.0.0.2", "http") == tuple(stranger[name] for name in names[:2])
    assert "outside.test" != stranger["x-forwarded-host"]
    assert [("127.0.0.1", "203.0.113.9"), ("127.0.0.2", None)] == [(line["remote"], line.get("client")) for line in lines_of(log, "/trust")]


def test_requests_have_their_id_in_the_header_that_is_named(proxy: Running) -> None:
    """What a trusted proxy calls a request stays, that of others is replaced; servers and clients get the same."""
    kept, replaced = (ask_from(address, proxy, "/", {"x-trace": "named-outside"}) for address in ("127.0.0.1", "127.0.0.2"))

    assert ("named-outside", "named-outside") == (told(kept)["x-trace"], kept.headers["x-trace"])
    assert told(replaced)["x-trace"] == replaced.headers["x-trace"] != "named-outside"
    assert {None} == {answer.headers["x-request-id"] for answer in (kept, replaced)}


def test_hosts_lead_to_groups_and_a_group_has_its_own_host(proxy: Running, upstream: Upstream, shop: Upstream) -> None:
    """A host, a pattern below it, and everybody else; with `host: rewrite` the server hears its own name."""
    hosts = ("shop.test", "SHOP.test:8000", "a.b.shop.test", "othershop.test", "elsewhere.test")
    answers = [ask(proxy.address, "GET", "/", headers={"host": host}) for host in hosts]

    by_shop, by_app = (shop.process.pid, shop.url.removeprefix("http://")), upstream.process.pid
    assert [by_shop] * 3 == [(answer.json["process"], told(answer)["host"]) for answer in answers[:3]]
    assert [(by_app, host) for host in hosts[3:]] == [(answer.json["process"], told(answer)["host"]) for answer in answers[3:]]
    assert list(hosts) == [told(answer)["x-forwarded-host"] for answer in answers]


def test_a_server_that_does_not_shake_hands_is_waited_for_as_long_as_it_says(proxy: Running) -> None:
    """`connect_timeout`, with the handshake; not for the two seconds that others get."""
    begun = perf_counter()
    answer = ask(proxy.address, "GET", "/", headers={"host": "silent.test"})
    took = perf_counter() - begun

    assert (504, "no upstream can be reached in time") == (answer.status, answer.json["detail"])
    assert took > 2.9


def test_a_response_that_stands_still_breaks_off(proxy: Running) -> None:
    """`idle_timeout`: its client sees that it is not whole, long before the minute that others get."""
    connection = http.client.HTTPConnection(proxy.address.removeprefix("http://"), timeout=30)
    connection.request("GET", "/events", headers={"host": "idle.test"})
    response = connection.getresponse()
    with pytest.raises(http.client.IncompleteRead):
        response.read()
    connection.close()

    assert 200 == response.status


def test_a_request_has_an_end(proxy: Running) -> None:
    """`total_timeout`, whatever else is allowed."""
    answer = ask(proxy.address, "GET", "/slow", headers={"host": "total.test"})

    assert (504, "the upstream took too long to answer") == (answer.status, answer.json["detail"])


def test_requests_come_in_by_a_socket_in_the_file_system(upstream: Upstream) -> None:
    """Who may open it has no address, and is believed whom it speaks for."""
    path = new_folder("socket") / "proxy"
    with Running([upstream.url], settings={"proxy.listen": f"unix:{path}"}), socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(30)
        stream.connect(str(path))
        connection = http.client.HTTPConnection("localhost")
        connection.sock = stream
        connection.request("GET", "/", headers={"x-forwarded-for": "203.0.113.9"})
        response = connection.getresponse()
        answer = Answer(response.status, response.headers, response.read())

    assert (200, "203.0.113.9") == (answer.status, told(answer)["x-forwarded-for"])


def test_clients_may_have_to_show_a_certificate(upstream: Upstream) -> None:
    """With `proxy.tls.client_ca` who has one that it signed gets in, and who has none or another one does not."""
    made, strangers = certificates(), certificates(("stranger",))
    settings = {"proxy.tls.cert": made.server_cert, "proxy.tls.key": made.server_key, "proxy.tls.client_ca": made.ca}
    nobody, stranger = (ssl.create_default_context(cafile=str(made.ca)) for _ in range(2))
    stranger.load_cert_chain(strangers.client_cert, strangers.client_key)
    with Running([upstream.url], settings=settings) as proxy:
        with secured(proxy, made.client_context()) as known:
            status = status_of(known)
        before = upstream.count
        for context in (nobody, stranger):
            # With TLS 1.3 a client hears of it when it reads.
            with secured(proxy, context) as refused, pytest.raises((ssl.SSLError, ConnectionError)):
                status_of(refused)
        heard = upstream.count - before

    assert (200, 0) == (status, heard)


def status_of(connection: http.client.HTTPSConnection) -> int:
    """What a request is answered with, if it is."""
    connection.request("GET", "/")
    return connection.getresponse().status


@contextmanager
def secured(proxy: Running, context: ssl.SSLContext) -> Iterator[http.client.HTTPSConnection]:
    """A connection with TLS."""
    host, _, port = proxy.address.rpartition("/")[2].partition(":")
    connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=30)
    try:
        yield connection
    finally:
        connection.close()
