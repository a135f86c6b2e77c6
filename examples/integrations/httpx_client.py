"""
A client of httpx that keeps to the limits of a server: it is never refused, and as fast as the server allows.
"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from tidegate import Limiter
from tidegate.integrations.httpx import PacedTransport
from tidegate.testing import ManualClock

# A manual clock does not sleep: waiting moves it. Leave it out and the client waits in real time.
clock = ManualClock()
limiter = Limiter("10/minute", clock=clock)


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        decision = limiter.check("client")
        self.send_response(200 if decision else 429)
        for name, value in decision.headers().items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    begin = clock.time()

    with httpx.Client(transport=PacedTransport(clock=clock)) as client:
        for number in range(1, 26):
            response = client.get(f"http://127.0.0.1:{server.server_port}/")
            assert response.status_code == 200
            if number % 5 == 0:
                print(f"{clock.time() - begin:6.1f} s: {number} requests, {response.headers['RateLimit']}")

    server.shutdown()
