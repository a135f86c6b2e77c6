"""
The servers that are loaded: Tidegate, those it is held against, and the store.

Each is a process of its own on chosen cores, and says how much processor time it has taken.
"""

import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import psutil
from service_load import pinned, program

ROOT = Path(__file__).resolve().parent.parent
# The servers of the tests are found from the root of the repository, not from this folder.
sys.path += [place for place in (str(ROOT), str(ROOT / "tests")) if place not in sys.path]
if TYPE_CHECKING:
    from tests.servers import Single, available
    from tests.servers.ports import free_port
    from tests.servers.process import Process, new_folder
    from tests.servers.waiting import until
    from tests.service.running import Running
else:
    from servers import Single, available
    from servers.ports import free_port
    from servers.process import Process, new_folder
    from servers.waiting import until
    from service.running import Running

PEERS = Path(__file__).with_name("service_peers.py")
START_S = 30.0
END_S = 5.0
# Nobody is to be denied, and no decision is to be taken without the store because the machine was busy.
SETTINGS = {"budget": "1s", "watch": False}
# One rule applies to each call: HTTP names a client, descriptors name a user.
NATIVE = """version: 1
domain: bench
identity: [header: x-api-key]
rules:
  - {name: per_client, per: client, quotas: 100000000/minute}
  - {name: per_user, per: user, quotas: 100000000/minute}
"""
REFERENCE = """domain: bench
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 100000000}
"""
NGINX = """
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{ default_type application/json; return 200 '{answer}'; }}
  }}
}}
"""
CONSTANT = '{"allowed":true,"rule":"per_client","limit":100000000,"remaining":99999999,"reset_at":1794833212.5,"retry_after":0}'


@dataclass(frozen=True)
class Target:
    """A server that listens."""

    pid: int
    http: str = ""
    grpc: str = ""

    def cpu_s(self) -> float:
        """Return the processor time that it has taken, with its children."""
        parent = psutil.Process(self.pid)
        times = [process.cpu_times() for process in (parent, *parent.children(recursive=True))]
        return float(sum(time.user + time.system for time in times))

    def resident(self) -> int:
        """Return the bytes that it has in memory."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def metric(self, name: str, *labels: str) -> float:
        """Return the sum of a metric of Tidegate's over all lines with these labels."""
        with urlopen(f"{self.http}/metrics", timeout=10) as response:
            lines = response.read().decode().splitlines()
        return sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if line.partition("{")[0].partition(" ")[0] == name and all(label in line for label in labels)
        )


@contextmanager
def tidegate(rules: str, cores: Sequence[int], workers: int = 1, settings: Mapping[str, Any] | None = None) -> Iterator[Target]:
    """Run the service in this block."""
    with pinned(cores):
        running = Running(rules, {**SETTINGS, "workers": workers, **(settings or {})}).start()
    with running_until_end(running):
        yield Target(running.process.pid, running.http, running.grpc)


@contextmanager
def running_until_end(running: Running) -> Iterator[None]:
    """End the service after this block, and say what it said if something failed."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"the service said:\n{running.log[-2000:]}")
        raise
    finally:
        running.kill()


@contextmanager
def peer(name: str, cores: Sequence[int]) -> Iterator[Target]:
    """Run one of `service_peers.py` in this block."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    with listening([sys.executable, str(PEERS), name, str(port)], port, cores) as process:
        yield Target(process.pid, f"http://{address}", address)


@contextmanager
def nginx(cores: Sequence[int]) -> Iterator[Target]:
    """Run nginx with one worker, which answers a constant, in this block."""
    folder, port = new_folder("nginx"), free_port()
    configuration = folder / "nginx.conf"
    configuration.write_text(NGINX.format(folder=folder, port=port, answer=CONSTANT), encoding="utf-8")
    words = [str(program("nginx")), "-c", str(configuration), "-p", str(folder), "-g", "daemon off;"]
    with listening(words, port, cores) as process:
        yield Target(process.pid, f"http://127.0.0.1:{port}")


@contextmanager
def reference_service(store: Single, cores: Sequence[int]) -> Iterator[Target]:
    """Run the reference service, which is envoyproxy/ratelimit, with the same rules on the same store in this block."""
    folder = new_folder("ratelimit")
    rules = folder / "ratelimit" / "config"
    rules.mkdir(parents=True)
    (rules / "bench.yaml").write_text(REFERENCE, encoding="utf-8")
    ports = [free_port() for _ in range(3)]
    environment = {
        "REDIS_SOCKET_TYPE": "tcp",
        "REDIS_URL": store.url().partition("://")[2].partition("/")[0],
        "USE_STATSD": "false",
        "RUNTIME_ROOT": str(folder),
        "RUNTIME_SUBDIRECTORY": "ratelimit",
        "RUNTIME_WATCH_ROOT": "false",
        "LOG_LEVEL": "error",
        "HOST": "127.0.0.1",
        "GRPC_HOST": "127.0.0.1",
        "DEBUG_HOST": "127.0.0.1",
        "PORT": str(ports[0]),
        "GRPC_PORT": str(ports[1]),
        "DEBUG_PORT": str(ports[2]),
        # As many threads as it has cores, which it cannot see.
        "GOMAXPROCS": str(len(cores)),
    }
    with listening([str(program("service_cmd"))], ports[1], cores, environment) as process:
        yield Target(process.pid, "", f"127.0.0.1:{ports[1]}")


@contextmanager
def store(cores: Sequence[int]) -> Iterator[Single]:
    """Run Redis 7.0 in this block, or Valkey where there is none."""
    names = [binary.name for binary in available()]
    with pinned(cores):
        server = Single(server="redis70" if "redis70" in names else "valkey", config=["slowlog-log-slower-than -1"])
    with server:
        yield server


@contextmanager
def listening(words: list[str], port: int, cores: Sequence[int], environment: Mapping[str, str] | None = None) -> Iterator[Process]:
    """Run a program that listens on this port in this block, on these cores."""
    log = new_folder("peer") / "log"
    with pinned(cores):
        process = Process(words, log=log, env=environment)
    try:
        until(lambda: _listens(port) or not process.is_running, START_S, lambda: log.read_text(encoding="utf-8"))
        assert process.is_running, log.read_text(encoding="utf-8")
        yield process
    finally:
        # Not killed at once: a worker of nginx outlives a master that cannot tell it to end.
        process.send(signal.SIGTERM)
        with suppress(TimeoutError):
            until(lambda: not process.is_running, END_S, lambda: "it still runs")
        process.kill()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
