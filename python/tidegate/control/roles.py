"""
Who may do what: four roles, each of which may do all that those before it may.

| role | may |
| --- | --- |
| viewer | see everything but tokens |
| editor | change rules and quotas, block and reset keys; propose changes where they need approval |
| approver | approve and reject what others propose |
| admin | make and revoke tokens |
"""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """
    What a token lets its owner do.
    """

    VIEWER = "viewer"
    EDITOR = "editor"
    APPROVER = "approver"
    ADMIN = "admin"

    def may(self, needed: Role) -> bool:
        """
        Whether it is enough.

        Args:
            needed: What is asked for.

        Returns:
            Whether this role is that one or one above it.
        """
        order = list(Role)
        return order.index(self) >= order.index(needed)
