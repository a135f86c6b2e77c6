"""
Tidegate in front of a WSGI application: Flask, Django, Pyramid, or a plain function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.integrations._address import peer_address
from tidegate.integrations._environ import attributes_of, path_of
from tidegate.integrations._exchange import Exchange
from tidegate.integrations._guard import PROBLEM_JSON, Guard, problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Unpack
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from tidegate import Decision
    from tidegate.integrations._settings import GuardOptions
    from tidegate.quota import Quotas

DECISION = "tidegate.decision"
"""Where an application finds the decision in the environment of its request."""

STATUS_LINE = "429 Too Many Requests"

_COUNTED = "tidegate.counted"


class RateLimit:
    """
    Limits the requests to a WSGI application.

    Every response tells the client what is left, and a denied request is answered with 429 and problem details (RFC 9457) without reaching
    the application. Slots of `concurrent` quotas are held until the response has ended, whatever ends it.

    ```python
    from tidegate.integrations.wsgi import RateLimit


    def application(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"hello"]


    application = RateLimit(application, "100/minute", exempt=["/healthz"])
    ```

    Args:
        app: The application.
        quotas: Quotas for each client, as for `Limiter`; or one of `rules`, `limiter` and `service`.
        denied: An application that answers denied requests; it finds the denial in the environment, under `tidegate.decision`.
        options: As for `Guard`. The functions `key` and `cost` take the environment.

    Raises:
        ConfigError: The arguments do not go together, or one of them is wrong.
    """

    def __init__(
        self,
        app: WSGIApplication,
        quotas: Quotas | None = None,
        *,
        denied: WSGIApplication | None = None,
        **options: Unpack[GuardOptions],
    ) -> None:
        self._app = app
        self._denied = denied or _deny
        self.guard = Guard(quotas, **options)
        """Who decides."""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """
        Answers a request: the face of a WSGI application.
        """
        guard = self.guard
        counted = environ.get(_COUNTED, ())
        # An application that is mounted in itself, or wrapped twice, counts its requests once.
        if guard.mark in counted or (guard.has_exemptions and guard.is_exempt(path_of(environ))):
            return self._app(environ, start_response)
        exchange = Exchange()
        attributes = {"ip": peer_address(environ.get("REMOTE_ADDR"))} if guard.is_simple else attributes_of(environ, guard.reads)
        decision = environ[DECISION] = exchange.ask(guard, attributes, environ)
        environ[_COUNTED] = (*counted, guard.mark)
        return serve(self._app if decision.allowed else self._denied, environ, start_response, exchange)

    def close(self) -> None:
        """
        Ends the limiter, unless it was given. Not needed at the end of a process.
        """
        self.guard.close()


def serve(app: WSGIApplication, environ: WSGIEnvironment, start_response: StartResponse, exchange: Exchange) -> Iterable[bytes]:
    """
    Calls an application for a request that was admitted, or the one that answers for a denial.

    Args:
        app: The application.
        environ: The environment of the request.
        start_response: What the server gave.
        exchange: What the request took. It ends with the response.

    Returns:
        The body.
    """

    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Callable[[bytes], object]:  # noqa: ANN401  # as WSGI has it
        fields = exchange.fields()
        return start_response(status, [*headers, *(_unsaid(fields, headers) if exchange.is_denied else fields)], exc_info)

    try:
        body = app(environ, start)
    except BaseException:
        exchange.end()
        raise
    return _held(body, environ, exchange) if exchange.has_slots else body


def _unsaid(fields: list[tuple[str, str]], headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    # Lists may be spread over several fields. But who answers a denial may say itself when to come back, and that is said once.
    if any(name.lower() == "retry-after" for name, _ in headers):
        return [field for field in fields if field[0] != "Retry-After"]
    return fields


class _Held:
    """
    A body that gives slots back when it is closed.
    """

    __slots__ = ("_body", "_exchange")

    def __init__(self, body: Iterable[bytes], exchange: Exchange) -> None:
        self._body, self._exchange = body, exchange

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        _close(getattr(self._body, "close", None), self._exchange)


def _held(body: Iterable[bytes], environ: WSGIEnvironment, exchange: Exchange) -> Iterable[bytes]:
    wrapper = environ.get("wsgi.file_wrapper")
    if isinstance(wrapper, type) and isinstance(body, wrapper):
        # The server looks for its own class to send a file without copying it. Some of these classes cannot be changed, and then it copies.
        close = getattr(body, "close", None)
        try:
            body.close = lambda: _close(close, exchange)  # type: ignore[attr-defined]
        except AttributeError:
            pass
        else:
            return body
    return _Held(body, exchange)


def _close(close: Callable[[], object] | None, exchange: Exchange) -> None:
    try:
        if close is not None:
            close()
    finally:
        exchange.end()


def _deny(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    decision: Decision = environ[DECISION]
    body = problem(decision)
    headers = [("Content-Type", PROBLEM_JSON), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
    start_response(STATUS_LINE, headers)
    return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]
