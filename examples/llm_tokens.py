"""
A cost that is known only afterwards: reserve an estimate, settle the true number of tokens.
"""

from tidegate import Limiter
from tidegate.testing import ManualClock

limiter = Limiter("10000/minute burst 4000", clock=ManualClock())


def complete(user: str, prompt: str, tokens_used: int) -> str:
    estimate = len(prompt) + 1_000
    reservation = limiter.reserve(user, estimate)
    if not reservation:
        return f"denied: {estimate} tokens are there in {reservation.retry_after:.2f} s"
    # Here the model is called. It reports how many tokens it used.
    decision = limiter.settle(user, reservation, tokens_used)
    return f"reserved {estimate}, used {tokens_used}, {decision.remaining} left"


print(complete("ann", "Summarise this." * 10, tokens_used=400))
print(complete("ann", "Translate this." * 10, tokens_used=2_600))

# The second call used more than it reserved. What is missing was debited, so that the next one waits for it.
print(complete("ann", "And once more.", tokens_used=100))
assert limiter.peek("ann").remaining == 4_000 - 400 - 2_600
