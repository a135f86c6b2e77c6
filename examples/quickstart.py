"""
The shortest use: one limiter, one check per request, and what a denial says.
"""

from tidegate import Limiter

limiter = Limiter("3/minute")

for number in range(1, 6):
    decision = limiter.check("user:42")
    if decision:
        print(f"request {number}: allowed, {decision.remaining} left")
    else:
        print(f"request {number}: denied, admitted again in {decision.retry_after:.1f} s")

assert limiter.allow("user:7"), "every key has a quota of its own"
