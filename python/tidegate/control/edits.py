"""
What has to hold of a change of a rule besides its text, whoever makes it: the API, a page, or somebody who approves it a day later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidegate.control import bodies, changes, compose, rules
from tidegate.control.refused import Refused
from tidegate.control.roles import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from sqlalchemy.orm import Session

    from tidegate.control.caller import Caller
    from tidegate.control.changes import Rollout
    from tidegate.control.control import Control
    from tidegate.control.models import ChangeRequest
    from tidegate.control.rules import Edit


DECISIONS: Final[Mapping[str, tuple[Role, Callable[..., ChangeRequest]]]] = {
    "approve": (Role.APPROVER, changes.approve),
    "reject": (Role.EDITOR, changes.reject),
    "advance": (Role.EDITOR, changes.advance),
    "finish": (Role.EDITOR, changes.finish),
    "stop": (Role.EDITOR, changes.stop),
}
"""What can be done with a change request, and who may."""


def propose(control: Control, session: Session, caller: Caller, edit: Edit, rollout: Rollout) -> ChangeRequest | None:
    """
    Begins a change that takes time: one that somebody else has to agree to, or one in steps.

    Args:
        control: The control plane.
        session: The transaction, made by `rules.changing`.
        caller: Who makes it.
        edit: The change, whose text was checked.
        rollout: Its steps.

    Returns:
        The change request; `None` if the change needs none, and can be made at once.

    Raises:
        Refused: Somebody else was faster, something else is under way, or the rule cannot come in steps.
    """
    if not control.needs_approval and not rollout.steps:
        return None
    if rollout.steps:
        _check_steps(control, session, edit)
    return changes.propose(session, caller, edit, rollout, needs_approval=control.needs_approval)


def decide(control: Control, caller: Caller, word: str, change_id: int, reason: str) -> None:
    """
    Takes a change request a step on, or ends it. Of two who do so at once one is told that it is done.

    Args:
        control: The control plane.
        caller: Who does it.
        word: One of `DECISIONS`.
        change_id: The change request.
        reason: Why.

    Raises:
        Refused: It cannot be done now, or not by them.
    """
    _, act = DECISIONS[word]
    if word == "approve":
        _check_approved(control, change_id)
    with rules.changing(control.database) as session:
        role = needed(control, word, changes.get(session, change_id), caller.at)
        if not caller.role.may(role):
            raise Refused("own", f"this needs the role {role}")
        act(session, caller, change_id, reason=reason)
    control.follower.ring()


def needed(control: Control, word: str, change: ChangeRequest, now: datetime) -> Role:
    """
    Who may do something with a change request.

    Args:
        control: The control plane.
        word: One of `DECISIONS`.
        change: The change request.
        now: The time.

    Returns:
        The least role. Steps that were agreed to, and how long each lasts, are not for one person to skip.
    """
    is_skipping = word == "finish" or (word == "advance" and changes.is_early(change, now))
    return Role.APPROVER if control.needs_approval and is_skipping else DECISIONS[word][0]


def check_again(control: Control, rule_id: str, body: dict[str, Any] | None) -> None:
    """
    Looks once more at a rule that was good at some time: files, and with them the names that are taken, may be others now.

    Args:
        control: The control plane.
        rule_id: Its name.
        body: What it is to be; `None` removes it.

    Raises:
        Refused: It is not good any more.
    """
    if body is None:
        return
    in_force = control.follower.composition.rule_set
    reading = bodies.read(rule_id, bodies.to_text(body), in_force.identity)
    compose.check(reading, in_force)
    if not reading.is_good:
        raise Refused("wrong", f"the rule cannot be taken any more: {next(one.message for one in reading.problems if one.is_error)}")


def _check_approved(control: Control, change_id: int) -> None:
    with control.database.reading() as session:
        change = changes.get(session, change_id)
    if change.state == "proposed":
        check_again(control, change.rule_id, change.body)


def _check_steps(control: Control, session: Session, edit: Edit) -> None:
    current = rules.check_base(session, edit)
    identity = control.follower.files.identity
    both = [body for body in (edit.body, None if current is None else current.body) if body is not None]
    stops = [bool(rule and rule.stop) for rule, _ in (bodies.read_stored(edit.rule_id, bodies.to_text(body), identity) for body in both)]
    if any(stops):
        raise Refused("wrong", "a rule with `stop` comes into force at once: of two versions only the first would be looked at")
