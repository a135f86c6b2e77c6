"""
Limiters that several limits share, because they say the same.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from tidegate.rule_limiter import RuleLimiter

if TYPE_CHECKING:
    from typing import Unpack

    from tidegate import StoreOptions
    from tidegate.rules import RuleSet

_LIMITERS: WeakValueDictionary[tuple[object, ...], RuleLimiter] = WeakValueDictionary()
_LOCK = threading.Lock()


def shared_limiter(rule_set: RuleSet, **options: Unpack[StoreOptions]) -> RuleLimiter:
    """
    The limiter of these rules on this store: one, however many routes ask for it, with one set of connections.

    Args:
        rule_set: The rules.
        options: The store: as for `Limiter`.

    Returns:
        The limiter. It lives as long as somebody has it.
    """
    key = (rule_set.to_json(), *sorted(options.items(), key=lambda option: option[0]))
    with _LOCK:
        limiter = _LIMITERS.get(key)
        if limiter is None or limiter.closed:
            limiter = _LIMITERS[key] = RuleLimiter(rule_set, **options)
        return limiter
