# Why a request is limited, and why other rules do not apply to it.

from pathlib import Path

from tidegate import rules
from tidegate.rules.explain import explain

rule_set = rules.load(Path(__file__).parent / "rules" / "rules.yaml")
explanation = explain(rule_set, {"method": "put", "path": "/api/v1//orders/42/", "headers": {"X-Api-Key": "abc"}})

print(f"the rules see {explanation.attributes['method']} {explanation.attributes['path']} by {explanation.attributes['client']}")
for verdict in explanation.verdicts:
    print(f"{verdict.rule}: {verdict.why or verdict.outcome}")
print(explanation.summary)

assert explanation.attributes["path"] == "/api/v1/orders/42"
assert [verdict.rule for verdict in explanation.verdicts if verdict.applies] == ["per_client", "write_orders"]
assert explanation.binding.quota == "2/second"
