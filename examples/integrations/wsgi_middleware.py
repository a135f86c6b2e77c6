"""
A WSGI application behind a limit: two requests a minute for each client, and three streams at a time.

`gunicorn wsgi_middleware:app` serves it; here a server of the standard library does.
"""

import http.client
import threading
from collections.abc import Iterable
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from tidegate.integrations.wsgi import RateLimit


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{environ['PATH_INFO']}\n".encode()]


app = RateLimit(application, "2/minute, 3 concurrent", exempt=["/healthz"])


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    with make_server("127.0.0.1", 0, app, handler_class=Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        statuses = []
        for path in ("/", "/", "/", "/healthz"):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
            connection.close()
            statuses.append(response.status)
            print(f"GET {path:<9} {response.status}  {response.headers['RateLimit']}  {body.decode().strip()}")
        server.shutdown()
    assert statuses == [200, 200, 429, 200]


if __name__ == "__main__":
    main()
