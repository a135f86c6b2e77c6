"""
Tidegate decides for every request whether it may pass.

```python
from tidegate import Limiter

limiter = Limiter("10/second, 200/minute")
decision = limiter.check("user:42")
```
"""

import typing as _typing

from tidegate import errors
from tidegate._native import Decision, QuotaStatus, Stats, __version__
from tidegate.decorator import limit
from tidegate.limiter import Limiter
from tidegate.quota import Quota

if _typing.TYPE_CHECKING:
    from tidegate.rule_limiter import RuleLimiter

__all__ = ["Decision", "Limiter", "Quota", "QuotaStatus", "RuleLimiter", "Stats", "__version__", "errors", "limit"]


def __getattr__(name: str) -> object:
    # Rules need a YAML parser, whose import a process that limits keys should not wait for.
    if name == "RuleLimiter":
        from tidegate.rule_limiter import RuleLimiter  # noqa: PLC0415

        return RuleLimiter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
