"""
What changes between two rule sets, in words.

```text
write_orders: 10/second becomes 20/second (looser)
login: now enforced, was shadow (tighter)
```

Secrets are never told: of keys it is said only that they changed, and of client keys only how they begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.rules.diff.change import Change, Effect
from tidegate.rules.diff.domains import domain_changes
from tidegate.rules.diff.rule_list import rule_list_changes
from tidegate.rules.diff.sections import section_changes

if TYPE_CHECKING:
    from tidegate.rules import RuleSet

__all__ = ["Change", "Effect", "diff"]


def diff(old: RuleSet, new: RuleSet) -> tuple[Change, ...]:
    """
    Compares two rule sets.

    Args:
        old: Those in force.
        new: Those that are to follow.

    Returns:
        Every change, in the order of the file: sections, then rules, then the reference service's domains. None if they decide alike.
    """
    return (*section_changes(old, new), *rule_list_changes(old, new), *domain_changes(old, new))
