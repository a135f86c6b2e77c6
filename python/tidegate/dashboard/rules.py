"""
Rules in force: the list, and one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse, Response

from tidegate.control import changes as change_requests
from tidegate.control import rules as stored_rules
from tidegate.control.refused import Refused
from tidegate.control.rules import Edit
from tidegate.dashboard import in_force, rule_rows, saving, traffic
from tidegate.dashboard.page import Editor, Fields, Viewer, Visit, router

if TYPE_CHECKING:
    from tidegate.dashboard.rule_rows import Row

routes = router()


@routes.get("/rules")
def listed(visit: Viewer) -> HTMLResponse:
    """
    All rules, of files and of the database.
    """
    rows, problem = _rows(visit)
    return visit.page("rules.html", "Rules", "/rules", rules=rows, problem=problem)


@routes.get("/rule")
def one(visit: Viewer, id: str) -> HTMLResponse:  # noqa: A002  # the name in the address
    """
    One rule: its traffic, and its text.
    """
    rows, _ = _rows(visit)
    row = next((row for row in rows if row.name == id), None)
    if row is None:
        raise Refused("unknown", f"no rule `{id:.80}` is in force")
    chart = traffic.chart(row.minutes, visit.now, f"Decisions of {row.name} per minute, last hour", shadow=bool(row.shadow_denied))
    return visit.page("rule.html", row.name, "/rules", rule=row, chart=chart)


@routes.post("/rule/delete")
def delete(visit: Editor, fields: Fields) -> Response:
    """
    Removes a stored rule, or proposes to.
    """
    return saving.save(visit, Edit(fields.get("id", ""), None, saving.number(fields, "revision"), fields.get("reason", "")), ())


def _rows(visit: Visit) -> tuple[list[Row], str | None]:
    with visit.control.database.reading() as session:
        composition = in_force.composed(visit.control, session)
        stored = stored_rules.listed(session)
        changes = change_requests.listed(session, states=change_requests.OPEN)
        minutes = visit.recently("minutes", lambda: traffic.minutes_by_rule(session, visit.now))
    return rule_rows.rows(composition.rule_set, stored, changes, minutes), composition.problem
