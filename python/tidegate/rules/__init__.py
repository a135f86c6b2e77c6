"""
Rules: who is limited, on what, how much.

```python
from tidegate import rules

rule_set = rules.load("rules.yaml")
```
"""

from tidegate.rules.load import RuleSet, load
from tidegate.rules.model import Rule
from tidegate.rules.problem import Problem

__all__ = ["Problem", "Rule", "RuleSet", "load"]
