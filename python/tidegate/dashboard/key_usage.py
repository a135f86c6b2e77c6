"""
What a key has left now, by the engine of this process.

The engine counts by the key itself, and a page is known by its digest only. So a key that somebody typed is remembered for a while, in
memory and nowhere else.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from tidegate.control.keys import BadKey, Keys
from tidegate.control.refused import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from tidegate.dashboard.page import Visit
    from tidegate.rule_limiter import RuleLimiter

KEPT: Final = timedelta(minutes=15)
KEPT_MAX: Final = 1_000
_UNKNOWN: Final = "Search for the key under Keys to see what is left of its quotas: only its digest is kept, and counters go by the key."
_ALONE: Final = "This control plane runs without a data plane beside it, so it has no counters. Open the dashboard of an instance."


class Typed:
    """
    Keys that were typed into the search of one process, by their digests.
    """

    def __init__(self) -> None:
        self._keys: OrderedDict[str, tuple[datetime, str]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, digest: str, key: str, now: datetime) -> None:
        """
        Keeps one, and forgets what is old.
        """
        with self._lock:
            self._keys.pop(digest, None)
            self._keys[digest] = (now + KEPT, key)
            while self._keys and (len(self._keys) > KEPT_MAX or next(iter(self._keys.values()))[0] <= now):
                self._keys.popitem(last=False)

    def get(self, digest: str, now: datetime) -> str | None:
        """
        One that is not too old.
        """
        with self._lock:
            until, key = self._keys.get(digest, (now, None))
        return key if until > now else None


@dataclass(frozen=True, slots=True)
class Used:
    """
    What a key has used of one quota.
    """

    rule: str
    quota: str
    mode: str
    limit: int | None
    remaining: int | None
    reset_after: float

    @property
    def used(self) -> int | None:
        """How much of the limit is taken; `None` if there is none."""
        return None if self.limit is None or self.remaining is None else max(0, self.limit - self.remaining)


@dataclass(frozen=True, slots=True)
class KeyUsage:
    """
    All of them; `missing` says why there are none.
    """

    limits: Sequence[Used] = ()
    missing: str = ""
    binding: Used | None = None


def _typed(visit: Visit) -> Typed:
    state = visit.request.app.state
    if not hasattr(state, "typed_keys"):
        state.typed_keys = Typed()
    found: Typed = state.typed_keys
    return found


def remember(visit: Visit, key: str) -> str:
    """
    Remembers a key that was typed, and answers its digest.
    """
    try:
        found = Keys.of(visit.control.settings).read(key)
    except BadKey as bad:
        raise Refused("wrong", str(bad)) from None
    if found.value is not None:
        _typed(visit).keep(found.digest, found.value, visit.now)
    return found.digest


def remembered(visit: Visit, digest: str) -> str | None:
    """
    The key of a digest, if somebody typed it not long ago.
    """
    return _typed(visit).get(digest, visit.now)


def read(visit: Visit, digest: str) -> KeyUsage:
    """
    What is left of the quotas of a key.
    """
    key = remembered(visit, digest)
    if key is None:
        return KeyUsage(missing=_UNKNOWN)
    if visit.control.service is None:
        return KeyUsage(missing=_ALONE)
    decision = visit.control.service.limiter.usage(facts(visit.control.service.limiter, key))
    if decision.degraded:
        return KeyUsage(missing=f"The store cannot be asked now ({decision.reason}), so nobody knows.")
    used = [Used(one.rule or "", one.quota, one.mode, one.limit, one.remaining, one.reset_after) for one in decision.quotas]
    return KeyUsage(used, "No rule counts this key.", binding(used))


def facts(limiter: RuleLimiter, key: str) -> dict[str, Any]:
    """
    A request of which nothing is known but its key, as the rules expect keys to come.
    """
    identity = limiter.rule_set.identity
    headers = {source.name: key for source in identity if source.kind == "header" and source.attribute == "api_key"}
    named = {"api_key": key} if identity else {"api_key": key, "client": key}
    return named | ({"headers": headers} if headers else {})


def binding(used: Sequence[Used]) -> Used | None:
    """
    The quota that comes first to its end: of those that are enforced, the one with the smallest share left.
    """
    counted = [one for one in used if one.mode == "enforce" and one.limit is not None and one.remaining is not None]
    return min(counted, key=lambda one: (one.remaining or 0) / one.limit if one.limit else 0.0, default=None)
