"""
Tidegate decides for every request whether it may pass.

```python
from tidegate import Limiter

limiter = Limiter("10/second, 200/minute")
decision = limiter.check("user:42")
```
"""

from tidegate import errors
from tidegate._native import Decision, QuotaStatus, Stats, __version__
from tidegate.decorator import limit
from tidegate.limiter import Limiter
from tidegate.quota import Quota

__all__ = ["Decision", "Limiter", "Quota", "QuotaStatus", "Stats", "__version__", "errors", "limit"]
