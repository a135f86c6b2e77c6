"""
The views of the site that `django_site` configures: every kind of response, and every way to limit it.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from typing import TYPE_CHECKING, Any

from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.views import View
from rest_framework.response import Response
from rest_framework.views import APIView

from tidegate.integrations.django import limit
from tidegate.integrations.django._settings import state
from tidegate.integrations.django.rest_framework import TidegateThrottle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from rest_framework.request import Request
    from rest_framework.throttling import BaseThrottle

may_end = threading.Event()
"""When streams of this process end."""

PIECE = b"x" * 65536


def index(request: HttpRequest) -> HttpResponse:
    """
    A text.
    """
    return HttpResponse("hello")


def broken(request: HttpRequest) -> HttpResponse:
    """
    An error.
    """
    raise LookupError


def stream(request: HttpRequest) -> StreamingHttpResponse:
    """
    Pieces, until it is told to end.
    """

    def pieces() -> Iterator[bytes]:
        yield PIECE
        while not may_end.wait(0.01):
            yield PIECE

    return StreamingHttpResponse(pieces())


async def stream_async(request: HttpRequest) -> StreamingHttpResponse:
    """
    The same on an event loop.
    """

    async def pieces() -> AsyncIterator[bytes]:
        yield PIECE
        while not may_end.is_set():
            await asyncio.sleep(0.01)  # noqa: TID251  # the application is what is slow here
            yield PIECE

    return StreamingHttpResponse(pieces())


async def torn_async(request: HttpRequest) -> StreamingHttpResponse:
    """
    A piece, and then an error.
    """

    async def pieces() -> AsyncIterator[bytes]:
        yield b"piece"
        raise LookupError

    return StreamingHttpResponse(pieces())


def torn(request: HttpRequest) -> StreamingHttpResponse:
    """
    The same without an event loop.
    """

    def pieces() -> Iterator[bytes]:
        yield b"piece"
        raise LookupError

    return StreamingHttpResponse(pieces())


async def forever(request: HttpRequest) -> HttpResponse:
    """
    Answers when nobody waits any more.
    """
    await asyncio.Event().wait()
    return HttpResponse()


def file(request: HttpRequest) -> FileResponse:
    """
    A file, which servers send themselves.
    """
    opened = tempfile.TemporaryFile()  # noqa: SIM115  # the response closes it
    opened.write(b"content")
    opened.seek(0)
    return FileResponse(opened)


async def held(request: HttpRequest) -> HttpResponse:
    """
    How many slots this process holds, of the site and of views.
    """
    found = state()
    guards = [*([found.guard] if found.guard else []), *found.routes._guards.values()]
    return HttpResponse(str(sum(guard.held for guard in guards)))


@limit("2/minute")
def few(request: HttpRequest) -> HttpResponse:
    """
    A view with a limit of its own.
    """
    return HttpResponse("few")


@limit("2/minute")
async def few_async(request: HttpRequest) -> HttpResponse:
    """
    The same, async.
    """
    return HttpResponse("few")


@limit("3/minute", key=lambda request: request.headers["x-user"])
@limit("3/minute")
def twice(request: HttpRequest) -> HttpResponse:
    """
    Two limits: by user and by address.
    """
    return HttpResponse("twice")


@method_decorator(limit("2/minute"), name="dispatch")
class Classy(View):
    """
    A class-based view.
    """

    def get(self, request: HttpRequest) -> HttpResponse:
        """
        A text.
        """
        return HttpResponse("classy")


@method_decorator(limit("2/minute"), name="dispatch")
class ClassyAsync(View):
    """
    The same, async.
    """

    async def get(self, request: HttpRequest) -> HttpResponse:
        """
        A text.
        """
        return HttpResponse("classy")


class ByUser(TidegateThrottle):
    """
    A throttle class that says what it allows.
    """

    quotas = "2/minute"

    def get_key(self, request: Request) -> str | None:
        """
        Whoever says who it is, and an error for those who ask for one.
        """
        if "x-error" in request.headers:
            raise LookupError(request.headers["x-error"])
        return request.headers.get("x-user")


class Slots(TidegateThrottle):
    """
    One at a time.
    """

    quotas = "1 concurrent"


class Api(APIView):
    """
    A view of REST framework.
    """

    throttle_classes: Sequence[type[BaseThrottle]] = (ByUser,)

    def get(self, request: Request) -> Response:
        """
        An object.
        """
        return Response({})


class OtherApi(Api):
    """
    Counted together with the first one.
    """


class OwnApi(Api):
    """
    Says itself what it allows, beside what its class allows.
    """

    throttle_classes = (TidegateThrottle, ByUser)
    throttle_quotas = "1/minute"


class SlotApi(APIView):
    """
    Holds a slot.
    """

    throttle_classes = (Slots,)

    def get(self, request: Request) -> StreamingHttpResponse:
        """
        A stream.
        """
        return stream(request._request)


class LateThrottle(TidegateThrottle):
    """
    A throttle class that says nothing.
    """


class EmptyApi(Api):
    """
    A mistake: nobody says what is allowed.
    """

    throttle_classes = (LateThrottle,)


PLAIN: tuple[Callable[..., object], ...] = (
    broken,
    stream,
    stream_async,
    torn,
    torn_async,
    forever,
    file,
    held,
    few,
    few_async,
    twice,
)
"""Found under their names."""

SLOTTED: tuple[Callable[..., object], ...] = (index, broken, stream, stream_async, torn, torn_async, forever)
"""Found under their names too, and with one slot each under `own_` and their names."""


def _route(prefix: str, view: Callable[..., Any]) -> URLPattern:
    name = f"{prefix}{view.__name__}"
    return path(name, limit("1 concurrent")(view) if prefix else view, name=name)


urlpatterns = [
    path("", index, name="index"),
    path("größe", index, name="size"),
    path("healthz", index, name="healthz"),
    *(_route("", view) for view in PLAIN),
    *(_route("own_", view) for view in SLOTTED),
    path("classy", Classy.as_view(), name="classy"),
    path("classy_async", ClassyAsync.as_view(), name="classy_async"),
    path("api", Api.as_view()),
    path("other_api", OtherApi.as_view()),
    path("own_api", OwnApi.as_view()),
    path("slot_api", SlotApi.as_view()),
    path("empty_api", EmptyApi.as_view()),
]
