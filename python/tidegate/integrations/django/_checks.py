"""
System checks: what is wrong with the settings, before the first request finds out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004  # Django's name

from tidegate import rules
from tidegate._options import StoreOptions, engine_options
from tidegate.errors import ConfigError, RuleError, TidegateError
from tidegate.integrations._exempt import Exemptions
from tidegate.integrations.django._settings import SETTING, SOURCES, read_setting
from tidegate.quota import quotas_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MIDDLEWARE = "tidegate.integrations.django.RateLimitMiddleware"

_AUTHENTICATION = "django.contrib.auth.middleware.AuthenticationMiddleware"
_CACHE = "django.middleware.cache.UpdateCacheMiddleware"


def check_settings(**_: Any) -> list[CheckMessage]:  # noqa: ANN401  # what Django passes
    """
    Looks at `TIDEGATE` and `MIDDLEWARE`. Nobody is asked: a store that is away is no mistake in the settings.

    Returns:
        What is wrong, with a hint each.
    """
    try:
        options = read_setting()
    except ConfigError as error:
        return [Error(str(error), hint=f'write {SETTING} = {{"QUOTAS": "100/minute"}}', id="tidegate.E001")]
    except ImportError as error:
        return [Error(f"{SETTING} names a function that cannot be imported: {error}", hint="write its dotted path", id="tidegate.E002")]
    return [*_values(options), *_places(options)]


def _values(options: dict[str, Any]) -> Iterator[CheckMessage]:
    if sum(name in options for name in SOURCES) > 1:
        names = ", ".join(name.upper() for name in SOURCES if name in options)
        yield Error(f"{SETTING} says twice by what to decide: {names}", hint="keep one of them", id="tidegate.E003")
    try:
        if "quotas" in options:
            quotas_of(options["quotas"])
    except TidegateError as error:
        yield Error(f"the QUOTAS of {SETTING} are wrong: {error}", hint='write quotas such as "100/minute"', id="tidegate.E004")
    try:
        if isinstance(options.get("rules"), str):
            rules.load(options["rules"])
    except (RuleError, OSError) as error:
        hint = "run `tidegate rules lint` on the file; a path that is not absolute begins where the process was started"
        yield Error(f"the RULES of {SETTING} cannot be loaded: {error}", hint=hint, id="tidegate.E005")
    try:
        engine_options(**{name: options[name] for name in StoreOptions.__annotations__ if name in options})
        Exemptions(options.get("exempt", ()))
    except TidegateError as error:
        yield Error(f"{SETTING} is wrong: {error}", hint="see the documentation of the setting", id="tidegate.E006")


def _places(options: dict[str, Any]) -> Iterator[CheckMessage]:
    places = list(settings.MIDDLEWARE)
    if MIDDLEWARE not in places:
        if any(name in options for name in SOURCES) and options.get("enabled", True):
            yield Warning(
                f"{SETTING} has limits for the whole site, and nothing applies them",
                hint=f"add {MIDDLEWARE} to MIDDLEWARE",
                id="tidegate.W001",
            )
        return
    place = places.index(MIDDLEWARE)
    if places.count(MIDDLEWARE) > 1:
        yield Warning("the middleware is there twice, and every request counts twice", hint="remove one of them", id="tidegate.W002")
    if "key" in options and _AUTHENTICATION in places[place:]:
        hint = f"if the key function reads request.user, move {MIDDLEWARE} below {_AUTHENTICATION}"
        yield Warning("the key function is asked before anybody is logged in", hint=hint, id="tidegate.W003")
    if _CACHE in places[:place]:
        hint = f"move {MIDDLEWARE} above {_CACHE}"
        yield Warning("cached responses tell clients what was left to somebody else", hint=hint, id="tidegate.W004")
