"""
A session of requests against a server that is busy: what may be repeated is repeated, after the time that the server asks for.
"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

from tidegate.integrations.requests import PacedAdapter
from tidegate.testing import ManualClock

clock = ManualClock()
answers = [(503, {"Retry-After": "5"}), (200, {}), (429, {"Retry-After": "5"}), (200, {}), (429, {"Retry-After": "7200"})]


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, fields = answers.pop(0)
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = answer  # noqa: N815  # the names that http.server looks for

    def log_message(self, *_: object) -> None:
        pass


with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server, requests.Session() as session:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    session.mount("http://", PacedAdapter(clock=clock, throttle=None))
    url = f"http://127.0.0.1:{server.server_port}/"

    begin = clock.time()
    print("GET after 503:", session.get(url).status_code, f"after {clock.time() - begin:.1f} s")

    begin = clock.time()
    print("POST after 429:", session.post(url, data=b"order").status_code, "and the caller decides")

    print("GET of the same host:", session.get(url).status_code, f"after {clock.time() - begin:.1f} s, when the server said")

    begin = clock.time()
    print("GET that would wait for two hours:", session.get(url).status_code, f"after {clock.time() - begin:.1f} s")
    server.shutdown()
