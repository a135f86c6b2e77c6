"""
The proxy with clients that others wrote: curl, h2load, k6 and a browser, each where it is installed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.chromium import Missing, find
    from tests.proxy.proxying import here
    from tests.proxy.upstream import Upstream
    from tests.servers import certificates
else:
    from chromium import Missing, find
    from proxying import here
    from servers import certificates

NEVER_DENIES = "version: 1\nrules: [{name: all, per: global, quotas: 1000000/minute}]\n"
THREE = "version: 1\nrules: [{name: all, per: global, quotas: 3/hour}]\n"


def installed(name: str) -> str:
    """
    Where a program is; the test is skipped where it is not.
    """
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(*words: str) -> str:
    """
    What a program says.
    """
    done = subprocess.run(words, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_curl_uploads_and_downloads(upstream: Upstream, tmp_path: Path, version: str) -> None:
    """Three megabytes up, with `Expect: 100-continue` over HTTP/1, and the answer down."""
    curl = installed("curl")
    (tmp_path / "body").write_bytes(b"x" * 3_000_000)
    with here([upstream.url]) as proxy:
        sent = json.loads(run(curl, "-sS", version, "--data-binary", f"@{tmp_path}/body", "-H", "Expect: 100-continue", f"{proxy}/up"))
        run(curl, "-sS", version, "-o", str(tmp_path / "got"), f"{proxy}/stream/32")

    assert ("POST", 3_000_000) == (sent["method"], sent["size"])
    assert 32 * 65_536 == (tmp_path / "got").stat().st_size


def test_curl_over_tls_chooses_http2(upstream: Upstream) -> None:
    """By ALPN."""
    curl, made = installed("curl"), certificates()
    settings = {"proxy.tls.cert": made.server_cert, "proxy.tls.key": made.server_key}
    with here([upstream.url], settings=settings) as proxy:
        url = proxy.replace("http:", "https:")
        told = run(curl, "-sS", "--cacert", str(made.ca), "-o", "/dev/null", "-w", "%{http_version} %{response_code}", url)

    assert "2 200" == told


def test_curl_is_told_of_a_denial_while_it_uploads(upstream: Upstream, tmp_path: Path) -> None:
    """The answer is seen although the body was not read to its end, and the server hears of nothing."""
    curl = installed("curl")
    (tmp_path / "body").write_bytes(b"x" * 3_000_000)
    with here([upstream.url], "version: 1\nrules: [{name: none, per: global, quotas: 1/hour}]\n") as proxy:
        run(curl, "-sS", proxy)
        before = upstream.count
        for form in ("--data-binary", "-T"):
            body = f"@{tmp_path}/body" if form == "--data-binary" else f"{tmp_path}/body"
            told = run(curl, "-sS", "-o", "/dev/null", "-w", "%{response_code}", form, body, proxy)
            assert "429" == told

        assert before == upstream.count


@pytest.mark.parametrize("protocol", [["--h1"], ["-m10"]], ids=["http1", "http2"])
def test_h2load_gets_every_answer(upstream: Upstream, protocol: list[str]) -> None:
    """500 requests over 10 connections."""
    h2load = installed("h2load")
    with here([upstream.url], NEVER_DENIES) as proxy:
        said = run(h2load, "-n500", "-c10", *protocol, proxy)

    assert "500 succeeded, 0 failed, 0 errored" in said


K6 = """
import http from 'k6/http';
import { check } from 'k6';
export const options = { vus: 5, iterations: 50 };
export default function () {
  const answer = http.get(__ENV.URL);
  check(answer, { answered: (answer) => answer.status === 200 || answer.status === 429 });
}
"""


def test_k6_sees_what_the_rule_says(upstream: Upstream, tmp_path: Path) -> None:
    """Three of fifty pass."""
    k6 = installed("k6")
    (tmp_path / "script.js").write_text(K6, encoding="utf-8")
    summary = tmp_path / "summary.json"
    with here([upstream.url], THREE) as proxy:
        before = upstream.count
        run(k6, "run", "--quiet", "--no-usage-report", "--summary-export", str(summary), "-e", f"URL={proxy}", str(tmp_path / "script.js"))
        passed = upstream.count - before
    metrics = json.loads(summary.read_text(encoding="utf-8"))["metrics"]

    assert (3, 50, 0) == (passed, metrics["iterations"]["count"], metrics["checks"]["fails"])


@pytest.mark.timeout(120)
def test_a_page_behind_the_proxy_works_in_a_browser(upstream: Upstream) -> None:
    """It loads, posts, hears server-sent events, and talks over a WebSocket."""
    api = pytest.importorskip("playwright.sync_api")
    try:
        chromium = find()
    except Missing as missing:
        pytest.skip(str(missing))
    with here([upstream.url], NEVER_DENIES) as proxy, api.sync_playwright() as play:
        words = ["--no-sandbox", "--no-proxy-server"]
        browser = play.chromium.launch(executable_path=chromium.path, env={**os.environ, **chromium.environment}, args=words)
        page = browser.new_page()
        page.goto(f"{proxy}/page")
        page.wait_for_function("document.title === 'hello 5 onetwo'", timeout=60_000)
        browser.close()
