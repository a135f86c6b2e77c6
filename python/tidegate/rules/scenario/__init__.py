"""
Scenarios: requests with the decisions that are expected of a file of rules, on a clock that nobody waits for.

```yaml
rules: rules.yaml                 # relative to this file
scenarios:
  - name: login is limited by address
    steps:
      - request: {method: POST, path: /login, ip: 203.0.113.7}
        times: 5
        expect: allowed
      - request: {method: POST, path: /login, ip: 203.0.113.7}
        expect: {denied: true, rule: login, retry_after: 60}
      - advance: 60s
      - request: {method: POST, path: /login, ip: 203.0.113.7}
        expect: {allowed: true, remaining: 4}
```

With `times`, `allowed` and `denied` hold for each of the requests, and everything else for the last.
Each scenario has a limiter of its own.
"""

from tidegate.rules.scenario.descriptors import Count
from tidegate.rules.scenario.model import Advance, Ask, Scenario, Suite
from tidegate.rules.scenario.read import read_suite
from tidegate.rules.scenario.run import Failure, Outcome, run

__all__ = ["Advance", "Ask", "Count", "Failure", "Outcome", "Scenario", "Suite", "read_suite", "run"]
