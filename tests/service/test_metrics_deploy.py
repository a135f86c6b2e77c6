"""
Alerts and dashboard in `deploy`: every query is PromQL and asks for metrics that exist; a real Prometheus answers it, where there is one.
"""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import promql_parser
import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tests.servers.process import Process
    from tests.service.running import ask, here
    from tidegate.service import Service
else:
    from running import ask, here
    from servers.process import Process

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy/prometheus/alerts.yaml"
ALERTS_TEST = ROOT / "deploy/prometheus/alerts_test.yaml"
CONFIG = ROOT / "deploy/prometheus/prometheus.yaml"
DASHBOARD = ROOT / "deploy/grafana/tidegate.json"
REFERENCE = ROOT / "docs/reference/metrics.md"
RUNBOOKS = ROOT / "docs/operating/monitoring.md"
RULES = "version: 1\nrules: [{name: strict, per: client, quotas: 2/hour}]\n"
VARIABLES = {"$__rate_interval": "1m", "$instance": ".*"}


def rules() -> list[dict[str, Any]]:
    """
    The alerts.
    """
    return [rule for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """
    The panels that ask something.
    """
    return [panel for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"] if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str]]:
    """
    Every query with where it stands, as Grafana or Prometheus would put it.
    """
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            query = target["expr"]
            for variable, value in VARIABLES.items():
                query = query.replace(variable, value)
            yield panel["title"], query


QUERIES = list(queries())
IDS = [where for where, _ in QUERIES]


def metrics_of(query: str) -> set[str]:
    """
    The metrics that a query asks for.
    """
    return {name for name in re.findall(r"[a-z_]+", query) if name.startswith(("ratelimit_", "process_")) or name == "up"}


def tool(name: str) -> str:
    """
    A program of Prometheus, where it is installed.
    """
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install prometheus")
    return found


@pytest.mark.parametrize("query", [query for _, query in QUERIES], ids=IDS)
def test_every_query_is_promql(query: str) -> None:
    """Alerts and panels can be parsed."""
    assert promql_parser.parse(query) is not None


@pytest.mark.parametrize("query", [query for _, query in QUERIES], ids=IDS)
def test_every_query_asks_for_metrics_that_exist(query: str) -> None:
    """The reference has them; and another test holds the reference to what is served."""
    documented = set(re.findall(r"^\| `(\w+)` \|", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)) | {"up"}
    asked = {re.sub(r"(?<=_seconds)_(bucket|sum|count)$", "", name) for name in metrics_of(query)}

    assert asked
    assert asked <= documented


def test_every_alert_says_what_to_do() -> None:
    """Each has a severity, a summary, and a heading in the page of operators."""
    headings = {heading.lower() for heading in re.findall(r"^#+ (\w+)$", RUNBOOKS.read_text(encoding="utf-8"), re.MULTILINE)}
    for rule in rules():
        assert {"summary", "description", "runbook"} == set(rule["annotations"])
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert f"docs/operating/monitoring.md#{rule['alert'].lower()}" == rule["annotations"]["runbook"]
        assert rule["alert"].lower() in headings


def test_every_alert_is_shown_to_go_off() -> None:
    """The file of cases for promtool knows all of them."""
    cases = ALERTS_TEST.read_text(encoding="utf-8")

    assert [] == [rule["alert"] for rule in rules() if rule["alert"] not in cases]


def test_alerts_go_off_when_they_should() -> None:
    """The cases are run by promtool."""
    promtool = tool("promtool")
    for words in (["check", "rules", ALERTS.name], ["test", "rules", ALERTS_TEST.name], ["check", "config", CONFIG.name]):
        done = subprocess.run([promtool, *words], cwd=ALERTS.parent, capture_output=True, text=True, check=False)
        assert 0 == done.returncode, done.stdout + done.stderr


def test_the_dashboard_is_what_its_script_writes() -> None:
    """Nobody edited the one without the other."""
    script = runpy.run_path(str(DASHBOARD.with_name("make_dashboard.py")))

    assert script["text"]() == DASHBOARD.read_text(encoding="utf-8")


def test_panels_do_not_overlap() -> None:
    """Each place of the grid belongs to one panel at most."""
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells
        assert all(x < 24 for x, _ in cells)
        taken |= cells


class Prometheus:
    """
    A real one, which reads a service often.
    """

    def __init__(self, program: str, folder: Path, service: Service) -> None:
        config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": "200ms", "evaluation_interval": "200ms"}
        config["scrape_configs"][0]["static_configs"][0]["targets"] = [service.addresses["http"]]
        config["rule_files"] = [str(ALERTS)]
        file = folder / "prometheus.yaml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        self._log = folder / "log"
        words = [program, f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}", "--web.listen-address=127.0.0.1:0"]
        self.process = Process(words, log=self._log)

    @property
    def address(self) -> str | None:
        """
        Where it listens, once it says so.
        """
        found = re.search(r'msg="?Listening on"? address=(\S+)', self._log.read_text(encoding="utf-8"))
        return f"http://{found[1]}" if found else None

    def is_ready(self) -> bool:
        """
        Whether it answers.
        """
        return self.address is not None and ask(self.address, "GET", "/-/ready").status == 200

    def groups(self) -> list[Any]:
        """
        The alerts as it sees them.
        """
        found: list[Any] = ask(str(self.address), "GET", "/api/v1/rules").json["data"]["groups"]
        return found

    def query(self, query: str) -> list[Any]:
        """
        Asks it.
        """
        assert self.address is not None
        answer = ask(self.address, "GET", "/api/v1/query?" + urllib.parse.urlencode({"query": query}))
        assert 200 == answer.status, answer.body
        assert "success" == answer.json["status"]
        result: list[Any] = answer.json["data"]["result"]
        return result


def test_every_query_is_answered_by_a_real_prometheus(tmp_path: Path, eventually: Eventually) -> None:
    """It reads a service, evaluates the alerts, and answers all panels; those about traffic with numbers."""
    program = tool("prometheus")
    with here(RULES) as service:
        http = f"http://{service.addresses['http']}"
        prometheus = Prometheus(program, tmp_path, service)
        try:
            eventually(prometheus.is_ready, within=30)

            def has_rates() -> bool:
                ask(http, "POST", "/api/v1/rate-limit/check", {"client_id": "alice"})
                return bool(prometheus.query('rate(ratelimit_checks_total{outcome="denied"}[1m]) > 0'))

            eventually(has_rates, within=30)
            eventually(lambda: {"ok"} == {rule["health"] for group in prometheus.groups() for rule in group["rules"]}, within=30)
            answered = {where: prometheus.query(query) for where, query in QUERIES}
            groups = prometheus.groups()
        finally:
            prometheus.process.kill()

    for panel in ("Decisions", "Denied", "p99", "Instances", "Denials by rule", "Answers by status", "Memory", "Connections"):
        assert answered[panel], panel
    assert {"rule": "strict"} == answered["Denials by rule"][0]["metric"]
    assert ["ok"] * len(rules()) == [rule["health"] for group in groups for rule in group["rules"]]
