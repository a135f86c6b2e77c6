"""
Certificates for servers that change while requests run: whom the proxy trusts, and what it shows.
"""

from __future__ import annotations

import shutil
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Eventually
    from tests.proxy.proxying import Running
    from tests.proxy.test_reload import FAILED, LOADED
    from tests.proxy.upstream import Upstream
    from tests.servers import certificates
    from tests.servers.tls import Certificates
else:
    from proxying import Running
    from servers import certificates
    from test_reload import FAILED, LOADED
    from upstream import Upstream

MADE = certificates()
STRANGERS = certificates(("stranger",))
AT_ONCE = {"upstream.keep_alive": 0, "upstream.eject_after": 0}
"""A connection that was made before goes on, so each request makes its own; and no server is left out for what these tests do."""


@pytest.fixture(scope="module")
def secured() -> Iterator[Upstream]:
    """
    A server that asks for a certificate.
    """
    with Upstream(MADE.server_cert, MADE.server_key, MADE.ca) as server:
        yield server


class Files:
    """
    The files that settings name, and whose content changes.
    """

    def __init__(self, folder: Path) -> None:
        self.ca, self.cert, self.key = (folder / name for name in ("ca.pem", "cert.pem", "key.pem"))
        self.trust(MADE)
        self.show(MADE)

    @property
    def settings(self) -> dict[str, object]:
        """What names them."""
        return {"upstream.tls_ca": self.ca, "upstream.tls_cert": self.cert, "upstream.tls_key": self.key}

    def trust(self, made: Certificates) -> None:
        """Trusts servers of this authority, and no others."""
        _replace(self.ca, made.ca)

    def show(self, made: Certificates) -> None:
        """Shows servers this certificate."""
        _replace(self.key, made.client_key)
        _replace(self.cert, made.client_cert)


def _replace(file: Path, source: Path) -> None:
    new = file.with_suffix(".new")
    shutil.copy(source, new)
    new.replace(file)


def status(proxy: Running) -> int:
    """What a request is answered with, on a new connection to the server."""
    return proxy.ask("GET", "/").status


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """
    Files with which the server is reached.
    """
    return Files(tmp_path)


@pytest.mark.parametrize("what", ["trust", "show"])
def test_a_signal_reads_certificates_for_servers_again(secured: Upstream, files: Files, eventually: Eventually, what: str) -> None:
    """Not before; and what is no certificate is refused, so that the last ones stay in force."""
    settings = {**files.settings, **AT_ONCE}
    change = getattr(files, what)
    with Running([secured.url], settings=settings, environment={"TIDEGATE_WATCH": "false"}) as proxy:
        before = status(proxy)
        change(STRANGERS)
        unnoticed = status(proxy)
        proxy.send(signal.SIGHUP)
        eventually(lambda: proxy.metric(LOADED) == 1)
        wrong = status(proxy)

        change(MADE)
        proxy.send(signal.SIGHUP)
        eventually(lambda: proxy.metric(LOADED) == 2)
        # Nobody asks meanwhile: what a reload has found to be right is in force by itself.
        (files.ca if what == "trust" else files.cert).write_text("no certificate\n", encoding="ascii")
        proxy.send(signal.SIGHUP)
        eventually(lambda: proxy.metric(FAILED) == 1)
        refused, reasons = status(proxy), proxy.reasons()

    assert [200, 200, 502, 200] == [before, unnoticed, wrong, refused]
    assert ["upstreams_not_reloaded"] == reasons
    assert "has no certificate in it" in proxy.log


@pytest.mark.parametrize("by", ["file", "group", "flags"])
def test_certificates_for_servers_are_watched(secured: Upstream, files: Files, eventually: Eventually, by: str) -> None:
    """Whether a file of settings names them, for all groups or for one, or only flags do."""
    settings = {**files.settings, **AT_ONCE}
    options = ", ".join(f"{key.removeprefix('upstream.')}: {value}" for key, value in settings.items())
    configs = {
        "file": f"upstreams: {secured.url}\nupstream: {{{options}}}\n",
        "group": f"upstreams: {{app: {{servers: {secured.url}, {options}}}}}\n",
    }
    upstreams, flags = ([secured.url], settings) if by == "flags" else ([], {})
    with Running(upstreams, settings=flags, config=configs.get(by)) as proxy:
        before = status(proxy)
        files.trust(STRANGERS)
        eventually(lambda: status(proxy) == 502, within=20)
        files.ca.write_text("no certificate\n", encoding="ascii")
        eventually(lambda: proxy.reasons() == ["upstreams_not_reloaded"], within=20)
        files.trust(MADE)
        eventually(lambda: status(proxy) == 200, within=20)
        eventually(lambda: proxy.reasons() == [])

    assert 200 == before
