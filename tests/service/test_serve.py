"""
`tidegate serve` as people run it: a process that says where it listens, and goes by signals.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tidegate.service.table import TABLE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Eventually, Run
    from tests.servers import Single, certificates
    from tests.service.conftest import Serve
    from tests.service.running import RULES, Running, ask, flags_of, here
else:
    from running import RULES, Running, ask, flags_of, here
    from servers import certificates

CHECK = "/api/v1/rate-limit/check"
TWO = RULES.replace("3/minute", "2/minute")
BAD = RULES.replace("3/minute", "3/minuet").replace("per: global", "pre: global")


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    """
    Rules on disk.
    """
    file = tmp_path / "rules.yaml"
    file.write_text(RULES)
    return file


def limit_of(service: Running) -> int:
    """
    The limit that is in force, as a client sees it.
    """
    limit = service.ask("POST", CHECK, {"client_id": "a", "method": "GET", "endpoint": "/"}).json["limit"]
    assert isinstance(limit, int)
    return limit


def test_it_says_where_it_listens(serve: Serve) -> None:
    """And by what it decides."""
    service = serve()

    assert "Tidegate serves 1 rule, counters on memory://" in service.log
    assert f"  http   {service.http}\n  grpc   {service.grpc}\n" in service.log
    assert 200 == service.ask("GET", "/readyz").status


def test_what_it_says_to_try_works(tmp_path: Path, serve: Serve) -> None:
    """The command is pasted as it is, into a shell that knows the token."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    for settings in ({}, {"http.token": "s3cret-s3cret-s3cret"}, {"http.listen": f"unix:{tmp_path}/http.sock"}):
        service = serve(settings=settings)
        tried = next(line for line in service.log.splitlines() if line.startswith("try:")).removeprefix("try:")
        env = {**os.environ, "TOKEN": "s3cret-s3cret-s3cret"}
        done = subprocess.run(["/bin/sh", "-c", tried], capture_output=True, timeout=30, check=True, env=env)
        answer = json.loads(done.stdout)

        assert (True, "everybody") == (answer["allowed"], answer["rule"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_exit_code_0(serve: Serve, number: signal.Signals) -> None:
    """Without a word on standard error that sounds like a failure."""
    service = serve()
    service.send(number)

    assert 0 == service.wait()
    assert "stopped" in service.log
    assert "Traceback" not in service.log


def test_sigterm_serves_on_while_readiness_is_off(serve: Serve, eventually: Eventually) -> None:
    """Load balancers need time to notice; until then requests are answered as before."""
    service = serve(settings={"shutdown.grace": "60s"})
    assert 200 == service.ask("GET", "/readyz").status
    service.send(signal.SIGTERM)
    eventually(lambda: service.ask("GET", "/readyz").status == 503)

    assert 200 == service.ask("GET", "/healthz").status
    assert 3 == limit_of(service)


def test_a_second_signal_ends_it_at_once(serve: Serve, eventually: Eventually) -> None:
    """Who asks twice does not want to wait; that requests may have been cut is said by the exit code."""
    service = serve(settings={"shutdown.grace": "1h"})
    service.send(signal.SIGTERM)
    eventually(lambda: "readiness is off" in service.log)
    service.send(signal.SIGINT)

    assert 1 == service.wait()
    assert "at once, because of a second SIGINT" in service.log


def test_sighup_loads_the_rules_again(serve: Serve, eventually: Eventually) -> None:
    """Also where nobody watches the files. A bad file is refused with all its problems, and the rules in force stay."""
    service = serve(settings={"watch": False})
    service.write_rules(TWO)
    service.send(signal.SIGHUP)
    eventually(lambda: "rules loaded from" in service.log)
    assert 2 == limit_of(service)

    service.write_rules(BAD)
    service.send(signal.SIGHUP)
    eventually(lambda: "rules refused" in service.log)

    assert "2 problems" in service.log
    assert 2 == limit_of(service)
    # Noted after it was logged.
    eventually(lambda: b"rules" in service.ask("GET", "/readyz").body)
    assert 200 == service.ask("GET", "/readyz").status

    service.write_rules(RULES)
    service.send(signal.SIGHUP)
    eventually(lambda: service.log.count("rules loaded from") == 2)
    assert 3 == limit_of(service)


def test_changed_files_come_into_force_by_themselves(serve: Serve, eventually: Eventually) -> None:
    """The result of each attempt is counted, and a problem is a reason in `/readyz` until it is gone."""
    service = serve()
    service.write_rules(TWO)
    eventually(lambda: limit_of(service) == 2)
    good = service.ask("GET", "/readyz").body
    service.write_rules(BAD)
    eventually(lambda: service.ask("GET", "/readyz").body != good)

    assert 2 == limit_of(service)
    service.write_rules(TWO)
    eventually(lambda: service.ask("GET", "/readyz").body == good)


def test_a_supervisor_is_told_how_far_it_is(tmp_path: Path, serve: Serve) -> None:
    """As systemd asks for it with `Type=notify`."""
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.settimeout(30)
        supervisor.bind(str(address))
        service = serve(env={"NOTIFY_SOCKET": str(address)})
        assert b"READY=1" == supervisor.recv(1024)

        service.send(signal.SIGHUP)
        assert supervisor.recv(1024).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
        assert b"READY=1" == supervisor.recv(1024)

        service.send(signal.SIGTERM)
        assert b"STOPPING=1" == supervisor.recv(1024)
        assert 0 == service.wait()


def serve_on_a_taken_port(serve: Serve, rules_file: Path) -> tuple[str, subprocess.CompletedProcess[str]]:
    """
    A first start that fails, in the folder of the rules: the address, and how it ended.
    """
    taken = serve().http.rpartition("/")[2]
    settings = {"rules": rules_file, "http.listen": taken, "grpc.listen": "off", "admin.listen": "127.0.0.1:0"}
    words = [sys.executable, "-m", "tidegate", "serve", *flags_of(settings)]
    return taken, subprocess.run(words, capture_output=True, text=True, timeout=30, check=False, cwd=rules_file.parent)


def test_a_taken_port_is_an_error_that_says_so(serve: Serve, rules_file: Path) -> None:
    """With exit code 2, and without a traceback."""
    taken, done = serve_on_a_taken_port(serve, rules_file)

    assert 2 == done.returncode
    assert "error: http.listen: " in done.stderr
    assert f"{taken} is in use" in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


def test_a_start_that_fails_does_not_use_up_the_first_token(serve: Serve, rules_file: Path) -> None:
    """It is shown by the first start that somebody can use."""
    _, failed = serve_on_a_taken_port(serve, rules_file)
    database = rules_file.parent / "tidegate.db"
    assert database.exists(), failed.stderr

    service = serve(settings={"admin.listen": "127.0.0.1:0", "admin.database": f"sqlite:///{database}", "admin.cache": "off"})

    assert "the first token of the control plane" in service.log


def test_it_listens_on_unix_sockets(tmp_path: Path, serve: Serve) -> None:
    """And removes them when it ends."""
    path = tmp_path / "http.sock"
    service = serve(settings={"http.listen": f"unix:{path}", "grpc.listen": "off"})

    assert 200 == ask(f"unix:{path}", "GET", "/healthz").status
    assert f"--unix-socket {path}" in service.log
    service.send(signal.SIGTERM)
    assert 0 == service.wait()
    assert not path.exists()


def test_variables_and_a_file_set_it_up(tmp_path: Path, serve: Serve) -> None:
    """The file is named by a variable too, as images do."""
    file = tmp_path / "tidegate.yaml"
    file.write_text("http: {listen: off}\nlog: {format: json}\n")
    env = {"TIDEGATE_CONFIG": str(file), "TIDEGATE_GRPC_REFLECTION": "false"}
    service = serve(settings={"http.listen": None}, env=env)
    assert ["grpc"] == list(service.addresses)

    service.send(signal.SIGTERM)
    assert 0 == service.wait()
    lines = [json.loads(line) for line in service.log.splitlines()]
    assert [service.grpc] == [line["grpc"] for line in lines if line["message"] == "serving 1 rule"]
    assert ("info", "tidegate", "stopped") == (lines[-1]["level"], lines[-1]["logger"], lines[-1]["message"])


@pytest.mark.parametrize(
    ("hard", "soft", "said"),
    [pytest.param(4096, 1756, "None", id="enough"), pytest.param(1024, 1024, "the system allows 1,024", id="too-few")],
)
def test_the_limit_of_open_files_is_raised(hard: int, soft: int, said: str) -> None:
    """Shells leave it at a thousand; more is taken as far as that is possible, and what is missing is told."""
    program = f"""
import resource
from tidegate.service.open_files import allow_connections
resource.setrlimit(resource.RLIMIT_NOFILE, (512, {hard}))
print(allow_connections(1500))
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    told, limit = done.stdout.splitlines()

    assert told.startswith(said)
    assert soft == int(limit)


def test_the_token_is_asked_for_and_never_logged(serve: Serve) -> None:
    """The printed command names a variable instead."""
    service = serve(settings={"http.token": "s3cret-s3cret-s3cret"})
    body = {"client_id": "a", "method": "GET", "endpoint": "/"}

    assert 401 == service.ask("POST", CHECK, body).status
    assert 200 == service.ask("POST", CHECK, body, {"authorization": "Bearer s3cret-s3cret-s3cret"}).status
    assert "s3cret" not in service.log
    assert "Bearer $TOKEN" in service.log


def test_two_instances_count_together(serve: Serve, server: Single) -> None:
    """On a shared store; the password of its address is shown nowhere."""
    settings = {"store": f"{server.url()}?prefix=serve:", "budget": "5s"}
    first, second = serve(settings=settings), serve(settings=settings)
    body = {"client_id": "a", "method": "GET", "endpoint": "/"}
    answers = [service.ask("POST", CHECK, body).json for service in (first, second, first, second)]

    assert [True, True, True, False] == [answer["allowed"] for answer in answers]
    assert not any(answer["degraded"] for answer in answers)
    assert "counters on redis://127.0.0.1:" in first.log
    assert "prefix" not in first.log


def test_it_starts_while_the_store_is_away(serve: Serve) -> None:
    """An instance admits its share, and says so."""
    service = serve(settings={"store": "redis://user:s3cret@127.0.0.1:1", "instances": 3})
    answer = service.ask("POST", CHECK, {"client_id": "a", "method": "GET", "endpoint": "/"}).json

    assert (True, True) == (answer["allowed"], answer["degraded"])
    assert 200 == service.ask("GET", "/readyz").status
    assert "counters on redis://127.0.0.1:1\n" in service.log
    assert "s3cret" not in service.log


def test_a_service_runs_inside_another_program() -> None:
    """For tests of one's own: started, asked, drained, stopped."""
    with here(settings={"grpc.listen": "off"}) as service:
        address = f"http://{service.addresses['http']}"
        assert 200 == ask(address, "GET", "/healthz").status
        assert 0 == service.drain()

    with pytest.raises(OSError, match="refused"):
        ask(address, "GET", "/healthz")


def test_check_says_that_all_is_right(cli: Run, rules_file: Path) -> None:
    """Nothing is started, and what is risky is warned of."""
    code, output, errors = cli("serve", "--check", "--rules", str(rules_file), "--http-listen", "0.0.0.0:8080")

    assert (0, "settings and rules are right: 1 rule\n") == (code, output)
    assert 2 == errors.count("warning: http listens on 0.0.0.0:8080 without")


def test_check_lists_what_is_wrong(cli: Run, rules_file: Path) -> None:
    """Of the settings first, then of the rules, with exit code 1."""
    rules_file.write_text(BAD)
    code, _, errors = cli("serve", "--check", "--rules", str(rules_file), "--workers", "two", "--http-listen", "here")
    assert (1, 2) == (code, errors.count("error["))

    code, _, errors = cli("serve", "--check", "--rules", str(rules_file))
    assert (1, 2) == (code, errors.count("error["))


def test_check_tries_certificates(cli: Run, rules_file: Path) -> None:
    """By the same code that would use them: a key that belongs to another certificate is found before a restart is."""
    good, other = certificates(), certificates(("other.example",))
    words = ("serve", "--check", "--rules", str(rules_file), "--grpc-tls-cert", str(good.server_cert), "--grpc-tls-key")

    assert 0 == cli(*words, str(good.server_key))[0]
    code, _, errors = cli(*words, str(other.server_key))
    assert 1 == code
    assert str(other.server_key) in errors or str(good.server_cert) in errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([], "there are no rules", id="no-rules"),
        pytest.param(["--rules", "nowhere.yaml"], "no such file", id="missing-rules"),
        pytest.param(["--config", "nowhere.yaml"], "no such file", id="missing-settings"),
        pytest.param(["--rules", "{rules}", "--workers", "-1"], "--workers", id="setting"),
        pytest.param(["--rules", "{rules}", "--store", "redis://"], "host", id="store"),
        pytest.param(["--wrokers", "1"], "--wrokers", id="option"),
    ],
)
def test_what_cannot_start_says_why(cli: Run, rules_file: Path, arguments: list[str], said: str) -> None:
    """With exit code 2, as every command."""
    code, output, errors = cli("serve", *(word.format(rules=rules_file) for word in arguments))

    assert (2, "") == (code, output)
    assert errors.startswith("error: ")
    assert said in errors


def test_show_prints_what_is_in_force(cli: Run, rules_file: Path) -> None:
    """Each setting with its value and who gave it; secrets are not shown."""
    code, output, _ = cli("serve", "--show", "--rules", str(rules_file), "--http-token", "s3cret", "--workers", "2")

    assert 0 == code
    assert f"rules: {rules_file}  # --rules" in output.splitlines()
    assert "workers: 2  # --workers" in output.splitlines()
    assert "http.listen: 127.0.0.1:8080  # default" in output.splitlines()
    assert "http.token: ***  # --http-token" in output.splitlines()
    assert "s3cret" not in output


def test_the_schema_is_printed(cli: Run) -> None:
    """For editors."""
    code, output, _ = cli("serve", "--schema")

    assert 0 == code
    assert {"rules", "http", "grpc", "limits"} <= set(json.loads(output)["properties"])


def test_the_help_names_every_flag_and_variable(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the table is left out."""
    monkeypatch.setenv("COLUMNS", "240")
    _, output, _ = cli("serve", "--help")

    assert [] == [setting.key for setting in TABLE.values() if setting.flag not in output]
    assert [] == [setting.key for setting in TABLE.values() if setting.variable not in output]
