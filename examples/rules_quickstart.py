# Rules decide on whole requests: who is counted, by which quotas, and which of them says no.

from pathlib import Path

from tidegate import Limiter

limiter = Limiter.from_rules(Path(__file__).parent / "rules" / "rules.yaml")
request = {"method": "POST", "path": "/login", "ip": "203.0.113.7", "headers": {"User-Agent": "example"}}

for attempt in range(1, 7):
    decision = limiter.check(request)
    answer = f"{decision.remaining} left" if decision else f"denied by {decision.rule}, retry after {decision.retry_after:.0f} s"
    print(f"attempt {attempt}: {answer}")

assert not decision.allowed
assert decision.rules == ("per_client", "login")

# Nobody asked for /healthz, and a rule that stops lets it pass before any other is looked at.
decision = limiter.check({"method": "GET", "path": "/healthz"})
assert decision.allowed
assert decision.quota is None
