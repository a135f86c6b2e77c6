# Rules on a shared store: all rules of a request are charged together or not at all, by whichever machine it reaches.
# It needs a Redis or Valkey: at REDIS_URL, or at redis://localhost:6379.

import os
from ipaddress import IPv6Address
from pathlib import Path
from uuid import uuid4

from tidegate import Limiter

STORE = os.environ.get("REDIS_URL", "redis://localhost:6379")
RULES = Path(__file__).parent / "rules" / "rules.yaml"

# Two limiters, as two machines would have them. Each sees what the other one took.
with Limiter.from_rules(RULES, store=STORE, budget=2) as one, Limiter.from_rules(RULES, store=STORE, budget=2) as two:
    assert one.health().status == "ok", f"there is no Redis at {STORE}: set REDIS_URL"
    headers = {"X-Api-Key": str(uuid4())}  # a new client, so that each run starts with nothing used
    request = {"method": "POST", "path": "/login", "ip": str(IPv6Address(uuid4().int)), "headers": headers}
    for attempt in range(1, 7):
        decision = (one if attempt % 2 else two).check(request)
        answer = f"{decision.remaining} left" if decision else f"denied by {decision.rule}, retry after {decision.retry_after:.0f} s"
        print(f"attempt {attempt}: {answer}")
    assert decision.rule == "login"

    # The denied attempt took nothing from the other rule.
    decision = two.check({"method": "GET", "path": "/", "headers": headers})
    print(f"{decision.rule}: {decision.remaining} left of {decision.limit}")
    assert decision.remaining == 100 - 5 - 1
