"""
What a key has left now, by the counters that this process sees.

The engine counts by the key itself, and a page is known by its digest only. So a key that somebody typed is remembered for a while, in
memory and nowhere else.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tidegate.control import usage
from tidegate.control.keys import BadKey, Keys
from tidegate.control.refused import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from tidegate.control.usage import Used
    from tidegate.dashboard.page import Visit

KEPT: Final = timedelta(minutes=15)
KEPT_MAX: Final = 1_000
_UNKNOWN: Final = "Search for the key under Keys to see what is left of its quotas: only its digest is kept, and counters go by the key."
_ALONE: Final = "The counters are out of reach here: open the dashboard of an instance, or set `store` to the one that instances share."


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
    if visit.control.limiter is None:
        return KeyUsage(missing=_ALONE)
    used, why = usage.now(visit.control.limiter, key)
    if why is not None:
        return KeyUsage(missing=f"The store cannot be asked now ({why}), so nobody knows.")
    return KeyUsage(used, "No rule counts this key.", binding(used))


def binding(used: Sequence[Used]) -> Used | None:
    """
    The quota that comes first to its end: of those that are enforced, the one with the smallest share left.
    """
    counted = [one for one in used if one.mode == "enforce" and one.limit is not None and one.remaining is not None]
    return min(counted, key=lambda one: (one.remaining or 0) / one.limit if one.limit else 0.0, default=None)
