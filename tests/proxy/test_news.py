"""
What a proxy logs of servers behind it, and of its store, when they go and come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.proxy.proxying import CHECKS, Running
    from tests.proxy.upstream import Upstream
    from tests.servers import Single, certificates, self_signed
else:
    from proxying import CHECKS, Running
    from servers import Single, certificates, self_signed
    from upstream import Upstream

FAILURES = 'ratelimit_upstream_connect_failures_total{upstream="default",server="127.0.0.1:%d",reason="%s"}'


def test_a_server_that_goes_and_comes_back_is_in_the_log(eventually: Eventually) -> None:
    """With its group, and with the reason."""
    with Upstream() as one, Upstream() as other, Running([one.url, other.url], settings=CHECKS) as proxy:
        one.be("ill")
        eventually(lambda: f"server 127.0.0.1:{one.port}: its health checks fail" in proxy.log)
        other.process.kill()
        eventually(lambda: "error   upstream default: none of its servers is well" in proxy.log)
        one.be("well")
        eventually(lambda: f"server 127.0.0.1:{one.port}: back" in proxy.log)
        eventually(lambda: "upstream default: back" in proxy.log)

        assert "(a check was answered with 503)" in proxy.log
        assert "Connection refused" in proxy.log


def test_a_server_that_is_ejected_is_in_the_log(eventually: Eventually) -> None:
    """Also without checks, by the requests that fail."""
    with Upstream() as one, Running([one.url], settings={"upstream.eject_after": 1}) as proxy:
        one.process.kill()
        assert 502 == proxy.ask("GET", "/").status

        eventually(
            lambda: f"server 127.0.0.1:{one.port}: it failed too often, and gets no requests for a while (Connection refused" in proxy.log
        )


def test_a_server_that_is_not_trusted_is_in_the_log(eventually: Eventually) -> None:
    """And it is counted as what it is."""
    made = certificates()
    settings = {"upstream.tls_ca": certificates(("stranger",)).ca, "upstream.eject_after": 1}
    with Upstream(made.server_cert, made.server_key) as secured, Running([secured.url], settings=settings) as proxy:
        assert 502 == proxy.ask("GET", "/").status

        assert proxy.metric(FAILURES % (secured.port, "tls")) > 0
        assert 0 == proxy.metric(FAILURES % (secured.port, "refused"))
        eventually(lambda: "invalid peer certificate: UnknownIssuer" in proxy.log)


def test_a_certificate_that_nobody_else_signed_is_trusted_if_it_is_named() -> None:
    """And no other one of the same name; nor for a server of another name."""
    mine, twin, elsewhere = self_signed(), self_signed(), self_signed(("elsewhere",))
    with Upstream(mine.cert, mine.key) as secured, Running([secured.url], settings={"upstream.tls_ca": mine.cert}) as proxy:
        assert 200 == proxy.ask("GET", "/").status
    for shown, trusted in ((mine, twin), (elsewhere, elsewhere)):
        with Upstream(shown.cert, shown.key) as secured, Running([secured.url], settings={"upstream.tls_ca": trusted.cert}) as proxy:
            assert 502 == proxy.ask("GET", "/").status
            assert proxy.metric(FAILURES % (secured.port, "tls")) > 0


def test_a_store_that_goes_and_comes_back_is_in_the_log(eventually: Eventually) -> None:
    """With what it means for requests."""
    rules = "version: 1\nidentity: [ip: {}]\nrules: [{name: all, per: client, quotas: 100000/minute}]\n"
    with Upstream() as one, Single() as store, Running([one.url], rules, {"store": store.url()}) as proxy:

        def is_said(text: str) -> bool:
            assert 200 == proxy.ask("GET", "/").status, "the store is never the outage"
            return text in proxy.log

        store.kill()
        eventually(lambda: is_said("it is not connected; rules decide by on_store_error ("))
        store.restart()
        eventually(lambda: is_said(f"store 127.0.0.1:{store.node.port}: back"), 60)
