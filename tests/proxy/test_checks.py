"""
Active checks of servers that speak more than plain HTTP/1: over TLS, over HTTP/2, and both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.proxy.proxying import CHECKS, Running
    from tests.proxy.upstream import Upstream
    from tests.servers import certificates
else:
    from proxying import CHECKS, Running
    from servers import certificates
    from upstream import Upstream

PASSED = 'ratelimit_upstream_checks_total{upstream="default",server="127.0.0.1:%d",result="passed"}'
STATE = 'ratelimit_upstream_servers{upstream="default",state="%s"}'


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("protocol", ["http1", "http2"])
def test_servers_are_checked_the_way_they_are_asked(eventually: Eventually, protocol: str, *, is_tls: bool) -> None:
    """A server whose check fails gets nothing until it passes again."""
    made = certificates()
    secured_by = (made.server_cert, made.server_key) if is_tls else ()
    settings = {**CHECKS, "upstream.protocol": protocol, **({"upstream.tls_ca": made.ca} if is_tls else {})}
    is_http2 = protocol == "http2"
    with (
        Upstream(*secured_by, is_http2=is_http2) as one,
        Upstream(*secured_by, is_http2=is_http2) as other,
        Running([one.url, other.url], settings=settings) as proxy,
    ):
        eventually(lambda: all(proxy.metric(PASSED % server.port) > 0 for server in (one, other)))
        versions = {proxy.ask("GET", "/").json["version"] for _ in range(4)}
        one.be("ill")
        eventually(lambda: proxy.metric(STATE % "down") == 1)
        processes = {proxy.ask("GET", "/").json["process"] for _ in range(6)}
        one.be("well")
        eventually(lambda: proxy.metric(STATE % "up") == 2)
        again = {proxy.ask("GET", "/").json["process"] for _ in range(6)}

    assert {"2" if is_http2 else "1.1"} == versions
    assert {other.process.pid} == processes, "who is down gets nothing"
    assert {one.process.pid, other.process.pid} == again


def test_a_server_whom_no_trusted_authority_vouches_for_is_down(eventually: Eventually) -> None:
    """Its check fails as its requests would."""
    made = certificates()
    settings = {**CHECKS, "upstream.tls_ca": certificates(("stranger",)).ca}
    with Upstream(made.server_cert, made.server_key) as secured, Running([secured.url], settings=settings) as proxy:
        eventually(lambda: proxy.metric(STATE % "down") == 1)

        assert ["upstream_down"] == proxy.reasons()
        assert 502 == proxy.ask("GET", "/").status
