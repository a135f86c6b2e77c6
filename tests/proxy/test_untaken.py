"""
Clients that ask for something long and take none of it: what they hold comes back, with TLS as without.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.proxy.proxying import here
    from tests.proxy.raw_upstream import RawUpstream
    from tests.proxy.test_breaks import ONE_AT_A_TIME, connected
    from tests.servers.tls import certificates
else:
    from proxying import here
    from raw_upstream import RawUpstream
    from servers.tls import certificates
    from test_breaks import ONE_AT_A_TIME, connected

LONG = 64 << 20
"""More than all buffers on the way hold."""


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("setting", ["limits.idle_timeout", "upstream.total_timeout"])
def test_a_response_that_its_client_does_not_take_is_broken_off(eventually: Eventually, scheme: str, setting: str) -> None:
    """The slot is free again, although the client is still there."""
    made = certificates()
    settings = {"limits.idle_timeout": "1h", setting: "1s"}
    if scheme == "https":
        settings |= {"proxy.tls.cert": str(made.server_cert), "proxy.tls.key": str(made.server_key)}
    trusted = ssl.create_default_context(cafile=str(made.ca))
    with (
        RawUpstream() as upstream,
        here([upstream.url], ONE_AT_A_TIME, settings) as proxy,
        connected(proxy) as plain,
        httpx.Client(verify=trusted, base_url=proxy.replace("http:", f"{scheme}:"), timeout=30, trust_env=False) as other,
    ):
        idle = trusted.wrap_socket(plain, server_hostname="localhost") if scheme == "https" else plain
        idle.sendall(b"GET /long/%d HTTP/1.1\r\nhost: a\r\n\r\n" % LONG)
        eventually(lambda: b"/long/" in upstream.heard)
        eventually(lambda: other.get("/").status_code == httpx.codes.OK, within=30)
        idle.close()
