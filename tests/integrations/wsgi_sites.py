"""
Small applications for gunicorn and granian and their workers: `wsgi_sites:plain`, `wsgi_sites:flask` and `wsgi_sites:pyramid`.

The store and the quotas come from the environment.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flask import Flask, Response
from pyramid.config import Configurator  # type: ignore[import-untyped]
from pyramid.response import Response as PyramidResponse  # type: ignore[import-untyped]

from tidegate.integrations.flask import Tidegate, limit
from tidegate.integrations.wsgi import RateLimit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from pyramid.request import Request  # type: ignore[import-untyped]

PIECE = b"x" * 65536

QUOTAS, STORE = os.environ["QUOTAS"], os.environ["STORE"]
# A busy machine of two cores may take longer than the budget, and this is about counts.
BUDGET = 5.0


def _pieces() -> Iterator[bytes]:
    while True:
        yield PIECE


def _plain(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return _pieces() if environ["PATH_INFO"] == "/stream" else [b"hello"]


def _flask() -> Flask:
    app = Flask("flask_site")
    Tidegate(app, QUOTAS, store=STORE, budget=BUDGET, exempt=["/healthz"])
    app.add_url_rule("/", "index", lambda: "hello")
    app.add_url_rule("/healthz", "health", lambda: "well")
    app.add_url_rule("/stream", "stream", lambda: Response(_pieces()))
    app.add_url_rule("/own", "own", limit("3 concurrent", name="own")(lambda: Response(_pieces())))
    app.add_url_rule("/few", "few", limit("2/minute")(lambda: "few"))
    return app


def _pyramid() -> WSGIApplication:
    def hello(request: Request) -> PyramidResponse:
        if request.path == "/broken":
            raise LookupError
        return PyramidResponse("hello")

    with Configurator() as config:
        config.add_route("any", "/*rest")
        config.add_view(hello, route_name="any")
        app: WSGIApplication = config.make_wsgi_app()
    return RateLimit(app, QUOTAS, store=STORE, budget=BUDGET)


plain = RateLimit(_plain, QUOTAS, store=STORE, budget=BUDGET, exempt=["/healthz"])
flask = _flask()
pyramid = _pyramid()
