"""
An HTTP server of the standard library that answers 429 with headers, and a client that calls it.
"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tidegate import Limiter

limiter = Limiter("2/minute")


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        decision = limiter.check(self.headers.get("X-Api-Key") or self.client_address[0])
        body = b"hello\n" if decision else b"too many requests\n"
        self.send_response(200 if decision else 429)
        for name, value in decision.headers().items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def call(address: str) -> int:
    try:
        with urlopen(Request(address, headers={"X-Api-Key": "ann"}), timeout=5) as response:
            status, headers = response.status, response.headers
    except HTTPError as error:
        with error:
            status, headers = error.code, error.headers
    print(status, {name: headers[name] for name in ("RateLimit-Policy", "RateLimit", "Retry-After") if name in headers})
    return status


with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    statuses = [call(f"http://127.0.0.1:{server.server_port}/") for _ in range(3)]
    server.shutdown()
assert statuses == [200, 200, 429]
