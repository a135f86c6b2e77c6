"""
Slots of `concurrent` quotas under Flask: held until the response has ended, whatever kind of response it is.
"""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING

import pytest
from flask import Flask, Response, send_file

from tidegate.integrations.flask import Tidegate, limit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Eventually
    from tests.integrations.wsgi_serving import Threaded
    from tidegate.integrations._guard import Guard
else:
    from wsgi_serving import Threaded

SLOTS = 2


class Site:
    """
    An application with all kinds of responses, two of them at a time.
    """

    def __init__(self, file: Path) -> None:
        self.app = Flask("shop")
        self.may_end = threading.Event()
        Tidegate(self.app, f"{SLOTS} concurrent")
        for name in ("plain", "broken", "stream", "torn"):
            self.app.add_url_rule(f"/{name}", name, getattr(self, name))
        self.app.add_url_rule("/file", "file", lambda: send_file(file))
        self.app.add_url_rule("/own", "own", limit("1 concurrent")(self.stream))

    @property
    def guards(self) -> list[Guard]:
        """
        Who may hold something: of the application and of the view with a limit of its own.
        """
        state = self.app.extensions["tidegate"]
        return [state.guard, *state.routes._guards.values()]

    @property
    def held(self) -> int:
        """
        How many slots are held.
        """
        return sum(guard.held for guard in self.guards)

    def plain(self) -> str:
        """
        A text.
        """
        return "plain"

    def broken(self) -> str:
        """
        An error.
        """
        raise LookupError

    def stream(self) -> Response:
        """
        Pieces, until it is told to end.
        """

        def pieces() -> Iterator[bytes]:
            yield b"x" * 65536
            while not self.may_end.wait(0.01):
                yield b"x" * 65536

        return Response(pieces())

    def torn(self) -> Response:
        """
        A piece and then an error.
        """

        def pieces() -> Iterator[bytes]:
            yield b"piece"
            raise LookupError

        return Response(pieces())


@pytest.fixture
def site(tmp_path: Path, eventually: Eventually) -> Iterator[Site]:
    """
    After the test nothing is held.
    """
    (tmp_path / "file").write_bytes(b"content")
    site = Site(tmp_path / "file")
    yield site
    site.may_end.set()
    eventually(lambda: site.held == 0)


@pytest.mark.parametrize("path", ["/plain", "/broken", "/torn", "/file", "/nowhere"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_response_that_has_ended_holds_nothing(site: Site, path: str, method: str) -> None:
    """
    A text, an error, an error in the middle, a file that the server sends itself, with and without a body.
    """
    with Threaded(site.app) as server:
        for _ in range(SLOTS + 1):
            with server.open(path) as connection:
                while connection.recv(65536):
                    pass

            assert 0 == site.held


def test_a_stream_holds_its_slots_to_its_end(site: Site, eventually: Eventually) -> None:
    """
    That of the application and that of the view.
    """
    with Threaded(site.app) as server:
        connection = server.open("/own")
        connection.recv(1)
        assert 2 == site.held
        assert 429 == server.ask("GET", "/own").status
        assert 200 == server.ask("GET", "/plain").status
        site.may_end.set()
        eventually(lambda: site.held == 0)
        connection.close()

        assert 200 == server.ask("GET", "/own").status


def test_a_client_that_goes_away_gives_its_slots_back(site: Site, eventually: Eventually) -> None:
    """
    As soon as the server notices.
    """
    with Threaded(site.app) as server:
        connection = server.open("/own")
        connection.recv(1)
        connection.close()
        eventually(lambda: site.held == 0)


def test_a_test_client_that_does_not_read_gives_its_slots_back(site: Site, eventually: Eventually) -> None:
    """
    A response that is dropped ends with it.
    """
    response = site.app.test_client().get("/own", buffered=False)
    assert 2 == site.held
    response.close()
    eventually(lambda: site.held == 0)

    response = site.app.test_client().get("/own", buffered=False)
    del response
    gc.collect()
    eventually(lambda: site.held == 0)


def test_an_error_that_leaves_the_application_gives_its_slot_back(site: Site) -> None:
    """
    As in tests and under a debugger, where Flask does not make a response of it.
    """
    site.app.testing = True
    with pytest.raises(LookupError):
        site.app.test_client().get("/broken")

    assert 0 == site.held
