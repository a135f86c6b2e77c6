"""
Several quotas in one check: all of them are charged or none is, and the decision names the one that binds.
"""

from tidegate import Limiter
from tidegate.testing import ManualClock

clock = ManualClock()
limiter = Limiter("3/second, 5/minute", clock=clock)

for second in range(3):
    for _ in range(4):
        decision = limiter.check("user:42")
        binding = decision.quota
        assert binding is not None  # only a request to which no rule applies has none
        answer = "allowed" if decision else f"denied by {binding.quota}, retry after {decision.retry_after:g} s"
        left = ", ".join(f"{status.quota}: {status.remaining} left" for status in decision.quotas)
        print(f"t={second} s  {answer:40} ({left})")
    clock.advance(1)

# The denials by 3/second took nothing from 5/minute: exactly five requests passed.
assert limiter.stats().allowed == 3 + 2
