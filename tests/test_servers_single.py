"""
The harness starts, breaks and stops single servers.
"""

from __future__ import annotations

import ssl
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.servers import Login, Missing, ServerError, Single, StartFailed, available
    from tests.servers.process import Process
    from tests.servers.resp import Connection
else:
    from servers import Login, Missing, ServerError, Single, StartFailed, available
    from servers.process import Process
    from servers.resp import Connection

ROOT = Path(__file__).parent.parent


def is_reachable(port: int) -> bool:
    """
    Whether the kernel connects, which it does for a frozen process as well.
    """
    try:
        Connection(port).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_server_answers_on_its_port_and_on_its_socket(every_server: Single) -> None:
    """
    Another client than that of the harness reaches it both ways.
    """
    for url in (every_server.url(db=3), every_server.unix_url(db=3)):
        with redis.Redis.from_url(url) as client:
            assert client.ping()


def test_the_wheels_are_installed() -> None:
    """
    Two of the servers need nothing but `make setup`.
    """
    assert ["valkey", "redis62"] == [binary.name for binary in available()][:2]


def test_a_password_is_asked_for_and_stands_in_the_address() -> None:
    """
    Characters that mean something in an address are no problem.
    """
    with Single(password="p@ss/wörd") as server, redis.Redis.from_url(server.url()) as client:
        assert client.ping()
        with Connection(server.port) as stranger, pytest.raises(ServerError, match="NOAUTH"):
            stranger.call("PING")


def test_a_user_may_do_what_its_line_says() -> None:
    """
    The harness itself may do everything, whatever becomes of the default user.
    """
    with Single(acl=["user default off", "user limiter on >secret ~tg:* +@all"]) as server:
        with Connection(server.port, login=Login("secret", "limiter")) as limiter:
            assert limiter.call("SET", "tg:a", "1") == "OK"
            with pytest.raises(ServerError, match="NOPERM"):
                limiter.call("SET", "other", "1")

        assert server.command("GET", "tg:a") == b"1"


@pytest.mark.parametrize("name", ["valkey", "redis70"])
def test_tls_is_spoken_with_clients_that_show_their_certificate(name: str) -> None:
    """
    By a server that was built with it, or by a proxy in front of one that was not.
    """
    try:
        server = Single(server=name, tls=True, tls_auth_clients=True)
    except Missing as missing:
        pytest.skip(str(missing))
    with server:
        files = server.certificates
        assert files is not None
        known = {"ssl_certfile": str(files.client_cert), "ssl_keyfile": str(files.client_key)}
        with redis.Redis.from_url(server.url(), ssl_ca_certs=str(files.ca), **known) as client:
            assert client.ping()
        with redis.Redis.from_url(server.url(), ssl_ca_certs=str(files.ca)) as stranger, pytest.raises(redis.ConnectionError):
            stranger.ping()


def test_a_certificate_can_be_that_of_a_stranger() -> None:
    """
    Its authority is not the one that signs the certificates of this machine's name.
    """
    with Single(tls=True) as usual, Single(tls=True, tls_hosts=("elsewhere.example",)) as server:
        files = usual.certificates
        assert files is not None
        with pytest.raises(ssl.SSLCertVerificationError):
            Connection(server.port, tls=ssl.create_default_context(cafile=str(files.ca)))


def test_a_killed_server_refuses_and_comes_back_on_its_port_without_its_data(every_server: Single) -> None:
    """
    As a server without persistence does.
    """
    with Single(server=every_server.server) as server:
        port = server.port
        server.command("SET", "a", "1")
        server.kill()
        with pytest.raises(ConnectionRefusedError):
            server.command("PING")
        server.restart()

        assert port == server.port
        assert server.command("GET", "a") is None


def test_a_killed_server_behind_tls_refuses_as_well() -> None:
    """
    The proxy goes and comes with its server.
    """
    with Single(tls=True) as server:
        server.kill()
        with pytest.raises(ConnectionRefusedError):
            Connection(server.port)
        server.restart()
        files = server.certificates
        assert files is not None
        with Connection(server.port, tls=files.client_context()) as connection:
            assert connection.call("PING") == "PONG"


def test_a_frozen_server_keeps_connections_and_answers_when_it_is_thawed() -> None:
    """
    Nothing that was sent meanwhile is lost.
    """
    with Single() as server, Connection(server.port, timeout=0.1) as patient:
        server.freeze()
        with pytest.raises(TimeoutError):
            patient.call("PING")
        server.thaw()

        assert server.command("PING") == "PONG"


def test_nothing_of_a_frozen_process_runs_any_more(tmp_path: Path, eventually: Eventually) -> None:
    """
    Not even a thread that had no core when the signal came. A second time changes nothing, and one that has ended is left alone.
    """
    code = (
        'import hashlib, threading\nfor _ in range(8): threading.Thread(target=hashlib.pbkdf2_hmac, args=("md5", b"", b"", 10**9)).start()'
    )
    process = Process([sys.executable, "-c", code], log=tmp_path / "log")
    threads = Path(f"/proc/{process.pid}/task")
    try:
        eventually(lambda: len(list(threads.iterdir())) == 9, within=30)
        process.freeze()
        states = {(thread / "stat").read_text().rsplit(")", 1)[1].split()[0] for thread in threads.iterdir()}
        process.freeze()
    finally:
        process.kill()
    process.freeze()

    assert {"T"} == states


@pytest.mark.parametrize("name", ["valkey", "redis62"])
def test_the_clock_of_a_server_steps_both_ways(name: str) -> None:
    """
    What expires, expires by that clock.
    """
    with Single(server=name, faketime=True) as server:
        server.command("SET", "a", "1", "PX", 60_000)
        server.step_clock(30)
        after = server.command("PTTL", "a")
        server.step_clock(-20)
        before = server.command("PTTL", "a")
        server.step_clock(51)
        gone = server.command("PTTL", "a")

        assert isinstance(after, int)
        assert isinstance(before, int)
        assert 25_000 < after <= 30_000
        assert 45_000 < before <= 50_000
        assert -2 == gone


def test_a_full_server_says_so() -> None:
    """
    A new server takes more than this by itself.
    """
    with Single(maxmemory="100kb") as server, pytest.raises(ServerError, match="OOM"):
        server.command("SET", "a", "1")


def test_a_server_that_does_not_start_shows_its_log() -> None:
    """
    A line that it does not understand ends it at once.
    """
    with pytest.raises(StartFailed, match="no-such-setting"):
        Single(config=["no-such-setting 1"])


def test_servers_end_with_a_process_that_is_killed(eventually: Eventually) -> None:
    """
    SIGKILL leaves no time to clean up, and the servers and their folders are gone nevertheless.
    """
    code = "from tests.servers import Single; s = Single(); s.freeze(); print(s.port, s.node.folder, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        port, folder = starter.stdout.readline().split()
        starter.kill()

    eventually(lambda: not Path(folder).exists())
    eventually(lambda: not is_reachable(int(port)))
