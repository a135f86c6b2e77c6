"""
The page of metrics of a real service, read by others.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.servers import Single
    from tests.service.running import ask, here
    from tidegate.service import Service
else:
    from running import ask, here
    from servers import Single

DOCUMENT = Path(__file__).parents[2] / "docs/reference/metrics.md"
RULES = """
version: 1
rules:
  - {name: strict, per: client, quotas: 2/hour}
  - {name: tried, per: client, quotas: 1/hour, mode: shadow}
"""
CHECK = "/api/v1/rate-limit/check"


def page(service: Service) -> str:
    """
    The page as Prometheus would get it.
    """
    answer = ask(f"http://{service.addresses['http']}", "GET", "/metrics")
    assert (200, "text/plain; version=0.0.4; charset=utf-8") == (answer.status, answer.headers["content-type"])
    return answer.body.decode()


def samples(service: Service) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """
    Its samples, read by Prometheus' own client.
    """
    families = text_string_to_metric_families(page(service))
    return {(sample.name, frozenset(sample.labels.items())): sample.value for family in families for sample in family.samples}


def sample(service: Service, name: str, **labels: str) -> float:
    """
    One of them.
    """
    return samples(service)[name, frozenset(labels.items())]


def check(service: Service, client: str) -> bool:
    """
    Asks whether a client may pass.
    """
    answer = ask(f"http://{service.addresses['http']}", "POST", CHECK, {"client_id": client})
    assert 200 == answer.status, answer.body
    return bool(answer.json["allowed"])


def documented(*, without: str) -> set[tuple[str, str, frozenset[str]]]:
    """
    Metrics of the document with their types and labels, but for a section and what only a proxy has.
    """
    sections = re.split(r"^## ", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    rows = [
        row
        for section in sections
        if not section.startswith((without, "Servers behind the proxy"))
        for row in re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \|", section, re.MULTILINE)
    ]
    # Those that only appear with a setting.
    optional = ("spans_dropped", "access_log_lines", "access_log_dropped", "events", "events_dropped")
    others = {f"ratelimit_{name}_total" for name in optional}
    return {(name, kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows if name not in others}


def served(text: str) -> set[tuple[str, str, frozenset[str]]]:
    """
    Metrics of a page with their types and labels.
    """
    return {
        (
            family.name + ("_total" if family.type == "counter" else ""),
            family.type,
            frozenset(label for found in family.samples for label in found.labels if label != "le"),
        )
        for family in text_string_to_metric_families(text)
    }


def test_decisions_are_counted_by_rule_and_outcome() -> None:
    """What was answered is what is counted."""
    with here(RULES) as service:
        answers = [check(service, "alice") for _ in range(5)]
        found = samples(service)

    assert [True, True, False, False, False] == answers
    decided = {
        (rule, outcome): found["ratelimit_decisions_total", frozenset({("rule", rule), ("outcome", outcome)})]
        for rule in ("strict", "tried")
        for outcome in ("allowed", "denied", "shadow_denied")
    }
    assert {
        ("strict", "allowed"): 2,
        ("strict", "denied"): 3,
        ("strict", "shadow_denied"): 0,
        ("tried", "allowed"): 1,
        ("tried", "denied"): 0,
        ("tried", "shadow_denied"): 4,
    } == decided
    assert 5 == found["ratelimit_check_duration_seconds_count", frozenset({("protocol", "http")})]
    assert 5 <= found["ratelimit_requests_total", frozenset({("protocol", "http"), ("code", "200")})]


def test_descriptors_are_counted_by_the_path_of_their_limit() -> None:
    """Files of the reference service have limits without names; values of descriptors are not shown."""
    rules = "domain: shop\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1}}]\n"
    with here(rules) as service:
        address = f"http://{service.addresses['http']}"
        question = {"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}
        statuses = [ask(address, "POST", "/json", question).status for _ in range(3)]
        found, text = samples(service), page(service)

    assert [200, 429, 429] == statuses
    assert 2 == found["ratelimit_decisions_total", frozenset({("rule", "shop.user"), ("outcome", "denied")})]
    assert 2 == found["ratelimit_checks_total", frozenset({("protocol", "json"), ("outcome", "denied")})]
    assert "alice" not in text


def test_sub_requests_of_gateways_are_counted_apart() -> None:
    """They have a protocol of their own."""
    with here(RULES) as service:
        headers = {"x-forwarded-method": "GET", "x-forwarded-uri": "/", "x-forwarded-for": "192.0.2.1"}
        answer = ask(f"http://{service.addresses['http']}", "GET", "/api/v1/rate-limit/forward-auth", headers=headers)
        found = samples(service)

    assert 200 == answer.status
    assert 1 == found["ratelimit_requests_total", frozenset({("protocol", "forward_auth"), ("code", "200")})]
    assert 1 == found["ratelimit_checks_total", frozenset({("protocol", "forward_auth"), ("outcome", "allowed")})]


def test_the_document_is_complete_for_a_store_in_the_process() -> None:
    """Every metric is documented, with its type and its labels."""
    with here(RULES) as service:
        check(service, "alice")
        text = page(service)

    assert documented(without="Shared store") == served(text)


def test_the_document_is_complete_for_a_shared_store(server: Single, eventually: Eventually) -> None:
    """The same where the counters are elsewhere."""
    with here(RULES, {"store": server.url(), "budget": "10s"}) as service:
        check(service, "alice")
        eventually(lambda: sample(service, "ratelimit_instances") >= 1)
        text, trips = page(service), sample(service, "ratelimit_store_round_trips_total")

    assert documented(without="Counters of this process") == served(text)
    assert trips >= 1


def test_promtool_has_nothing_to_say() -> None:
    """Names and units are as Prometheus likes them."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    with here(RULES) as service:
        check(service, "alice")
        text = page(service)
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)

    assert (0, "", "") == (checked.returncode, checked.stdout, checked.stderr)


def test_a_store_that_goes_away_is_seen(eventually: Eventually) -> None:
    """The breaker opens, calls fail, and decisions go on without the store."""
    with Single() as own_server, here(RULES, {"store": own_server.url(), "on_store_error": "allow"}) as service:
        check(service, "alice")
        own_server.kill()

        def is_open() -> bool:
            check(service, "bob")
            found = samples(service)
            return max(value for (name, _), value in found.items() if name == "ratelimit_circuit_state") == 3

        eventually(is_open)
        found = samples(service)

    failed = sum(value for (name, _), value in found.items() if name == "ratelimit_redis_errors_total")
    degraded = sum(value for (name, _), value in found.items() if name == "ratelimit_degraded_total")
    allowed = sum(value for (name, _), value in found.items() if name == "ratelimit_failopen_total")
    assert failed >= 5
    assert degraded == allowed >= 5


def test_reloads_are_counted() -> None:
    """Good ones and bad ones; and a bad one leaves a mark until it is mended."""
    with here(RULES) as service:
        file = service.settings["rules"]
        file.write_text("rules: [{name: strict}]\n", encoding="utf-8")
        service.reload()
        failed = sample(service, "ratelimit_rule_reloads_total", result="failed"), sample(service, "ratelimit_rules_stale")
        file.write_text(RULES, encoding="utf-8")
        service.reload()
        loaded = sample(service, "ratelimit_rule_reloads_total", result="loaded"), sample(service, "ratelimit_rules_stale")
        generation = sample(service, "ratelimit_rule_generation")

    assert [1, 1, 1, 0, 2] == [*failed, *loaded, generation]


def test_the_page_does_not_grow_by_what_clients_send() -> None:
    """Neither by clients, nor by paths, nor by attributes, nor by garbage."""
    with here(RULES) as service:
        address = f"http://{service.addresses['http']}"
        check(service, "alice")
        ask(address, "GET", "/nothing")
        ask(address, "POST", CHECK, b"garbage")
        before = set(samples(service))
        for number in range(100):
            check(service, f"client {number}")
            ask(address, "GET", f"/nothing/{number}")
            ask(address, "POST", CHECK, {"client_id": "x", "attributes": {f"name{number}": "value"}})
        after = set(samples(service))

    assert before == after
