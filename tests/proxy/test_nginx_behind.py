"""
A server that others wrote behind the proxy: nginx, with files and all that belongs to them.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.proxy.proxying import ask, here
    from tests.servers.ports import free_port
    from tests.servers.process import Process, new_folder
    from tests.servers.waiting import until
else:
    from proxying import ask, here
    from servers.ports import free_port
    from servers.process import Process, new_folder
    from servers.waiting import until

CONFIG = """
error_log stderr;
pid {folder}/pid;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} {protocol};
    root {folder}/files;
    location /told {{ return 200 "$server_protocol $request_method $host $http_x_forwarded_for"; }}
  }}
}}
"""
CONTENT = bytes(range(256)) * 4096


@pytest.fixture(params=["http1", "http2"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[str, dict[str, str]]]:
    """
    The address of an nginx with one file of a megabyte, and how it is asked.
    """
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed: it comes with the Debian package nginx-light")
    folder, port = new_folder("nginx"), free_port()
    (folder / "files").mkdir()
    (folder / "files" / "file").write_bytes(CONTENT)
    protocol = "http2" if request.param == "http2" else ""
    (folder / "nginx.conf").write_text(CONFIG.format(folder=folder, port=port, protocol=protocol), encoding="ascii")
    # One process in the foreground: workers would outlive a master that is killed.
    options = ["-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", "daemon off; master_process off;"]
    process = Process([nginx, *options], log=folder / "log")
    until((folder / "pid").exists, 20, lambda: (folder / "log").read_text(encoding="utf-8"))
    yield f"http://127.0.0.1:{port}", {"upstream.protocol": request.param}
    process.kill()


def test_files_of_nginx_pass_whole_in_parts_and_not_at_all(served: tuple[str, dict[str, str]]) -> None:
    """All of it, its head, a range, what has not changed, what is not there, and a body that nobody reads."""
    url, settings = served
    with here([url], settings=settings) as proxy:
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
    version = "HTTP/2.0" if settings["upstream.protocol"] == "http2" else "HTTP/1.1"
    assert (200, f"{version} POST shop.example.com 127.0.0.1") == (told.status, told.body.decode())
