"""
The command line on a shared store.
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest

from tidegate.cli.store import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Run
    from tests.servers import Cluster, Single
else:
    from servers import Single

BUDGET = ("--budget", "10s")
"""So that a slow machine does not decide without the store."""


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """
    A key that no other test counts.
    """
    return f"{request.node.nodeid}"


@pytest.fixture
def unused_url() -> Iterator[str]:
    """
    An address where nobody listens, and nobody else will: the port is taken.
    """
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"redis://127.0.0.1:{taken.getsockname()[1]}"


def test_check_charges_the_store(cli: Run, server: Single, key: str) -> None:
    """What one command took, the next one finds."""
    first = cli("check", key, "-q", "2/hour", "--times", "2", "--store", server.url(), *BUDGET)
    code, output, errors = cli("check", key, "-q", "2/hour", "--store", server.url(), *BUDGET)

    assert (0, "") == (first[0], first[2])
    assert (1, "") == (code, errors)
    assert output.splitlines()[1].startswith("denied")
    assert "degraded" not in output


def test_check_asks_rules_on_the_store(cli: Run, server: Single, key: str, tmp_path: Path) -> None:
    """With `--rules` as well."""
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\nrules:\n  - {name: per_client, per: client, quotas: 1/hour}\n", encoding="utf-8")
    asked = ("check", "--rules", str(rules), f"client={key}", "--store", server.url(), *BUDGET)

    assert 0 == cli(*asked)[0]
    assert 1 == cli(*asked)[0]


def test_check_waits_in_earnest_between_requests(cli: Run, server: Single, key: str) -> None:
    """A shared store goes by its own clock: `--every` gives it time to refill."""
    # What comes between two requests is shorter by what the first one takes.
    code, output, _ = cli("check", key, "-q", "1/100ms", "--times", "2", "--every", "1500ms", "--store", server.url(), "--json", *BUDGET)
    first, second = map(json.loads, output.splitlines())

    assert 0 == code
    assert first["at"] + 1.4 < second["at"]


@pytest.mark.parametrize(("policy", "expected"), [("local", 0), ("allow", 0), ("deny", 1)])
def test_check_shows_what_was_decided_without_the_store(cli: Run, unused_url: str, policy: str, expected: int) -> None:
    """A column with the reason, the sum, and what is wrong on standard error."""
    asked = ("check", "k", "-q", "5/minute", "--times", "2", "--store", unused_url, *BUDGET)
    code, output, errors = cli(*asked, "--on-store-error", policy)

    assert expected == code
    assert "degraded" in output.splitlines()[0]
    assert all(line.endswith("store_unavailable") for line in output.splitlines()[1:3])
    assert output.endswith("2 decided without the store\n")
    assert errors.startswith("warning: the store cannot be reached")


def test_check_tells_programs_what_was_decided_without_the_store(cli: Run, unused_url: str) -> None:
    """As two fields."""
    _, output, _ = cli("check", "k", "-q", "5/minute", "--store", unused_url, "--json", *BUDGET)

    assert {"degraded": True, "reason": "store_unavailable"}.items() <= json.loads(output).items()


def test_health_of_a_store_that_works(cli: Run, server: Single) -> None:
    """Facts first, then a table of the servers."""
    code, output, errors = cli("store", "health", server.url())
    facts = dict(line.split(maxsplit=1) for line in output.split("\n\n")[0].splitlines())

    assert (0, "") == (code, errors)
    assert ("ok", f"single {server.url()}/0") == (facts["status"], facts["store"])
    assert facts["answer"].startswith("within ")
    assert f"\n{server.address}  up     closed   " in output


def test_health_of_a_cluster_has_all_primaries(cli: Run, cluster: Cluster) -> None:
    """The servers that were not asked yet are waited for."""
    code, output, _ = cli("store", "health", cluster.url(), "--json", "--timeout", "20s")
    told = json.loads(output)

    assert (0, "ok", None) == (code, told["status"], told["answer"]["reason"])
    assert 16_384 == sum(shard["slots"] for shard in told["shards"])
    assert [True] * 3 == [shard["is_up"] for shard in told["shards"]]


def test_health_takes_the_store_from_the_environment(cli: Run, server: Single, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a password need not be an argument that every process list shows."""
    monkeypatch.setenv("TIDEGATE_STORE", server.url())

    assert 0 == cli("store", "health")[0]


def test_health_of_a_store_that_is_away(cli: Run, unused_url: str) -> None:
    """Exit code 1, and what is wrong on standard error."""
    code, output, errors = cli("store", "health", unused_url)

    assert 1 == code
    assert "status     down\n" in output
    assert "answer     store_unavailable\n" in output
    assert "Connection refused" in errors


def test_health_warns_of_a_server_that_may_forget(cli: Run) -> None:
    """It can be used, so the exit code is 0."""
    with Single(maxmemory_policy="allkeys-lru") as forgetful:
        code, _, errors = cli("store", "health", forgetful.url())

    assert 0 == code
    assert "set noeviction" in errors


def test_health_of_a_store_that_refuses_to_count(cli: Run) -> None:
    """Being connected is not enough: the question that limiters ask must be answered."""
    with Single(acl=["user limiter on >secret ~tg:* -@all +ping +info", "user default off"]) as server:
        code, output, _ = cli("store", "health", f"redis://limiter:secret@{server.address}")

    assert 1 == code
    assert "status     degraded\n" in output or "status     down\n" in output
    assert "answer     store_access\n" in output


@pytest.mark.parametrize("command", [("store", "health"), ("check", "k", "-q", "5/minute", "--store")], ids=["health", "check"])
def test_no_output_shows_a_password(cli: Run, command: tuple[str, ...]) -> None:
    """Neither of a store that works nor of one that refuses, nor of an address that cannot be read."""
    with Single(password="hush") as server:
        urls = [server.url(), server.url().replace("hush", "hush2"), "redis://:hush@hush@localhost", "redis://:hush@localhost:port"]
        said = [cli(*command, url) for url in urls]

    assert [2, 2] == [code for code, _, _ in said[2:]]
    assert not any("hush" in output or "hush" in errors for _, output, errors in said)


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        pytest.param(["store", "health"], "'URL'", "tidegate store health --help", id="no-url"),
        pytest.param(["store"], "command", "tidegate store --help", id="no-command"),
        pytest.param(["store", "health", "memory://"], "memory://", "redis://localhost", id="memory"),
        pytest.param(["store", "health", "redis://h", "--timeout", "0s"], "--timeout", "2s", id="timeout"),
        pytest.param(["check", "k", "-q", "5/m", "--budget", "1ms"], "--budget needs --store", "--store redis://", id="budget"),
        pytest.param(["check", "k", "-q", "5/m", "--on-store-error", "deny"], "needs --store", "--store redis://", id="policy"),
        pytest.param(
            ["check", "k", "-q", "5/m", "--store", "redis://h", "--on-store-error", "maybe"], "maybe", "tidegate check --help", id="word"
        ),
        pytest.param(["check", "k", "-q", "5/m", "--store", "redis://h/x"], "database", "", id="database"),
        pytest.param(["check", "k", "-q", "5/m", "--store", "http://h"], "http://", "", id="scheme"),
    ],
)
def test_mistakes_get_an_error_and_a_hint(cli: Run, arguments: list[str], error: str, hint: str) -> None:
    """What is wrong and what to do, on stderr, with exit code 2."""
    code, output, errors = cli(*arguments)

    assert (2, "") == (code, output)
    assert errors.startswith("error: ")
    assert error in errors
    assert hint in errors.partition("hint: ")[2]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(cli: Run, command: str) -> None:
    """Every command explains itself and its exit codes."""
    code, output, _ = cli("store", command, "--help")

    assert 0 == code
    assert f"tidegate store {command}" in output
    assert "Exit code 0" in output
