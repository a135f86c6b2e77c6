"""
What limiters of every kind are told about their store: checked once, here.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from tidegate._native import ManualClock
from tidegate.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from typing import Unpack

BUDGET = 0.005
"""How long a decision on a shared store may take, in seconds."""

SECRET_VARIABLE = "TIDEGATE_SECRET"  # noqa: S105  # the name of the variable

_BUDGET_MAX = 60.0
_KINDS = ("{}", "{}s", "{}+sentinel", "{}s+sentinel", "{}+cluster", "{}s+cluster")
_SCHEMES = [*(kind.format(name) for name in ("redis", "valkey") for kind in _KINDS), "unix"]


class StoreOptions(TypedDict, total=False):
    """
    What a limiter may be told about its store; all of it has a default.
    """

    store: str
    """Where the counters live: `memory://` (the default), in this process, or the address of a Redis or Valkey that many processes share:
    `redis://`, `rediss://` (TLS), `unix://`, `redis+sentinel://`, `redis+cluster://`, each also with `valkey`."""
    on_store_error: Literal["local", "allow", "deny"]
    """What to answer when the store cannot: `local` (the default) counts this process's fair share here, `allow` lets everything pass,
    `deny` nothing. A rule can say otherwise. When `memory://` is full, `local` denies."""
    budget: float
    """Shared stores: how long a decision may take in seconds, with all waiting, before it is taken without the store. Default: 0.005."""
    secret: str | bytes
    """Shared stores: what keys are digested with. It must be the same wherever the store is shared. Default: the environment variable
    `TIDEGATE_SECRET`, else a constant that everybody knows."""
    deny_cache: int
    """Shared stores: how many denials are remembered, so that who is denied costs the store nothing. Default: 65,536; 0 switches it off."""
    instances: int
    """Shared stores: how many processes share it at least. Heartbeats count them; this number is for those that start while it is away.
    Default: 1."""
    max_keys: int
    """The most states that this process holds; when it is reached, those nearest to full credit go first. Default: 10,000,000."""
    clock: ManualClock | None
    """`memory://`: a clock of your own, for tests."""


def engine_options(**options: Unpack[StoreOptions]) -> dict[str, Any]:
    """
    Checks the options of an engine.

    Args:
        options: As `StoreOptions`.

    Returns:
        The options as the compiled module takes them.

    Raises:
        ConfigError: The store is not known.
        UsageError: An argument is wrong.
    """
    unknown = [name for name in options if name not in StoreOptions.__annotations__]
    if unknown:
        raise TypeError(f"unknown option {unknown[0]!r}: the options are {', '.join(StoreOptions.__annotations__)}")
    store, clock = options.get("store", "memory://"), options.get("clock")
    is_shared = _is_shared(store)
    if clock is not None and not isinstance(clock, ManualClock):
        raise UsageError(f"the clock is a ManualClock, not {type(clock).__name__}")
    if clock is not None and is_shared:
        raise UsageError("a shared store goes by its servers' clock; a clock of your own works with memory:// only")
    max_keys = options.get("max_keys", 10_000_000)
    if type(max_keys) is not int or not 1 <= max_keys < 2**63:
        raise UsageError("max_keys is a whole number from 1 up")
    deny_cache = options.get("deny_cache", 65_536)
    if type(deny_cache) is not int or not 0 <= deny_cache <= 2**24:
        raise UsageError("deny_cache is a whole number from 0 to 16,777,216")
    instances = options.get("instances", 1)
    if type(instances) is not int or not 1 <= instances < 2**31:
        raise UsageError("instances is a whole number from 1 up")
    return {
        "store": store,
        "max_keys": max_keys,
        "clock": clock,
        "on_store_error": options.get("on_store_error", "local"),
        "budget_ns": _budget_ns(options.get("budget", BUDGET)),
        "secret": _secret(options.get("secret")),
        "deny_cache": deny_cache,
        "instances": instances,
    }


def _is_shared(store: str) -> bool:
    if not isinstance(store, str):
        raise UsageError(f"the store is a text such as memory:// or redis://localhost, not {type(store).__name__}")
    # Only the scheme is shown: the rest of an address may hold a password.
    scheme, separator, rest = store.partition("://")
    if not separator:
        raise ConfigError("the store is no address: write memory://, or redis://host:6379")
    if scheme == "memory":
        if rest:
            raise ConfigError("the memory store takes no address: write memory://")
        return False
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme):
        raise ConfigError("the store is no address: write memory://, or redis://host:6379")
    if scheme not in _SCHEMES:
        known = ", ".join(f"{name}://" for name in _SCHEMES)
        raise ConfigError(f"the store {scheme:.20}:// is not known: write memory://, or one of {known}")
    return True


def _budget_ns(budget: float) -> int:
    if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not 0 < budget <= _BUDGET_MAX:
        raise UsageError(f"the budget is a number of seconds above 0, up to {_BUDGET_MAX:.0f}")
    return max(1, round(budget * 1e9))


def _secret(secret: str | bytes | None) -> bytes:
    given = os.environ.get(SECRET_VARIABLE, "") if secret is None else secret
    if not isinstance(given, (str, bytes)):
        raise UsageError(f"the secret is a text or bytes, not {type(given).__name__}")
    given = given.encode("utf-8", "surrogatepass") if isinstance(given, str) else given
    return hashlib.blake2b(given, digest_size=16, person=b"tidegate keys").digest()
