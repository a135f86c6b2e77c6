"""
What every integration passes on to its guard, with types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate._options import StoreOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from tidegate.integrations._decider import Decider
    from tidegate.integrations._functions import Cost, Key
    from tidegate.rules import RuleSet


class GuardArguments(StoreOptions, total=False):
    """
    The named arguments of a `Guard`; its documentation says what they mean.
    """

    rules: str | os.PathLike[str] | RuleSet | None
    limiter: Decider | None
    service: str | None
    watch: bool
    key: Key | None
    cost: Cost | None
    exempt: Iterable[str]
    headers: bool
    trusted_proxies: Iterable[str]
    name: str
