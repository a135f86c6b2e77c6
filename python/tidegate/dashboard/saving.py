"""
From a form to a change of a rule: at once, step by step, or when somebody else agrees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegate.control import edits, rules
from tidegate.control.changes import Rollout
from tidegate.control.refused import Refused
from tidegate.dashboard.page import go

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import RedirectResponse

    from tidegate.control.rules import Edit
    from tidegate.dashboard.page import Visit

ROLLOUTS: Final = {
    "once": ("At once, for everybody", ()),
    "shadow": ("In shadow, until somebody goes on", (0, 100)),
    "careful": ("Shadow, then 5 %, 25 %, 100 %, step by step", (0, 5, 25, 100)),
}
"""How a change takes effect, by the word that the form sends: a name, and the shares of keys."""


def number(fields: Mapping[str, str], name: str) -> int:
    """
    A whole number of a form.

    Raises:
        Refused: It is none.
    """
    text = fields.get(name, "").strip()
    if not text.isascii() or not text.isdigit() or len(text) > 18:  # noqa: PLR2004  # what a database can count to
        raise Refused("wrong", f"{name}: a whole number is needed")
    return int(text)


def save(visit: Visit, edit: Edit, steps: tuple[int, ...]) -> RedirectResponse:
    """
    Makes or proposes a change.

    Args:
        visit: Who does it.
        edit: The change, whose body was checked.
        steps: The shares of keys that it takes one after the other; none is at once.

    Returns:
        The way to the page that shows what came of it.

    Raises:
        Refused: Somebody else was faster, or something else is under way.
    """
    with rules.changing(visit.control.database) as session:
        change = edits.propose(visit.control, session, visit.caller, edit, Rollout(steps))
        if change is not None:
            return go("/change", id=change.id, done="proposed" if visit.control.needs_approval else "started")
        rules.put(session, visit.caller, edit)
    return go("/rules", done="deleted") if edit.body is None else go("/rule", id=edit.rule_id, done="saved")
