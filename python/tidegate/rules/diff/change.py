"""
One change.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Effect: TypeAlias = Literal["looser", "tighter"]
"""More or less may pass; what is neither is only different."""


@dataclass(frozen=True, slots=True)
class Change:
    """
    One change, in words.

    Args:
        about: The rule, the section or the domain.
        what: Which part of it, such as `quotas`, or `added`, `removed`, `renamed`.
        text: What changes.
        effect: Whether more or less may pass, if that can be said.
        note: What becomes of counters, and what else to know.
    """

    about: str
    what: str
    text: str
    effect: Effect | None = None
    note: str | None = None

    def __str__(self) -> str:
        return f"{self.about}: {self.text}" if self.effect is None else f"{self.about}: {self.text} ({self.effect})"

    def to_dict(self) -> dict[str, Any]:
        """
        The same for programs.

        Returns:
            What JSON can say.
        """
        return asdict(self)


def by_size(old: float, new: float) -> Effect | None:
    """
    The effect of a number of which more lets more pass.

    Args:
        old: As it was.
        new: As it will be.

    Returns:
        The effect.
    """
    return None if new == old else "looser" if new > old else "tighter"


def opposite(effect: Effect | None) -> Effect | None:
    """
    The effect of the change back.

    Args:
        effect: The effect.

    Returns:
        Its opposite.
    """
    return None if effect is None else "tighter" if effect == "looser" else "looser"


def together(effects: list[Effect | None]) -> Effect | None:
    """
    The effect of several changes at once.

    Args:
        effects: Their effects.

    Returns:
        The effect that all have.
    """
    return effects[0] if effects and all(effect == effects[0] for effect in effects) else None
