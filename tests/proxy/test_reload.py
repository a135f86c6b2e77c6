"""
Upstreams and routes that change while requests run, by a file, a signal or a name.
"""

from __future__ import annotations

import http.client
import shutil
import signal
import ssl
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import websockets.exceptions
import websockets.sync.client

from tidegate.proxy import Proxy, load, native

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.proxy.load import Load
    from tests.proxy.proxying import NO_RULES, SETTINGS, Running, ask
    from tests.proxy.upstream import Upstream
    from tests.servers import certificates
    from tests.servers.process import new_folder
    from tests.servers.tls import Certificates
    from tests.servers.waiting import until
else:
    from load import Load
    from proxying import NO_RULES, SETTINGS, Running, ask
    from servers import certificates
    from servers.process import new_folder
    from servers.waiting import until
    from upstream import Upstream

LOADED = 'ratelimit_upstream_reloads_total{result="loaded"}'
FAILED = 'ratelimit_upstream_reloads_total{result="failed"}'


def settings_for(*servers: Upstream, more: str = "") -> str:
    """A file of settings with one group."""
    return f"upstreams: [{', '.join(server.url for server in servers)}]\nupstream: {{slow_start: 0s}}\n{more}"


def wait_for(proxy: Running, loads: int, new: Upstream) -> None:
    """Until so many files were loaded, and the new server got requests since."""
    until(lambda: proxy.metric(LOADED) == loads, 20, "the file is in force")
    before = new.count
    until(lambda: new.count > before + 5, 20, "it gets requests")


@pytest.mark.parametrize("by", ["watch", "signal"])
def test_a_reload_under_load_loses_nothing(by: str) -> None:
    """Servers are exchanged again and again, by a saved file or by SIGHUP: every request is answered, and the new ones answer."""
    more = f"watch: {'true' if by == 'watch' else 'false'}\n"
    with Upstream() as one, Upstream() as other, Running([], config=settings_for(one, more=more)) as proxy, Load(proxy.address) as load:
        for number in range(1, 7):
            new = other if number % 2 else one
            proxy.configure(settings_for(new, more=more))
            if by == "signal":
                proxy.send(signal.SIGHUP)
            wait_for(proxy, number, new)
        old = one.count if new is other else other.count
        load.more(20)
        assert old == (one.count if new is other else other.count), "who is no longer named gets nothing"

    assert [] == load.failed


def test_a_bad_file_is_refused_and_the_old_one_stays(upstream: Upstream, eventually: Eventually) -> None:
    """It is counted and told in `/readyz`, with its place in the log, until the file is right again."""
    with Running([], config=settings_for(upstream)) as proxy:
        proxy.configure("upstreams: [http://a/b, ftp://c]\nroutes: everywhere\n")
        eventually(lambda: proxy.metric(FAILED) == 1)
        assert 200 == proxy.ask("GET", "/").status
        assert ["upstreams_not_reloaded"] == proxy.reasons()
        assert 1 == proxy.metric("ratelimit_upstreams_stale")
        assert "tidegate.yaml:1:" in proxy.log

        proxy.configure(f"upstreams: [{upstream.url}]\ntop: {{size: 7}}\n")
        eventually(lambda: proxy.metric(LOADED) == 1)
        assert [] == proxy.reasons()
        eventually(lambda: "need a new start: top.size" in proxy.log)


def test_a_signal_with_no_servers_in_the_file_ends_nothing(upstream: Upstream, eventually: Eventually) -> None:
    """`upstreams: {}` names nobody to forward to: it is refused as any other mistake, and the process lives on."""
    with Running([], config=settings_for(upstream), settings={"shutdown.limit": "5s"}, environment={"TIDEGATE_WATCH": "false"}) as proxy:
        proxy.configure("upstreams: {}\n")
        proxy.send(signal.SIGHUP)
        eventually(lambda: not proxy.process.is_running or proxy.metric(FAILED) == 1)
        assert proxy.process.is_running, proxy.log
        assert 200 == proxy.ask("GET", "/").status
        assert ["upstreams_not_reloaded"] == proxy.reasons()
        assert "there is no group of servers" in proxy.log

        proxy.configure(settings_for(upstream))
        proxy.send(signal.SIGHUP)
        eventually(lambda: proxy.metric(LOADED) == 1)
        assert [] == proxy.reasons()


def test_a_failure_that_nobody_thought_of_is_refused_too(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong while settings are read again is counted, told in `/readyz` and logged, and what is in force stays."""
    (tmp_path / "rules.yaml").write_text(NO_RULES, encoding="utf-8")
    flags = {key: str(value) for key, value in SETTINGS.items()}
    settings = load(environment={}, flags={**flags, "upstreams": upstream.url, "rules": str(tmp_path / "rules.yaml")})
    with Proxy(settings) as proxy:
        monkeypatch.setattr(native, "to_proxy_document", broken)
        assert None is proxy.reload(), "the rules are right"
        (reason,) = ask(proxy.addresses["http"], "GET", "/readyz").json["reasons"]
        page = ask(proxy.addresses["http"], "GET", "/metrics").body.decode()
        status = ask(proxy.addresses["proxy"], "GET", "/").status

    assert ("upstreams_not_reloaded", 200) == (reason["code"], status)
    assert f"{FAILED} 1" in page
    assert "those in force stay: the settings cannot be loaded: IndexError: nobody thought of it" in caplog.text


def broken(*_: object, **__: object) -> dict[str, Any]:
    """What nobody thought of."""
    raise IndexError("nobody thought of it")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        pytest.param(
            "access_log: {to: stdout, format: common, query: true}\n", "access_log.to, access_log.format, access_log.query", id="log"
        ),
        pytest.param("proxy: {proxy_protocol: [10.0.0.0/24]}\n", "proxy.proxy_protocol", id="proxy-protocol"),
    ],
)
def test_what_needs_a_new_start_is_said(upstream: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture, more: str, said: str) -> None:
    """Who changes how connections begin, or the access log, is not left to believe that it is in force."""
    (tmp_path / "rules.yaml").write_text(NO_RULES, encoding="utf-8")
    config = tmp_path / "tidegate.yaml"
    config.write_text(settings_for(upstream), encoding="utf-8")
    flags: dict[str, str | bool | None] = {key: str(value) for key, value in SETTINGS.items()}
    with Proxy(load(config, environment={}, flags={**flags, "rules": str(tmp_path / "rules.yaml"), "watch": False})) as proxy:
        config.write_text(settings_for(upstream, more=more), encoding="utf-8")
        assert None is proxy.reload_upstreams()

    assert f"changed settings that need a new start: {said}\n" in caplog.text


def test_what_runs_ends_and_what_is_known_stays(eventually: Eventually) -> None:
    """A download from a server that is taken away ends whole, and a server that is ejected stays so over a reload."""
    more = "shutdown: {grace: 0s}\n"
    eject = "upstream: {eject_after: 1, eject_time: 1h, eject_time_max: 1h}\n"
    with Upstream() as one, Upstream() as other, Upstream() as gone:
        listed = f"{one.url}, {gone.url}"
        with Running([], config=f"upstreams: [{listed}]\n{eject}{more}") as proxy:
            gone.process.kill()
            assert {200} == {proxy.ask("GET", "/").status for _ in range(4)}
            assert 1 == proxy.metric('ratelimit_upstream_servers{upstream="default",state="ejected"}')
            with Load(proxy.address, threads=2, path="/stream/400") as load:
                load.more(2)
                proxy.configure(f"upstreams: [{other.url}, {gone.url}]\n{eject}{more}")
                eventually(lambda: proxy.metric(LOADED) == 1)
                load.more(4)
            still = proxy.metric('ratelimit_upstream_servers{upstream="default",state="ejected"}')

    assert [] == load.failed
    assert 1 == still


def test_a_web_socket_outlives_the_removal_of_its_server(eventually: Eventually) -> None:
    """New requests go to the new server, and the old one is still there for who talks to it."""
    with (
        Upstream() as old,
        Upstream() as new,
        Running([], config=settings_for(old)) as proxy,
        websockets.sync.client.connect(proxy.address.replace("http", "ws"), proxy=None) as client,
    ):
        client.send("before")
        assert "before" == client.recv(timeout=20)
        proxy.configure(settings_for(new))
        eventually(lambda: proxy.metric(LOADED) == 1)
        assert {new.process.pid} == {proxy.ask("GET", "/").json["process"] for _ in range(4)}
        for message in ("after", "x" * 200_000):
            client.send(message)
            assert message == client.recv(timeout=20)
        old.process.kill()
        with pytest.raises(websockets.exceptions.ConnectionClosed):
            client.recv(timeout=20)


def test_routes_change_too(upstream: Upstream, eventually: Eventually) -> None:
    """A path that led nowhere leads somewhere after the file was saved."""
    with Running([], config=f"upstreams: {{app: {upstream.url}}}\nroutes: [{{path: /a, upstream: app}}]\n") as proxy:
        assert [200, 404] == [proxy.ask("GET", path).status for path in ("/a", "/b")]
        proxy.configure(f"upstreams: {{app: {upstream.url}}}\nroutes: [{{path: /b, upstream: app}}]\n")
        eventually(lambda: proxy.metric(LOADED) == 1)
        assert [404, 200] == [proxy.ask("GET", path).status for path in ("/a", "/b")]


def test_rules_change_under_load(upstream: Upstream) -> None:
    """A saved file of rules is in force for the next requests, one with a mistake is not, and no request fails on the way."""
    with Running([upstream.url]) as proxy, Load(proxy.address, 2) as load:
        load.more(5)
        proxy.rule("version: 1\nrules: [{name: few, per: global, quotas: 3/hour}]\n")
        load.sees(429)
        proxy.rule("version: 1\nrules: [{name: few, quotas: many}]\n")
        until(lambda: proxy.metric('ratelimit_rule_reloads_total{result="failed"}') == 1, 20, "the mistake is noticed")
        load.sees(429)
        proxy.rule("version: 1\nrules: []\n")
        load.sees(200)

    assert {200, 429} == set(load.statuses)


def test_certificates_change_without_a_restart(upstream: Upstream, tmp_path: Path, eventually: Eventually) -> None:
    """New files of the same names are shown to the next client, and a connection from before goes on."""
    cert, key, old, new = tmp_path / "cert", tmp_path / "key", certificates(), certificates(("new",))

    def install(made: Certificates) -> None:
        for source, target in ((made.server_key, key), (made.server_cert, cert)):
            shutil.copy(source, target.with_suffix(".new"))
            target.with_suffix(".new").replace(target)

    install(old)
    with Running([upstream.url], settings={"proxy.tls.cert": cert, "proxy.tls.key": key}) as proxy:
        host, _, port = proxy.address.rpartition("/")[2].partition(":")
        connection = http.client.HTTPSConnection(host, int(port), context=ssl.create_default_context(cafile=old.ca), timeout=30)
        connection.request("GET", "/")
        before = connection.getresponse().read()
        install(new)
        shown = ssl.PEM_cert_to_DER_cert(new.server_cert.read_text(encoding="ascii"))
        eventually(lambda: ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((host, int(port)))) == shown)
        connection.request("GET", "/")
        after = connection.getresponse().read()
        connection.close()

    assert before
    assert after, "the connection from before"


def test_a_name_is_followed(eventually: Eventually) -> None:
    """All addresses of a name get requests; when it leads elsewhere they go there, and when it leads nowhere they go where they went."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: make names lead elsewhere needs one")
    folder = new_folder("names")
    library, hosts = folder / "getaddrinfo.so", folder / "hosts"
    source = Path(__file__).parent / "getaddrinfo.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, timeout=60)
    with Upstream() as one, Upstream(host="127.0.0.2", port=one.port) as other, Upstream(host="127.0.0.3", port=one.port) as third:
        hosts.write_text("127.0.0.1\n127.0.0.2\n", encoding="ascii")
        environment = {"LD_PRELOAD": str(library), "TEST_HOSTS": str(hosts)}
        settings = {"upstream.resolve_interval": "100ms", "upstream.slow_start": "0s"}
        with Running([f"http://app.test:{one.port}"], settings=settings, environment=environment) as proxy, Load(proxy.address, 2) as load:
            load.more(20)
            # Requests go on while the counts are read, one after the other.
            before, others, after = one.count, other.count, one.count
            assert before - 2 <= others <= after + 2, "they take turns"

            hosts.write_text("127.0.0.3\n", encoding="ascii")
            eventually(lambda: third.count > 5)
            hosts.unlink()
            eventually(lambda: proxy.metric("ratelimit_upstream_unresolved_total") > 1)
            before = third.count
            load.more(20)
            assert third.count >= before + 15

    assert [] == load.failed
