"""
Quotas replaced while the limiter is in use: what was counted stays counted, and a wrong quota changes nothing.
"""

from tidegate import Limiter, errors
from tidegate.testing import ManualClock

clock = ManualClock()
limiter = Limiter("10/minute", clock=clock)
for _ in range(8):
    limiter.check("user:42")

limiter.load("20/minute")
print(f"raised to 20: {limiter.peek('user:42').remaining} left, 8 are used")
assert limiter.peek("user:42").remaining == 20 - 8

limiter.load("5/minute")
print(f"lowered to 5: {limiter.peek('user:42')}")
assert not limiter.peek("user:42")

try:
    limiter.load("5/minuet")
except errors.QuotaError as error:
    print(f"refused ({error.code}): {error.hint} In force: {limiter.quotas[0]}")

# Another window has other counters. For one old window the old quota is asked as well.
limiter.load("100/hour")
print(f"changed to 100/hour: {[status.quota for status in limiter.peek('user:42').quotas]}")
clock.advance(60)
print(f"a minute later:      {[status.quota for status in limiter.peek('user:42').quotas]}")
assert len(limiter.peek("user:42").quotas) == 1
