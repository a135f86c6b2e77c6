"""
Limits that stand above the route of their view, and so limit nothing.

Flask's `@app.get` registers what it is given and returns it unchanged. A limit that is applied afterwards is a function that nobody calls.
"""

from __future__ import annotations

import contextlib
import logging
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flask import Flask

    View = Callable[..., Any]

_LIMITED = "_tidegate_limited"
_LOG = logging.getLogger("tidegate.integrations")

_APPS: weakref.WeakSet[Flask] = weakref.WeakSet()
"""Applications with limits: a view may be one of several."""


def note(view: View, limited: View) -> None:
    """
    Remembers that a view was limited.

    Args:
        view: As it was.
        limited: What is to be called instead.
    """
    # Who cannot be written on cannot be found out.
    with contextlib.suppress(AttributeError, TypeError):
        setattr(view, _LIMITED, (weakref.ref(view), [*_limits_of(view), weakref.ref(limited)]))


def tell_misplaced(app: Flask) -> None:
    """
    Says of which views the limits limit nothing.

    A view may be registered without its limit on purpose, beside the one that has it or in another application: then nothing is said.

    Args:
        app: The application, with all its views.
    """
    _APPS.add(app)
    called = {id(part) for one in _APPS for view in one.view_functions.values() for part in _layers(view)}
    for endpoint, view in app.view_functions.items():
        alive = [limited for limited in (limited() for limited in _limits_of(view)) if limited is not None]
        if alive and not any(id(limited) in called for limited in alive):
            _LOG.error("the view %r is not limited: its @limit stands above the route, and must stand below it", endpoint)


def _limits_of(view: View) -> list[weakref.ref[View]]:
    # Decorators copy what is written on a view to what they make of it: only what was written on this one counts.
    of, limits = getattr(view, _LIMITED, None) or (lambda: None, [])
    return limits if of() is view else []


def _layers(view: Any) -> Iterator[Any]:  # noqa: ANN401  # whatever decorators made of it
    while view is not None:
        yield view
        view = getattr(view, "__wrapped__", None)
