"""
What limiters of every kind are told about their store: checked once, here.
"""

from __future__ import annotations

from typing import Any

from tidegate._native import ManualClock
from tidegate.errors import ConfigError, UsageError


def engine_options(*, store: str, max_keys: int, clock: ManualClock | None, on_store_error: str) -> dict[str, Any]:
    """
    Checks the options of an engine.

    Args:
        store: Where the counters live.
        max_keys: The most states that are held.
        clock: A clock of the caller's, for tests.
        on_store_error: What to answer when the store cannot.

    Returns:
        The options as the compiled module takes them.

    Raises:
        ConfigError: The store is not known.
        UsageError: An argument is wrong.
    """
    _require_memory(store)
    if clock is not None and not isinstance(clock, ManualClock):
        raise UsageError(f"the clock is a ManualClock, not {type(clock).__name__}")
    if type(max_keys) is not int or not 1 <= max_keys < 2**63:
        raise UsageError("max_keys is a whole number from 1 up")
    return {"store": store, "max_keys": max_keys, "clock": clock, "on_store_error": on_store_error}


def _require_memory(store: str) -> None:
    if not isinstance(store, str):
        raise UsageError(f"the store is a text such as memory://, not {type(store).__name__}")
    # Only the scheme is shown: the rest of an address may hold a password.
    scheme, separator, rest = store.partition("://")
    if not separator:
        raise ConfigError("the store is no address: write memory://")
    if scheme != "memory":
        raise ConfigError(f"the store {scheme:.20}:// is not available in this version: write memory://")
    if rest:
        raise ConfigError("the memory store takes no address: write memory://")
