"""
Tidegate decides for every request whether it may pass.

```python
from tidegate import Limiter

limiter = Limiter("10/second, 200/minute")
decision = limiter.check("user:42")
```
"""

import os as _os
import typing as _typing

from tidegate import errors
from tidegate._native import Decision, QuotaStatus, Stats, __version__
from tidegate._native import forked as _forked
from tidegate._options import StoreOptions
from tidegate.decorator import limit
from tidegate.health import Health, ShardHealth
from tidegate.limiter import Limiter
from tidegate.quota import Quota

if _typing.TYPE_CHECKING:
    from tidegate.client import Client
    from tidegate.rule_limiter import RuleLimiter

__all__ = [
    "Client",
    "Decision",
    "Health",
    "Limiter",
    "Quota",
    "QuotaStatus",
    "RuleLimiter",
    "ShardHealth",
    "Stats",
    "StoreOptions",
    "__version__",
    "errors",
    "limit",
]

# A forked child has the memory of its parent's connections, and neither the thread nor the right to use them.
_os.register_at_fork(after_in_child=_forked)


def __getattr__(name: str) -> object:
    # Rules need a YAML parser, whose import a process that limits keys should not wait for.
    if name == "RuleLimiter":
        from tidegate.rule_limiter import RuleLimiter  # noqa: PLC0415

        return RuleLimiter
    # And one that decides by itself needs no connections.
    if name == "Client":
        from tidegate.client import Client  # noqa: PLC0415

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
