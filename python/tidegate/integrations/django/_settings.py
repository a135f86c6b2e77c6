"""
The setting `TIDEGATE`, and who decides by it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from tidegate.errors import ConfigError
from tidegate.integrations._guard import Guard
from tidegate.integrations._routes import RouteGuards, application_options
from tidegate.integrations._settings import GuardOptions

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase

    from tidegate import Decision

    Denied = Callable[[HttpRequest, Decision], HttpResponseBase]

SETTING = "TIDEGATE"
SOURCES = ("quotas", "rules", "limiter", "service")
"""What says by what the whole site is limited. At most one of them is set."""

FUNCTIONS = ("key", "cost", "denied")
"""What can be a function, or the dotted path of one."""

NAMES = ("enabled", "quotas", "denied", *GuardOptions.__annotations__)


class State:
    """
    What the setting says, with the guards that it asks for.

    Args:
        options: The setting, as `read_setting` returns it.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self.is_enabled = bool(options.pop("enabled", True))
        """Whether anything is limited."""
        self.denied: Denied | None = options.pop("denied", None)
        """Who answers denied requests, if the site does."""
        self.routes = RouteGuards(options)
        """The guards of single views."""
        is_limited = self.is_enabled and any(name in options for name in SOURCES)
        self.guard = Guard(options.get("quotas"), **application_options(options)) if is_limited else None
        """The guard of the whole site, if it has one."""

    def close(self) -> None:
        """
        Ends the limiter of the whole site. Those of views end with their last user.
        """
        if self.guard is not None:
            self.guard.close()


def read_setting() -> dict[str, Any]:
    """
    Reads the setting.

    Returns:
        What it says, under the names of the arguments of `Guard`, with functions instead of their paths.

    Raises:
        ConfigError: It is no dictionary, or a name is not known.
        ImportError: A function is not there.
    """
    given = getattr(settings, SETTING, None) or {}
    if not isinstance(given, Mapping):
        raise ConfigError(f'{SETTING} is a dictionary such as {{"QUOTAS": "100/minute"}}, not {type(given).__name__}')
    found: dict[str, Any] = {}
    for name, value in given.items():
        key = name.lower() if isinstance(name, str) else name
        if key not in NAMES:
            raise ConfigError(f"{SETTING} has no {name!r:.40}: there are {', '.join(one.upper() for one in NAMES)}")
        if value is not None:
            found[key] = import_string(value) if key in FUNCTIONS and isinstance(value, str) else value
    return found


_lock = threading.Lock()
_state: State | None = None


def state() -> State:
    """
    What the setting says, read once.

    Returns:
        The state of this process.
    """
    global _state  # noqa: PLW0603  # settings are global, and so is what follows from them
    if _state is None:
        with _lock:
            if _state is None:
                _state = State(read_setting())
    return _state


def _forget(*, setting: str, **_: Any) -> None:  # noqa: ANN401  # what signals have
    """
    A test has changed the setting.
    """
    global _state
    if setting == SETTING:
        with _lock:
            before, _state = _state, None
        if before is not None:
            before.close()


setting_changed.connect(_forget, dispatch_uid="tidegate")
