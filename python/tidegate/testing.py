"""
For tests of code that uses Tidegate: a clock that stands still until it is told to move.

```python
from tidegate import Limiter
from tidegate.testing import ManualClock

clock = ManualClock()
limiter = Limiter("1/minute", clock=clock)

assert limiter.allow("user:42")
assert not limiter.allow("user:42")

clock.advance(60)
assert limiter.allow("user:42")
```

With such a clock nothing sleeps: `Limiter.wait` moves the clock by the time that it would have slept. Nothing is renewed in the background
either, so a slot is lost when the test moves the clock past its lease, unless the test calls `Slot.renew`.
"""

from tidegate._native import ManualClock

__all__ = ["ManualClock"]
