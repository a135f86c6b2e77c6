"""
Change requests: who proposes what, who agrees, and how far it has come.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from starlette.responses import HTMLResponse, Response

from tidegate.control import changes, edits
from tidegate.control.models import RuleRevision
from tidegate.control.refused import Refused
from tidegate.control.roles import Role
from tidegate.dashboard import saving, shown, traffic, words
from tidegate.dashboard.page import Editor, Fields, Viewer, Visit, go, router
from tidegate.dashboard.traffic import Count

if TYPE_CHECKING:
    from tidegate.control.models import ChangeRequest

routes = router()


@dataclass(frozen=True, slots=True)
class Action:
    """
    What somebody may do to a change, as a button.
    """

    word: str
    name: str
    is_main: bool = False
    is_danger: bool = False


_DONE: Final = {"approve": "approved", "reject": "rejected", "advance": "advanced", "finish": "finished", "stop": "stopped"}
"""What is told afterwards."""


@routes.get("/changes")
def listed(visit: Viewer, show: str = "open") -> HTMLResponse:
    """
    Those that are open, or all.
    """
    which = "all" if show == "all" else "open"
    with visit.control.database.reading() as session:
        found = changes.listed(session, states=changes.STATES if which == "all" else changes.OPEN)
    return visit.page("changes.html", "Change requests", "/changes", changes=found, show=which)


@routes.get("/change")
def one(visit: Viewer, id: int) -> HTMLResponse:  # noqa: A002  # the name in the address
    """
    One change: what it changes, how far it has come, and what can be done about it.
    """
    with visit.control.database.reading() as session:
        change = changes.get(session, id)
        base = session.get(RuleRevision, (change.rule_id, change.base_revision))
        counts = traffic.by_rule(session, visit.now)
    actions = _actions(visit, change)
    return visit.page(
        "change.html",
        f"Change #{change.id}",
        "/changes",
        change=change,
        diff=shown.difference(shown.text_of(None if base is None else base.body), shown.text_of(change.body)),
        next_step=_next_step(visit, change),
        outcome=_outcome(change, counts.get(f"{change.rule_id}~{change.id}") or counts.get(change.rule_id)),
        actions=actions,
        why_not=_why_not(visit, change),
    )


@routes.post("/change/decide")
def decide(visit: Editor, fields: Fields) -> Response:
    """
    Approves, rejects, advances, finishes or stops a change.
    """
    number, word = saving.number(fields, "id"), fields.get("action", "")
    if word not in edits.DECISIONS:
        raise Refused("wrong", "there is no such action")
    edits.decide(visit.control, visit.caller, word, number, fields.get("reason", ""))
    return go("/change", id=number, done=_DONE[word])


def _actions(visit: Visit, change: ChangeRequest) -> list[Action]:
    if not visit.may(Role.EDITOR):
        return []
    is_own = change.by == visit.caller.name
    if change.state == "proposed":
        approve = [Action("approve", "Approve", is_main=True)] if visit.may(Role.APPROVER) and not is_own else []
        reject = [Action("reject", "Withdraw" if is_own else "Reject", is_danger=True)] if is_own or visit.may(Role.APPROVER) else []
        return approve + reject
    if change.state in {"shadow", "rolling"}:
        is_last = change.step + 1 >= len(change.steps)

        def may(word: str) -> bool:
            return visit.may(edits.needed(visit.control, word, change, visit.now))

        return [
            *([] if is_last or not may("advance") else [Action("advance", f"Go on to {change.steps[change.step + 1]} %", is_main=True)]),
            *([Action("finish", "Finish for everybody", is_main=is_last)] if may("finish") else []),
            Action("stop", "Stop", is_danger=True),
        ]
    return []


def _why_not(visit: Visit, change: ChangeRequest) -> str:
    if change.state != "proposed":
        return ""
    if change.by == visit.caller.name:
        return "A second person has to approve it, not its author."
    return "" if visit.may(Role.APPROVER) else "Somebody with the role approver has to approve it."


def _next_step(visit: Visit, change: ChangeRequest) -> str:
    if change.state == "proposed":
        return "when it is approved"
    if change.state not in {"shadow", "rolling"}:
        return "none: it has ended"
    if not change.step_seconds or change.step_at is None:
        return "when somebody goes on"
    return words.ago(change.step_at + timedelta(seconds=change.step_seconds), visit.now)


def _outcome(change: ChangeRequest, count: Count | None) -> str:
    if change.state not in {"shadow", "rolling"} or count is None or not count.total:
        return ""
    return (
        f"In the last hour the new version met {words.plural(count.total, 'request')}: "
        f"{words.count(count.denied)} denied, {words.count(count.shadow_denied)} more would be if it were enforced for everybody."
    )
