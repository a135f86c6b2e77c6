"""
The application: all routes of the control plane, and what stands around them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI

from tidegate import __version__
from tidegate.control.api import (
    audit,
    blocks,
    changes,
    events,
    groups,
    health,
    problem,
    quota_files,
    quotas,
    replay,
    revisions,
    rules,
    session,
    tokens,
    trial,
    usage,
)
from tidegate.control.api.document import complete
from tidegate.control.api.perimeter import Perimeter
from tidegate.dashboard.pages import PAGES

if TYPE_CHECKING:
    from fastapi import APIRouter

    from tidegate.control.control import Control

ROUTERS: Final[tuple[APIRouter, ...]] = (
    health.router,
    session.router,
    tokens.router,
    audit.router,
    quota_files.router,
    quotas.router,
    groups.router,
    blocks.router,
    usage.router,
    trial.router,
    rules.router,
    revisions.router,
    replay.router,
    changes.router,
    events.router,
)
"""Every group of routes. Who may call a route says its dependency `needs(...)`; tests/control/test_roles.py has the whole table."""

BODY_BYTES: Final[dict[str, int]] = {quota_files.PATH: quota_files.BODY_BYTES}
"""The most bytes of a body, by the paths of routes that take more than `perimeter.BODY_BYTES`."""


def build(control: Control) -> FastAPI:
    """
    Makes the application.

    Args:
        control: What its routes work on.

    Returns:
        The application.
    """
    app = FastAPI(
        title="Tidegate control plane",
        version=__version__,
        # The pages of documentation load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
    )
    app.state.control = control
    problem.install(app)
    for router in (*ROUTERS, *PAGES):
        app.include_router(router)
    plain = app.openapi
    # Made when it is first asked for; most processes never are.
    app.openapi = cache(lambda: complete(plain(), ROUTERS))  # type: ignore[method-assign]  # as FastAPI says to do it
    app.add_middleware(Perimeter, hosts=control.hosts, body_bytes=BODY_BYTES)
    return app
