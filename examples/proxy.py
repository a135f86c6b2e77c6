"""
A proxy in front of a server that knows nothing of it: what is denied never reaches the server.
"""

import http.client
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tidegate.proxy import Proxy, load

RULES = """
version: 1
identity: [{header: x-api-key}, {ip: {}}]
rules: [{name: per_client, per: client, quotas: 3/minute}]
"""


class App(BaseHTTPRequestHandler):
    """Any server of yours."""

    asked = 0

    def do_GET(self) -> None:
        """Answers, and counts."""
        App.asked += 1
        self.send_response(200)
        self.send_header("content-length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        """Says nothing."""


app = ThreadingHTTPServer(("127.0.0.1", 0), App)
threading.Thread(target=app.serve_forever, daemon=True).start()

with tempfile.TemporaryDirectory() as folder:
    rules = Path(folder) / "rules.yaml"
    rules.write_text(RULES, encoding="utf-8")
    flags = {
        "rules": str(rules),
        "upstreams": f"http://127.0.0.1:{app.server_port}",
        "proxy.listen": "127.0.0.1:0",
        "http.listen": "off",
    }
    with Proxy(load(environment={}, flags=flags)) as proxy:
        for key in ("alice", "alice", "alice", "alice", "bob"):
            client = http.client.HTTPConnection(proxy.addresses["proxy"])
            client.request("GET", "/", headers={"x-api-key": key})
            response = client.getresponse()
            print(key, response.status, response.headers["ratelimit"])
            client.close()

app.shutdown()
app.server_close()
print("the server was asked", App.asked, "times")
assert App.asked == 4
