# Scenarios run in any test suite: one test for each of them.

from pathlib import Path

from tidegate.rules.scenario import read_suite, run

suite = read_suite(Path(__file__).parent / "rules" / "scenarios.yaml")
for scenario in suite.scenarios:
    outcome = run(scenario, suite.rule_set)
    print(f"{scenario.name}: {'passed' if outcome.passed else outcome.failure}")
    assert outcome.passed
