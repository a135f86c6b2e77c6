"""
Pyramid under the WSGI middleware, over real HTTP.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

from tidegate.integrations.wsgi import DECISION, RateLimit

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from pyramid.request import Request  # type: ignore[import-untyped]

    from tests.integrations.wsgi_serving import Threaded
else:
    from wsgi_serving import Threaded

with warnings.catch_warnings():
    # It imports modules of the standard library and of others that are about to go.
    warnings.simplefilter("ignore")
    from pyramid.config import Configurator  # type: ignore[import-untyped]
    from pyramid.response import Response  # type: ignore[import-untyped]


@pytest.fixture
def application() -> WSGIApplication:
    """
    A view that says what is left, and one that raises.
    """

    def left(request: Request) -> Response:
        return Response(str(request.environ[DECISION].remaining))

    def broken(request: Request) -> Response:
        raise LookupError

    with Configurator() as config:
        config.add_route("left", "/")
        config.add_route("broken", "/broken")
        config.add_view(left, route_name="left")
        config.add_view(broken, route_name="broken")
        app: WSGIApplication = config.make_wsgi_app()
    return app


def test_every_response_tells_what_is_left(application: WSGIApplication) -> None:
    """
    The view finds the decision in the environment.
    """
    with Threaded(RateLimit(application, "3/minute")) as site:
        answers = [site.ask("GET", path) for path in ("/", "/nowhere", "/", "/")]

    assert [200, 404, 200, 429] == [answer.status for answer in answers]
    assert [b"2", b"0"] == [answers[0].body, answers[2].body]
    assert [2, 1, 0, 0] == [answer.left["limit"]["r"] for answer in answers]


def test_a_view_that_raises_gives_its_slot_back(application: WSGIApplication) -> None:
    """
    The error is the server's, as without the middleware.
    """
    limited = RateLimit(application, "1 concurrent")
    with Threaded(limited) as site:
        assert [500, 500] == site.statuses(2, "/broken")

    assert 0 == limited.guard.held
