"""
Which server is next, and which is left out: real servers that come, go, and fall ill.
"""

from __future__ import annotations

import http.client
import re
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.proxy.load import Load
    from tests.proxy.proxying import CHECKS, Running, ask, here
    from tests.proxy.upstream import Upstream
else:
    from load import Load
    from proxying import CHECKS, Running, ask, here
    from upstream import Upstream


def test_weights_are_exact() -> None:
    """Of 60 requests, servers of the weights 3, 2 and 1 get 30, 20 and 10."""
    with ExitStack() as stack:
        servers = [stack.enter_context(Upstream()) for _ in range(3)]
        urls = [f"{server.url} weight {weight}" for server, weight in zip(servers, (3, 2, 1), strict=True)]
        proxy = stack.enter_context(here(urls))
        statuses = {ask(proxy, "GET", "/").status for _ in range(60)}
        counts = [server.count for server in servers]

    assert {200} == statuses
    assert [30, 20, 10] == counts


def test_who_is_busy_gets_less(eventually: Eventually) -> None:
    """By least requests, all go to the server that has nothing to do, while the other one is at work."""
    with Upstream() as one, Upstream() as other, here([one.url, other.url], settings={"upstream.balance": "least_requests"}) as proxy:
        held = http.client.HTTPConnection(proxy.removeprefix("http://"), timeout=30)
        held.request("GET", "/slow")
        eventually(lambda: one.count + other.count == 1)
        busy, free = (one, other) if one.count else (other, one)
        statuses = {ask(proxy, "GET", "/").status for _ in range(10)}
        counts = (busy.count, free.count)
        held.close()

    assert {200} == statuses
    assert (1, 10) == counts


def test_a_killed_server_costs_nobody_anything(eventually: Eventually) -> None:
    """Under load one of three servers is killed: no request fails, it is ejected, and when it is back it gets requests again."""
    with ExitStack() as stack:
        servers = [stack.enter_context(Upstream()) for _ in range(3)]
        settings = {
            "upstream.eject_after": 2,
            "upstream.eject_time": "100ms",
            "upstream.eject_time_max": "200ms",
            "upstream.slow_start": "0s",
        }
        proxy = stack.enter_context(Running([server.url for server in servers], settings=settings))
        gone = servers[1]
        label = f'{{upstream="default",server="127.0.0.1:{gone.port}"}}'
        with Load(proxy.address) as load:
            load.more(60)
            gone.process.kill()
            load.more(100)
            eventually(lambda: proxy.metric(f"ratelimit_upstream_ejections_total{label}") > 0)
            gone.start()
            eventually(lambda: gone.count > 5, within=30)
        refused = proxy.metric('ratelimit_upstream_connect_failures_total{upstream="default"')

    begun = [failure for failure in load.failed if str(failure).startswith("IncompleteRead")]
    assert begun == load.failed, "a GET that was under way is asked for elsewhere"
    assert len(begun) <= len(load.threads), "but for what was half answered at that moment"
    assert refused > 0


def test_a_server_that_answers_5xx_is_left_out_if_that_counts(eventually: Eventually) -> None:
    """With `eject_on: 5xx`; the other one gets everything, and `/readyz` says nothing as long as one is well."""
    settings = {"upstream.eject_on": "5xx", "upstream.eject_after": 3, "upstream.eject_time": "1h", "upstream.eject_time_max": "1h"}
    with Upstream() as ill, Upstream() as well, Running([ill.url, well.url], settings=settings) as proxy:
        ill.be("ill")
        statuses = [proxy.ask("GET", "/").status for _ in range(20)]
        eventually(lambda: proxy.metric('ratelimit_upstream_servers{upstream="default",state="ejected"}') == 1)
        assert [] == proxy.reasons()

    assert [503, 503, 503] == [status for status in statuses if status != 200]
    assert {200} == set(statuses[7:])


def test_checks_take_servers_away_and_bring_them_back(eventually: Eventually) -> None:
    """A server whose check fails gets nothing until it passes again; if all fail, all are used and `/readyz` tells."""
    with Upstream() as one, Upstream() as other, Running([one.url, other.url], settings=CHECKS) as proxy:
        state = 'ratelimit_upstream_servers{upstream="default",state="%s"}'
        one.be("ill")
        eventually(lambda: proxy.metric(state % "down") == 1)
        before = one.count
        assert {200} == {proxy.ask("GET", "/").status for _ in range(10)}
        assert before == one.count, "it gets nothing"

        other.be("ill")
        eventually(lambda: proxy.metric(state % "down") == 2)
        assert ["upstream_down"] == proxy.reasons()
        assert 503 == proxy.ask("GET", "/").status, "somebody is asked all the same"

        one.be("well")
        eventually(lambda: proxy.metric(state % "up") == 1)
        assert [] == proxy.reasons()
        assert {200} == {proxy.ask("GET", "/").status for _ in range(4)}


def test_a_server_that_hangs_is_found_out(eventually: Eventually) -> None:
    """A frozen server takes connections and says nothing: who waits for it is told 504, and soon nobody does any more."""
    settings = {
        "upstream.first_byte_timeout": "3s",
        "upstream.eject_after": 1,
        "upstream.eject_time": "1h",
        "upstream.eject_time_max": "1h",
    }
    with Upstream() as hangs, Upstream() as well, Running([hangs.url, well.url], settings=settings) as proxy:
        hangs.process.freeze()
        statuses = [proxy.ask("GET", "/").status for _ in range(6)]
        eventually(lambda: proxy.metric("ratelimit_upstream_up") == 1)
        hangs.process.thaw()

    assert 1 == statuses.count(504)
    assert 5 == statuses.count(200)


def test_the_document_of_metrics_is_complete(upstream: Upstream) -> None:
    """Every metric of servers is documented with its type and labels, and Prometheus likes their names."""
    document = (Path(__file__).parents[2] / "docs/reference/metrics.md").read_text(encoding="utf-8")
    section = document.partition("## Servers behind the proxy\n")[2].partition("\n## ")[0]
    documented = {
        (name, kind, frozenset(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \|", section, re.MULTILINE)
    }
    with Running([upstream.url]) as proxy:
        proxy.ask("GET", "/")
        text = ask(proxy.addresses["http"], "GET", "/metrics").body.decode()
    served = {
        (
            family.name + ("_total" if family.type == "counter" else ""),
            family.type,
            frozenset(label for found in family.samples for label in found.labels if label != "le"),
        )
        for family in text_string_to_metric_families(text)
        if family.name.startswith("ratelimit_upstream")
    }

    assert documented == served
    if (promtool := shutil.which("promtool")) is not None:
        checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        assert (0, "", "") == (checked.returncode, checked.stdout, checked.stderr)


def test_the_page_of_metrics_tells_of_upstreams(upstream: Upstream) -> None:
    """Each server by group and outcome, and how long groups take."""
    with Running([upstream.url]) as proxy:
        for _ in range(3):
            proxy.ask("GET", "/")
        labels = f'upstream="default",server="127.0.0.1:{upstream.port}"'

        assert 3 == proxy.metric(f'ratelimit_upstream_requests_total{{{labels},outcome="2xx"}}')
        assert 0 == proxy.metric(f"ratelimit_upstream_in_flight{{{labels}}}")
        assert 1 == proxy.metric(f"ratelimit_upstream_up{{{labels}}}")
        assert 3 == proxy.metric('ratelimit_upstream_duration_seconds_count{upstream="default"}')
        assert 1 <= proxy.metric(f"ratelimit_upstream_connections_total{{{labels}}}") <= 3
