"""
Applications for servers that run as child processes.

The variable TIDEGATE_TEST_APP names the framework, and TIDEGATE_TEST_STORE holds the address of the store; without it each process counts
for itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tidegate.integrations.asgi import RateLimit

if TYPE_CHECKING:
    from tidegate.integrations._asgi_types import Application

QUOTA = "20/hour"
"""Of each key, in the header `x-key`."""


def limited(app: Any) -> RateLimit:  # noqa: ANN401  # any framework's
    """
    The application with its limit.
    """

    def key(scope: Any) -> str:  # noqa: ANN401  # as ASGI has it
        found: bytes = dict(scope["headers"])[b"x-key"]
        return found.decode()

    # A budget that is not used up on a busy machine: a decision without the store would be counted elsewhere.
    store = os.environ.get("TIDEGATE_TEST_STORE", "memory://")
    return RateLimit(app, QUOTA, key=key, exempt=["/healthz"], store=store, budget=20.0)


def _fastapi() -> Application:
    from fastapi import FastAPI  # noqa: PLC0415  # each child has one framework

    app = FastAPI()

    @app.get("/{path}")
    async def answer(path: str) -> dict[str, int]:
        return {"pid": os.getpid()}

    return app


def _litestar() -> Any:  # noqa: ANN401  # an application without types of ASGI
    from litestar import Litestar, get  # noqa: PLC0415  # as above

    @get("/{path:str}")
    async def answer(path: str) -> dict[str, int]:
        return {"pid": os.getpid()}

    return Litestar([answer])


def _quart() -> Any:  # noqa: ANN401  # as above
    from quart import Quart  # noqa: PLC0415  # as above

    app = Quart(__name__)

    @app.get("/<path>")
    async def answer(path: str) -> dict[str, int]:
        return {"pid": os.getpid()}

    return app


def _django() -> Any:  # noqa: ANN401  # as above
    from django.conf import settings  # noqa: PLC0415  # as above
    from django.core.asgi import get_asgi_application  # noqa: PLC0415  # as above
    from django.http import HttpRequest, JsonResponse  # noqa: PLC0415  # as above
    from django.urls import path  # noqa: PLC0415  # as above

    async def answer(_request: HttpRequest, path: str) -> JsonResponse:
        return JsonResponse({"pid": os.getpid()})

    settings.configure(ROOT_URLCONF=(path("<path>", answer),), ALLOWED_HOSTS=["*"], SECRET_KEY="for tests only")
    return get_asgi_application()


_MAKE = {"fastapi": _fastapi, "litestar": _litestar, "quart": _quart, "django": _django}


app = limited(_MAKE[os.environ["TIDEGATE_TEST_APP"]]())
"""What servers look for. A child has one framework and not all: each takes a second to import."""
