"""
Slots of `concurrent` quotas under WSGI: held until the response has ended, whatever ends it, and never longer.
"""

from __future__ import annotations

import gc
import io
import sys
import threading
from typing import TYPE_CHECKING
from wsgiref.util import FileWrapper, setup_testing_defaults

import pytest

from tidegate import RuleLimiter
from tidegate.integrations.wsgi import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from tests.conftest import Eventually
    from tests.integrations.wsgi_serving import Threaded

    Limit = Callable[[WSGIApplication], RateLimit]
else:
    from wsgi_serving import Threaded

SLOTS = 3


@pytest.fixture
def limit(eventually: Eventually) -> Iterator[Limit]:
    """
    Limits an application to three requests at a time. After the test nothing is held: the store itself says so.
    """
    made: list[RateLimit] = []

    def wrap(application: WSGIApplication) -> RateLimit:
        limited = RateLimit(application, f"{SLOTS} concurrent", name="slots")
        made.append(limited)
        return limited

    yield wrap
    for limited in made:
        eventually(lambda limited=limited: free(limited) == SLOTS)  # type: ignore[misc]
        assert 0 == limited.guard.held


def free(limited: RateLimit) -> int | None:
    """
    How many slots a client of this machine could take now.
    """
    limiter = limited.guard.limiter
    assert isinstance(limiter, RuleLimiter)
    return limiter.peek({"ip": "127.0.0.1"}).remaining


def call(application: WSGIApplication, **variables: object) -> Iterable[bytes]:
    """
    What an application returns to a server that has not done anything with it yet.
    """
    environ: WSGIEnvironment = {"REMOTE_ADDR": "127.0.0.1", **variables}
    setup_testing_defaults(environ)
    return application(environ, lambda *_: lambda _: None)


def close(body: Iterable[bytes]) -> None:
    """
    What a server does at the end.
    """
    body.close()  # type: ignore[attr-defined]


class Stream:
    """
    An application that sends a piece, and the rest when it is told to.
    """

    def __init__(self, piece: bytes = b"piece") -> None:
        self.piece = piece
        self.may_end = threading.Event()
        self.closed = 0

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """
        The face of a WSGI application.
        """
        start_response("200 OK", [])
        return self._body()

    def _body(self) -> Iterator[bytes]:
        try:
            yield self.piece
            while not self.may_end.wait(0.01):
                yield self.piece
            yield b"end"
        finally:
            self.closed += 1


def test_a_slot_is_held_while_a_response_is_streamed(limit: Limit, eventually: Eventually) -> None:
    """
    Three that run are all that may; when they have ended, the next may.
    """
    stream = Stream()
    limited = limit(stream)
    with Threaded(limited) as site:
        streams = [site.open() for _ in range(SLOTS)]
        for connection in streams:
            connection.recv(1)
        denied = site.ask().status
        held = limited.guard.held
        stream.may_end.set()
        eventually(lambda: limited.guard.held == 0)
        after = site.ask().status
        for connection in streams:
            connection.close()

    assert (429, SLOTS, 200) == (denied, held, after)
    assert SLOTS + 1 == stream.closed


def test_a_client_that_goes_away_gives_its_slot_back(limit: Limit, eventually: Eventually) -> None:
    """
    The server notices when it cannot write any more, and closes the body.
    """
    stream = Stream(b"x" * 65536)
    limited = limit(stream)
    with Threaded(limited) as site:
        connection = site.open()
        connection.recv(1)
        assert 1 == limited.guard.held
        connection.close()

        eventually(lambda: limited.guard.held == 0)
        assert 1 == stream.closed
        stream.may_end.set()


@pytest.mark.parametrize("moment", ["call", "start", "body"])
def test_an_application_that_raises_gives_its_slot_back(limit: Limit, moment: str) -> None:
    """
    Before the response, after its head, or in the middle of its body.
    """

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if moment == "call":
            raise LookupError
        start_response("200 OK", [])
        if moment == "start":
            raise LookupError
        return body()

    def body() -> Iterator[bytes]:
        yield b"piece"
        raise LookupError

    limited = limit(application)
    with Threaded(limited) as site:
        with site.open() as connection:
            while connection.recv(65536):
                pass

        assert ["LookupError"] == site.failures
    assert SLOTS == free(limited)


def test_an_error_page_after_the_head_has_the_fields(limit: Limit) -> None:
    """
    An application may replace a head that was not sent yet.
    """

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        try:
            environ["no such thing"]
        except LookupError:
            start_response("500 Oops", [], sys.exc_info())
        return [b"oops"]

    with Threaded(limit(application)) as site:
        answer = site.ask()

    assert 500 == answer.status
    assert '"slots";r=2' == answer.field("RateLimit")


def test_what_was_written_the_old_way_arrives(limit: Limit) -> None:
    """
    `start_response` returns a function that writes.
    """

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])(b"written ")
        return [b"returned"]

    with Threaded(limit(application)) as site:
        assert b"written returned" == site.ask().body


def test_a_body_that_is_never_read_gives_its_slot_back_when_closed(limit: Limit) -> None:
    """
    As a server does after HEAD. The second time does no harm.
    """
    stream = Stream()
    limited = limit(stream)
    body = call(limited)
    assert SLOTS - 1 == free(limited)
    close(body)
    close(body)

    assert SLOTS == free(limited)


def test_a_body_that_is_dropped_gives_its_slot_back(limit: Limit, eventually: Eventually) -> None:
    """
    A server that forgets to close it is wrong, and would otherwise end the service.
    """
    limited = limit(Stream())
    body = call(limited)
    assert SLOTS - 1 == free(limited)
    del body
    gc.collect()

    eventually(lambda: free(limited) == SLOTS)


def test_a_close_that_raises_gives_the_slot_back(limit: Limit) -> None:
    """
    And the error goes where it would have gone.
    """

    class Body(list[bytes]):
        def close(self) -> None:
            raise LookupError

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        return Body([b"piece"])

    limited = limit(application)
    body = call(limited)
    with pytest.raises(LookupError):
        close(body)

    assert SLOTS == free(limited)


def test_a_file_stays_what_the_server_knows(limit: Limit) -> None:
    """
    A server sends its own class without copying; closing it closes the file and gives the slot back.
    """
    file = io.BytesIO(b"content")

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        wrapped: Iterable[bytes] = environ["wsgi.file_wrapper"](file)
        return wrapped

    limited = limit(application)
    body = call(limited, **{"wsgi.file_wrapper": FileWrapper})
    assert isinstance(body, FileWrapper)
    assert (b"content", SLOTS - 1) == (b"".join(body), free(limited))
    close(body)

    assert file.closed
    assert SLOTS == free(limited)


def test_a_file_of_a_class_that_cannot_be_changed_is_copied(limit: Limit) -> None:
    """
    Classes of servers in C are such.
    """

    class Sealed:
        __slots__ = ("_pieces",)

        def __init__(self, file: io.BytesIO) -> None:
            self._pieces = [file.read()]

        def __iter__(self) -> Iterator[bytes]:
            return iter(self._pieces)

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        sealed: Iterable[bytes] = environ["wsgi.file_wrapper"](io.BytesIO(b"content"))
        return sealed

    limited = limit(application)
    body = call(limited, **{"wsgi.file_wrapper": Sealed})
    assert b"content" == b"".join(body)
    close(body)

    assert SLOTS == free(limited)
