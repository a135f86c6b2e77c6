"""
The settings of the proxy: one table for file, flags and variables, and every mistake with its place.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.cli import run
from tidegate.proxy import load
from tidegate.proxy.native import to_proxy_document
from tidegate.proxy.table import TABLE
from tidegate.service import SettingsError, describe

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with rules."""
    (tmp_path / "rules.yaml").write_text("version: 1\nrules: []\n", encoding="utf-8")
    return tmp_path


def document_of(folder: Path, text: str = "", environment: dict[str, str] | None = None, **flags: str) -> Any:  # noqa: ANN401  # JSON
    """The section for Rust that settings make."""
    (folder / "tidegate.yaml").write_text(f"rules: rules.yaml\n{text}", encoding="utf-8")
    return to_proxy_document(load(folder / "tidegate.yaml", environment=environment or {}, flags=flags))["proxy"]


def test_one_list_of_servers_is_one_group_for_everything(folder: Path) -> None:
    """From a file, a variable or flags alike."""
    servers = ["http://10.0.0.1:8000", "http://app"]
    by_file = document_of(folder, f"upstreams: {json.dumps(servers)}\n")
    by_variable = document_of(folder, environment={"TIDEGATE_UPSTREAMS": ",".join(servers)})
    by_flag = document_of(folder, upstreams=", ".join(servers))

    assert by_file == by_variable == by_flag
    told = [{"url": server, "weight": 1} for server in servers]
    assert [("default", told)] == [(group["name"], group["servers"]) for group in by_file["upstreams"]]
    assert [{"hosts": [], "path": "/", "upstream": "default", "rewrite": None}] == by_file["routes"]
    assert {"tcp": {"host": "127.0.0.1", "port": 8000}} == by_file["listener"]["listen"]


def test_groups_have_what_they_say_and_else_what_all_have(folder: Path) -> None:
    """`upstream.x` holds for all groups, and a group can say it again."""
    text = """
upstream: {idle_timeout: 7s, host: rewrite}
upstreams:
  app: [http://a:1]
  search: {servers: https://b:2, idle_timeout: 500ms, protocol: http2, tls_ca: ca.pem}
routes:
  - {hosts: [shop.example.com, "*.example.com"], path: /search, rewrite: /, upstream: search}
  - {upstream: app}
"""
    found = document_of(folder, text)

    app, search = found["upstreams"]
    assert ("app", 7.0, "rewrite", "http1") == (app["name"], app["idle_timeout"], app["host"], app["protocol"])
    assert ("search", 0.5, "rewrite", "http2") == (search["name"], search["idle_timeout"], search["host"], search["protocol"])
    assert ([{"url": "https://b:2", "weight": 1}], str(folder / "ca.pem"), None) == (search["servers"], search["tls_ca"], app["tls_ca"])
    first, second = found["routes"]
    assert {"hosts": ["shop.example.com", "*.example.com"], "path": "/search", "rewrite": "/", "upstream": "search"} == first
    assert ([], "/") == (second["hosts"], second["path"])


def test_weights_and_health_are_told(folder: Path) -> None:
    """A weight stands behind its server, also in a flag; checks and ejection are sections for Rust."""
    text = """
upstream: {check_path: /healthz, eject_on: 5xx}
upstreams:
  app: {servers: [http://a:1 weight 3, http://b:1], check_status: "200, 300-399", eject_after: 2, balance: least_requests}
  plain: http://c
routes: [{upstream: app}]
"""
    app, plain = document_of(folder, text)["upstreams"]
    (by_flag,) = document_of(folder, upstreams="http://a:1 weight 3, http://b:1")["upstreams"]

    assert [{"url": "http://a:1", "weight": 3}, {"url": "http://b:1", "weight": 1}] == app["servers"] == by_flag["servers"]
    assert ("/healthz", ((200, 200), (300, 399))) == (app["check"]["path"], app["check"]["status"])
    assert {"after": 2, "time": 5.0, "time_max": 300.0, "counts_5xx": True} == app["ejection"]
    assert ("least_requests", "round_robin", 5) == (app["balance"], plain["balance"], plain["ejection"]["after"])
    assert None is by_flag["check"]


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        pytest.param("", "missing-key", None, id="no-upstreams"),
        pytest.param("upstreams: {}\n", "empty-mapping", 2, id="no-groups"),
        pytest.param("upstreams: [http://a/path]\n", "bad-upstream", 2, id="path"),
        pytest.param("upstreams: ['http://1.2.3.400:1']\n", "bad-upstream", 2, id="no-ipv4"),
        pytest.param("upstreams: ['http://10.1:80']\n", "bad-upstream", 2, id="short-ipv4"),
        pytest.param("upstreams: ['http://[1:2:3:4:5:6:7:8:9]:80']\n", "bad-upstream", 2, id="no-ipv6"),
        pytest.param("upstreams: ['http://[....]:80']\n", "bad-upstream", 2, id="dots-in-brackets"),
        pytest.param("upstreams: [http://a..b]\n", "bad-upstream", 2, id="nothing-between-dots"),
        pytest.param("upstream: http://a\n", "wrong-type", 2, id="section-for-a-value"),
        pytest.param("upstreams: [ftp://a]\n", "bad-upstream", 2, id="scheme"),
        pytest.param("upstreams: [http://a:99999]\n", "bad-upstream", 2, id="port"),
        pytest.param("upstreams: ['http://u:p@a']\n", "bad-upstream", 2, id="user"),
        pytest.param("upstreams: [http://a weight 0]\n", "bad-upstream", 2, id="weight"),
        pytest.param("upstreams: [http://a, HTTP://a]\n", "bad-upstream", 2, id="upper-case"),
        pytest.param("upstreams: [http://a, http://b, https://A]\n", "given-twice", 2, id="twice"),
        pytest.param("upstreams: http://a\nupstream: {check_path: healthz}\n", "bad-path", 3, id="check-path"),
        pytest.param("upstreams: http://a\nupstream: {check_status: 200-100}\n", "bad-status", 3, id="check-status"),
        pytest.param("upstreams: http://a\nupstream: {balance: random}\n", "unknown-choice", 3, id="balance"),
        pytest.param("upstreams: http://a\nupstream: {panic_below: 2}\n", "out-of-range", 3, id="panic"),
        pytest.param("upstreams: http://a\nupstream: {eject_time: 10m}\n", "out-of-range", 3, id="ejection"),
        pytest.param("upstreams: http://a\nupstream: {tls_cert: a.pem}\n", "missing-key", 3, id="certificate-without-key"),
        pytest.param("upstreams: {1a: [http://a]}\n", "bad-name", 2, id="name"),
        pytest.param("upstreams: {a: {protocol: http1}}\n", "missing-key", 2, id="no-servers"),
        pytest.param("upstreams: {a: {servers: http://a, retrys: 1}}\n", "unknown-key", 2, id="unknown-option"),
        pytest.param("upstreams: {a: {servers: http://a, retries: many}}\n", "not-a-whole-number", 2, id="wrong-option"),
        pytest.param("upstreams: {a: http://a, b: http://b}\n", "missing-key", 2, id="no-routes"),
        pytest.param("upstreams: {a: http://a}\nroutes: [{upstream: b}]\n", "unknown-upstream", 3, id="unknown-group"),
        pytest.param("upstreams: {a: http://a}\nroutes: [{path: api, upstream: a}]\n", "bad-path", 3, id="bad-path"),
        pytest.param("upstreams: {a: http://a}\nroutes: [{path: /a?b, upstream: a}]\n", "bad-path", 3, id="query"),
        pytest.param("upstreams: {a: http://a}\nroutes: [{hosts: 'a:80', upstream: a}]\n", "bad-host", 3, id="bad-host"),
        pytest.param("upstreams: {a: http://a}\nroutes: [{paths: /a, upstream: a}]\n", "unknown-key", 3, id="unknown-key"),
        pytest.param("upstreams: {a: http://a}\nroutes: [{path: /a}]\n", "missing-key", 3, id="leads-nowhere"),
        pytest.param("upstreams: {a: http://a}\nroutes: {upstream: a}\n", "wrong-type", 3, id="no-list"),
        pytest.param(
            "upstreams: {a: http://a, b: http://b}\nroutes:\n- {path: /x, upstream: a}\n- {path: /x/, upstream: b}\n",
            "given-twice",
            5,
            id="same-path",
        ),
        pytest.param(
            "upstreams: {a: http://a, b: http://b}\nroutes:\n- {hosts: [c, D], upstream: a}\n- {hosts: d, upstream: b}\n",
            "given-twice",
            5,
            id="same-host",
        ),
        pytest.param("upstreams: http://a\nproxy: {request_id: Host}\n", "bad-header", 3, id="request-id-is-host"),
        pytest.param("upstreams: http://a\nproxy: {request_id: x-forwarded-for}\n", "bad-header", 3, id="request-id-is-forwarded"),
        pytest.param("upstreams: http://a\nproxy: {cost_header: content-length}\n", "bad-header", 3, id="cost-is-length"),
        pytest.param("upstreams: http://a\nproxy: {cost_header: transfer-encoding}\n", "bad-header", 3, id="cost-is-coding"),
        pytest.param("upstreams: http://a\nproxy: {listen: off}\n", "nothing-listens", 3, id="off"),
        pytest.param("upstreams: http://a\nproxy: {listen: '127.0.0.1:8080'}\n", "same-address", 3, id="same-address"),
        pytest.param("upstreams: http://a\nproxy: {cost_header: 'x cost'}\n", "bad-header", 3, id="bad-header"),
    ],
)
def test_a_mistake_is_told_with_its_place(folder: Path, text: str, code: str, line: int | None) -> None:
    """Once, with the line in the file."""
    with pytest.raises(SettingsError) as caught:
        document_of(folder, text)

    problems = caught.value.problems
    assert [code] == [problem.code for problem in problems]
    assert line is None or f"tidegate.yaml:{line}:" in problems[0].where


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param("upstreams: [http://a:0]", "write a port from 1 to 65535", id="port"),
        pytest.param("upstreams: ['http://a:']", "write a port from 1 to 65535", id="no-port"),
        pytest.param("upstreams: ['http://1.2.3.400']", "write four numbers from 0 to 255", id="address"),
        pytest.param("upstream: http://a", "did you mean `upstreams`?", id="section"),
        pytest.param("upstreams: [{url: 'http://a:1', weight: 3}]", "write http://a:1 weight 3", id="mapping"),
        pytest.param("upstreams: [{host: a}]", "write http://10.0.0.1:8000 weight 3", id="other-mapping"),
        pytest.param("upstreams: {a: http://a}\nroutes: [{hosts: '*', upstream: a}]", "leave `hosts` out", id="all-hosts"),
        pytest.param("upstreams: http://a\nproxy: {listen: here}", "[::1]:8080 or unix:/run/tidegate.sock", id="listen"),
    ],
)
def test_a_mistake_has_a_hint_of_its_own(folder: Path, text: str, hint: str) -> None:
    """It says what to write instead."""
    with pytest.raises(SettingsError) as caught:
        document_of(folder, f"{text}\n")

    (problem,) = caught.value.problems
    assert hint in str(problem.hint)
    assert "off" not in str(problem.hint)


@pytest.mark.parametrize("way", ["file", "mapping", "flag"])
def test_a_password_is_refused_and_not_shown(folder: Path, way: str) -> None:
    """Not even a part of it, whatever is in it; the hint has the address without it."""
    url = "https://user:hush,hush:90@x@app:8000"
    text = {"file": f"upstreams: ['{url}']\n", "mapping": f"upstreams: [{{url: '{url}', weight: 2}}]\n", "flag": ""}[way]
    flags = {"upstreams": f"http://b, {url}, http://c"} if way == "flag" else {}
    with pytest.raises(SettingsError) as caught:
        document_of(folder, text, None, **flags)

    assert "hush" not in str(caught.value)
    assert "user:" not in str(caught.value)
    assert way == "mapping" or "hint: write https://app:8000;" in str(caught.value)


def test_a_slash_behind_the_host_is_no_path(folder: Path) -> None:
    """Browsers and humans write it; it is the same server as without."""
    by_flag = document_of(folder, upstreams="http://a:8000/, http://[::1]/ weight 2")["upstreams"][0]["servers"]

    assert [{"url": "http://a:8000", "weight": 1}, {"url": "http://[::1]", "weight": 2}] == by_flag
    with pytest.raises(SettingsError, match="given-twice"):
        document_of(folder, upstreams="http://a:8000/, http://a:8000")


def test_all_mistakes_of_routes_are_told_at_once(folder: Path) -> None:
    """A route to nowhere also while another has a problem of its own."""
    text = "upstreams: {a: http://a}\nroutes: [{path: api, upstream: a}, {path: /b, upstream: b}]\n"
    with pytest.raises(SettingsError) as caught:
        document_of(folder, text)

    assert ["bad-path", "unknown-upstream"] == [problem.code for problem in caught.value.problems]


@pytest.mark.parametrize("who", ["--upstream", "TIDEGATE_UPSTREAMS"])
def test_who_replaces_the_groups_of_a_file_is_told(folder: Path, who: str) -> None:
    """The routes are right for the file, and lead nowhere for the flag."""
    given = {"upstreams": "http://b"} if who == "--upstream" else {}
    variables = {} if given else {"TIDEGATE_UPSTREAMS": "http://b"}
    with pytest.raises(SettingsError) as caught:
        document_of(folder, "upstreams: {a: http://a}\nroutes: [{upstream: a}]\n", variables, **given)

    (problem,) = caught.value.problems
    assert f"{who} took the place of the groups in the file, with one called `default`" in str(problem.hint)


def test_a_missing_file_is_one_problem(folder: Path) -> None:
    """What it would have said is not missing too."""
    with pytest.raises(SettingsError) as caught:
        load(folder / "nowhere.yaml", environment={})

    assert ["file-missing"] == [problem.code for problem in caught.value.problems]


def test_a_group_without_requests_is_warned_of(folder: Path) -> None:
    """It may be there for later, so it is no error."""
    config = folder / "tidegate.yaml"
    config.write_text("rules: rules.yaml\nupstreams: {a: http://a, b: http://b}\nroutes: [{upstream: a}]\n", encoding="utf-8")

    assert ("no route leads to the group `b`: its servers get no requests",) == load(config, environment={}).warnings


def test_the_help_names_every_variable(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of options that are not made from the table too."""
    monkeypatch.setenv("COLUMNS", "240")
    assert 0 == run(["proxy", "--help"])
    output = capsys.readouterr().out

    assert [] == [setting.key for setting in TABLE.values() if setting.key != "routes" and setting.variable not in output]
    assert all(f"[env: {variable}]" in output for variable in ("TIDEGATE_CONFIG", "TIDEGATE_UPSTREAMS"))


def test_routes_are_no_variable(folder: Path) -> None:
    """They are more than a text can say."""
    with pytest.raises(SettingsError, match="not-here"):
        document_of(folder, "upstreams: http://a\n", {"TIDEGATE_ROUTES": "everywhere"})


def test_every_setting_is_in_the_schema(folder: Path) -> None:
    """An editor knows all of them, with the structured ones."""
    schema = describe.json_schema(TABLE)

    assert {"proxy", "upstreams", "upstream", "routes", "rules", "http"} <= set(schema["properties"])
    group = schema["properties"]["upstreams"]["anyOf"][2]["additionalProperties"]["anyOf"][2]
    assert {key.removeprefix("upstream.") for key in TABLE if key.startswith("upstream.")} <= set(group["properties"])
    assert folder.exists()


def test_the_command_checks_and_shows(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`--check` says that all is right, `--show` every setting, and mistakes have an exit code."""
    monkeypatch.chdir(folder)
    words = ["proxy", "--rules", "rules.yaml", "--upstream", "http://10.0.0.1:8000", "--upstream", "http://10.0.0.2"]
    assert 0 == run([*words, "--check"])
    assert "settings and rules are right: no rules" in capsys.readouterr().out
    assert 0 == run([*words, "--show"])
    assert "upstreams: default: http://10.0.0.1:8000, http://10.0.0.2  # --upstream" in capsys.readouterr().out
    assert 1 == run(["proxy", "--rules", "rules.yaml", "--check"])
    assert "there is nowhere to forward to" in capsys.readouterr().err
    assert 1 == run([*words, "--upstream", "https://10.0.0.3", "--upstream-tls-ca", "rules.yaml", "--check"])
    assert "rules.yaml has no certificate in it" in capsys.readouterr().err
