"""
What a limiter adds to a request of a Flask application, without a network: the application is called as a server calls it.

Everybody takes a turn in each round, and the median of the rounds counts. Nobody is ever denied.
"""

# ruff: noqa: PLC0415 - a peer is imported where it is used: one that is not installed is left out

import socket
import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit
from wsgiref.types import WSGIApplication

import integrations_http
import redis_server
from child import Advance, part_of, run_child, serve
from flask import Flask
from integrations_apps import AMOUNT, IN_ADVANCE, ONE_CALL, PATIENT_S, QUOTA, Subject, on
from integrations_asgi import in_turn
from timing import collector_off
from werkzeug.test import EnvironBuilder

FILE = Path(__file__)
SERVED = FILE.with_name("integrations_flask_served.py")


def _bare(_store: str | None) -> Flask:
    app = Flask("bench")
    app.add_url_rule("/", "root", lambda: {"ok": True})
    return app


def _tidegate(quota: str) -> Callable[[str | None], Flask]:
    """The extension: header fields on every response."""

    def make(store: str | None) -> Flask:
        from tidegate.integrations.flask import Tidegate

        app = _bare(None)
        Tidegate(app, quota, store=store or "memory://", budget=PATIENT_S)
        return app

    return make


def _tidegate_route(quota: str) -> Callable[[str | None], Flask]:
    """A limit of the view: header fields on every response."""

    def make(store: str | None) -> Flask:
        from tidegate.integrations.flask import Tidegate, limit

        app = Flask("bench")
        Tidegate(app, store=store or "memory://", budget=PATIENT_S)
        app.add_url_rule("/", "root", limit(quota)(lambda: {"ok": True}))
        return app

    return make


def _tidegate_wsgi(quota: str) -> Callable[[str | None], WSGIApplication]:
    """The WSGI middleware around the application: header fields on every response."""

    def make(store: str | None) -> WSGIApplication:
        from tidegate.integrations.wsgi import RateLimit

        return RateLimit(_bare(None), quota, store=store or "memory://", budget=PATIENT_S)

    return make


def _flask_limiter(*, headers: bool) -> Callable[[str | None], Flask]:
    def make(store: str | None) -> Flask:
        from flask_limiter import Limiter
        from flask_limiter.util import get_remote_address

        app = _bare(None)
        Limiter(
            get_remote_address,
            app=app,
            default_limits=[f"{AMOUNT}/day"],
            headers_enabled=headers,
            storage_uri=store or "memory://",
        )
        return app

    return make


def _throttled_headers(store: str | None) -> Flask:
    """Its own extension: a decorator that decides, and a function after the request that tells."""
    from throttled import MemoryStore, RedisStore, rate_limiter
    from throttled.contrib.flask import Limiter, get_remote_address

    where = MemoryStore() if store is None else RedisStore(server=store)
    app = Flask("bench")
    limiter = Limiter(rate_limiter.per_day(AMOUNT), app=app, store=where, using="fixed_window", key_func=get_remote_address)
    app.add_url_rule("/", "root", limiter.limit()(lambda: {"ok": True}))
    return app


def _throttled(store: str | None) -> Flask:
    """A function of two lines before each request, which tells the client nothing."""
    from flask import request
    from throttled import MemoryStore, RedisStore, Throttled, rate_limiter

    where = MemoryStore() if store is None else RedisStore(server=store)
    throttle = Throttled(using="fixed_window", quota=rate_limiter.per_day(AMOUNT), store=where)
    app = _bare(None)

    @app.before_request
    def check() -> None:
        assert not throttle.limit(request.remote_addr).limited

    return app


def _one_trip(store: str | None) -> Flask:
    """What one script of one command takes without a client: nothing in Python can come below it."""
    assert store is not None
    where = urlsplit(store)
    server = socket.create_connection((where.hostname, where.port))
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    app = _bare(None)

    @app.before_request
    def ask() -> None:
        server.sendall(ONE_CALL)
        assert server.recv(64).startswith(b":")

    return app


SUBJECTS = (
    Subject("bare", "", _bare),
    Subject("tidegate", "extension, with headers", _tidegate(QUOTA)),
    Subject("tidegate", "view, with headers", _tidegate_route(QUOTA)),
    Subject("tidegate", "WSGI, with headers", _tidegate_wsgi(QUOTA)),
    Subject("tidegate", "extension, with headers, in advance", _tidegate(IN_ADVANCE), is_for_shared=True),
    Subject("tidegate", "view, with headers, in advance", _tidegate_route(IN_ADVANCE), is_for_shared=True),
    Subject("tidegate", "WSGI, with headers, in advance", _tidegate_wsgi(IN_ADVANCE), is_for_shared=True),
    Subject("flask-limiter", "with headers", _flask_limiter(headers=True)),
    Subject("flask-limiter", "without headers", _flask_limiter(headers=False)),
    Subject("throttled-py", "with headers", _throttled_headers),
    Subject("throttled-py", "without headers", _throttled),
)


BASELINES = {"memory": (), "redis": (Subject("bare", "one script without a client", _one_trip),)}
"""What is no limiter, but part of one."""


def installed() -> list[Subject]:
    """Return those that can be measured here; the first is the application without a limiter."""
    return [subject for subject in SUBJECTS if subject.is_installed()]


def measure_all(*, quick: bool, advance: Advance) -> dict[str, Any]:
    """Return the added time by limiter, in memory and on Redis, and the same over HTTP."""
    added = run_child(FILE, {"quick": quick}, part_of(advance, 0, 2))
    served = integrations_http.measure_served(installed(), SERVED, quick=quick, advance=part_of(advance, 1, 2))
    return added | {"http": served}


def _measure(*, quick: bool, advance: Advance) -> dict[str, Any]:
    rounds, calls = (3, 200) if quick else (31, 500)
    with redis_server.start() as server:
        return {
            "rounds": rounds,
            "memory": _added(None, rounds, calls, advance),
            "redis": _added(server.url(), rounds, calls // 2, advance),
        }


def _added(store: str | None, rounds: int, calls: int, advance: Advance) -> list[dict[str, Any]]:
    subjects = [*on(store, installed()), *BASELINES["memory" if store is None else "redis"]]
    made = {subject.name: subject.make(store) for subject in subjects}
    samples: dict[str, list[float]] = {name: [] for name in made}
    for app in made.values():
        requests(app, 100)
    for number in range(rounds):
        advance(f"Flask, {'memory' if store is None else 'Redis'}", number / rounds)
        for name, app in in_turn(made, number):
            with collector_off():
                start = perf_counter()
                requests(app, calls)
                samples[name].append((perf_counter() - start) / calls * 1e6)
    bare = samples[subjects[0].name]
    return [
        {
            "library": subject.library,
            "note": subject.note,
            "at_once": 1,
            "us": statistics.median(samples[subject.name]),
            # Of the rounds and not of the medians: what disturbed a round disturbed its neighbours too.
            "added_us": statistics.median(own - base for own, base in zip(samples[subject.name], bare, strict=True)),
        }
        for subject in subjects
    ]


def requests(app: WSGIApplication, count: int) -> None:
    """Send requests, one after the other, as a server does it: the body is read and closed."""
    environ = EnvironBuilder(path="/", base_url="http://127.0.0.1:8000", environ_base={"REMOTE_ADDR": "127.0.0.1"}).get_environ()
    environ.update({"HTTP_USER_AGENT": "bench", "HTTP_ACCEPT": "*/*", "HTTP_ACCEPT_ENCODING": "gzip"})
    found = ""

    def start_response(status: str, _headers: list[tuple[str, str]], _exc_info: object = None, /) -> Callable[[bytes], object]:
        nonlocal found
        found = status
        return bytes

    for _ in range(count):
        body = app(dict(environ), start_response)
        for _piece in body:
            pass
        if close := getattr(body, "close", None):
            close()
        assert found == "200 OK", found


if __name__ == "__main__":
    serve(_measure)
