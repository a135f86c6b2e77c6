"""
The proxies that are loaded, and the server behind all of them.

Each is a process of its own with one worker, limits each key by its own means, and keeps connections to the server.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import service_servers as servers
from service_load import pinned, program
from service_servers import Target

if TYPE_CHECKING:
    from tests.proxy.proxying import Running
    from tests.servers.ports import free_port
    from tests.servers.process import new_folder
else:
    from proxy.proxying import Running
    from servers.ports import free_port
    from servers.process import new_folder

KEPT = 256
"""Connections that each keeps to the server."""
RULES = """version: 1
identity: [header: x-api-key, ip: {}]
rules: [{name: per_client, per: client, quotas: 100000000/minute}]
"""
_TEMPORARY = "".join(f"  {kind}_temp_path {{folder}}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
# Twenty requests a microsecond may wait without a delay: nobody is denied, and everybody is counted.
_NGINX = (
    """
worker_processes 1;
worker_rlimit_nofile 40000;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 30000; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
"""
    + _TEMPORARY
    + """
  limit_req_zone $http_x_api_key zone=keys:10m rate=1000000r/s;
  upstream app {{ server {upstream}; keepalive {kept}; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      limit_req zone=keys burst=1000000 nodelay;
      proxy_pass http://app;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $remote_addr;
    }}
  }}
}}
"""
)
_HAPROXY = """
global
  nbthread 1
  maxconn 30000
  no strict-limits
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 60s
frontend in
  bind 127.0.0.1:{port} backlog 4096
  stick-table type string len 64 size 100k expire 2m store http_req_rate(60s)
  http-request track-sc0 req.hdr(x-api-key)
  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 100000000 }}
  option forwardfor
  default_backend app
backend app
  http-reuse always
  server app {upstream} pool-max-conn {kept}
"""


@contextmanager
def upstream(cores: Sequence[int]) -> Iterator[Target]:
    """Run the server behind all proxies in this block: nginx with a constant, the fastest that there is."""
    with servers.nginx(cores) as target:
        yield target


@contextmanager
def tidegate(
    server: Target, cores: Sequence[int], workers: int = 1, settings: Mapping[str, Any] | None = None
) -> Iterator[tuple[Target, str]]:
    """Run our proxy in this block; yield where its metrics are, and its address for clients."""
    chosen = {**servers.SETTINGS, "workers": workers, "upstream.idle_connections": KEPT, "limits.connections": 30_000, **(settings or {})}
    flags = {key: value for key, value in chosen.items() if key != "watch"}
    # As the service is measured, too: those that wait for their turn would wake up on the core of the one that is loaded.
    environment = {"TIDEGATE_WATCH": str(chosen["watch"]).lower()}
    with pinned(cores):
        running = Running([server.http], RULES, flags, environment=environment)
        running.__enter__()
    try:
        yield Target(running.process.pid, running.addresses["http"]), running.address
    finally:
        running.process.kill()


@contextmanager
def nginx(server: Target, cores: Sequence[int]) -> Iterator[Target]:
    """Run nginx with `limit_req` in this block."""
    folder, port = new_folder("nginx"), free_port()
    text = _NGINX.format(folder=folder, port=port, upstream=_address(server), kept=KEPT)
    (folder / "nginx.conf").write_text(text, encoding="utf-8")
    words = [str(program("nginx")), "-c", str(folder / "nginx.conf"), "-p", str(folder), "-g", "daemon off;"]
    with servers.listening(words, port, cores) as process:
        yield Target(process.pid, f"http://127.0.0.1:{port}")


@contextmanager
def haproxy(server: Target, cores: Sequence[int]) -> Iterator[Target]:
    """Run HAProxy with a stick table in this block."""
    folder, port = new_folder("haproxy"), free_port()
    text = _HAPROXY.format(port=port, upstream=_address(server), kept=KEPT)
    (folder / "haproxy.cfg").write_text(text, encoding="utf-8")
    with servers.listening([str(program("haproxy")), "-db", "-f", str(folder / "haproxy.cfg")], port, cores) as process:
        yield Target(process.pid, f"http://127.0.0.1:{port}")


def _address(server: Target) -> str:
    return server.http.removeprefix("http://")
