"""
The access log of a real proxy: where lines go, what becomes of a file that is moved away, and what is never in them.
"""

from __future__ import annotations

import json
import signal
import stat
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Eventually
    from tests.proxy.proxying import Running, here
    from tests.proxy.upstream import Upstream
else:
    from proxying import Running, here

from tidegate.errors import StartupError

RULES = """
version: 1
identity: [{header: x-api-key}, {ip: {}}]
rules: [{name: per_client, per: client, quotas: 1/hour}]
"""


def entries(log: Path) -> list[dict[str, Any]]:
    """
    What has been written, read as JSON.
    """
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


def test_lines_go_to_a_file_that_may_be_moved_away(upstream: Upstream, tmp_path: Path, eventually: Eventually) -> None:
    """Also without a signal; only its owner and group may read it; no key is in it."""
    log, moved = tmp_path / "access.log", tmp_path / "access.log.1"
    with Running([upstream.url], RULES, {"access_log.to": log}) as proxy:
        for _ in range(2):
            proxy.ask("GET", "/a?token=geheim", headers={"x-api-key": "geheim"})
        eventually(lambda: len(entries(log)) == 2)
        log.rename(moved)
        proxy.send(signal.SIGHUP)
        proxy.ask("GET", "/b")
        eventually(lambda: len(entries(log)) == 1)
        proxy.send(signal.SIGTERM)
        assert 0 == proxy.wait()

    first, second = entries(moved)
    assert (200, "allowed", "per_client", upstream.url.removeprefix("http://")) == tuple(
        first[name] for name in ("status", "decision", "rule", "upstream")
    )
    assert (429, "denied", "per_client", None) == (second["status"], second["decision"], second["rule"], second.get("upstream"))
    assert ["/b"] == [entry["path"] for entry in entries(log)]
    assert 0o640 == stat.S_IMODE(log.stat().st_mode) | 0o040, "a mask may take more away"
    assert "geheim" not in moved.read_text(encoding="utf-8")


def test_lines_go_to_standard_output(upstream: Upstream, eventually: Eventually) -> None:
    """Behind the greeting, for containers."""
    settings = {"access_log.to": "stdout", "access_log.format": "common"}
    with Running([upstream.url], settings=settings) as proxy:
        answer = proxy.ask("GET", "/a?b=c")
        eventually(lambda: '"GET /a HTTP/1.1" 200 ' in proxy.log)
        assert f'request_id="{answer.headers["x-request-id"]}"' in proxy.log


def test_a_log_that_cannot_be_written_is_told_at_the_start(upstream: Upstream, tmp_path: Path) -> None:
    """And not by lines that are missing."""
    with pytest.raises(StartupError, match=r"access_log\.to"), here([upstream.url], settings={"access_log.to": tmp_path / "no" / "log"}):
        pass
