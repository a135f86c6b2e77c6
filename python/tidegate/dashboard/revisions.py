"""
What a rule ever was, and the way back.
"""

from __future__ import annotations

from starlette.responses import HTMLResponse, Response

from tidegate.control import edits, rules
from tidegate.control.models import StoredRule
from tidegate.control.refused import Refused
from tidegate.control.rules import Edit
from tidegate.dashboard import saving, shown
from tidegate.dashboard.page import Editor, Fields, Viewer, router

routes = router()


@routes.get("/revisions")
def revisions(visit: Viewer, id: str, revision: int | None = None) -> HTMLResponse:  # noqa: A002  # the name in the address
    """
    All revisions, and one of them compared with the one before it.
    """
    with visit.control.database.reading() as session:
        found = rules.revisions(session, id)
        if not found:
            raise Refused("unknown", f"there never was a stored rule `{id:.80}`")
        stored = session.get(StoredRule, id)
        chosen = found[0] if revision is None else rules.revision(session, id, revision)
        before = rules.revisions(session, id, before=chosen.revision, limit=1)
    earlier = before[0] if before else None
    return visit.page(
        "revisions.html",
        f"Revisions of {id}",
        "/rules",
        id=id,
        revisions=found,
        current=None if stored is None else stored.revision,
        chosen=chosen.revision,
        body_chosen=chosen.body,
        before=None if earlier is None else earlier.revision,
        diff=shown.difference(shown.text_of(None if earlier is None else earlier.body), shown.text_of(chosen.body)),
    )


@routes.post("/revisions/rollback")
def rollback(visit: Editor, fields: Fields) -> Response:
    """
    Makes an earlier revision the next one, or proposes to.
    """
    rule_id, to = fields.get("id", ""), saving.number(fields, "to")
    with visit.control.database.reading() as session:
        body = rules.revision(session, rule_id, to).body
    edits.check_again(visit.control, rule_id, body)
    reason = fields.get("reason", "").strip() or f"back to revision {to}"
    return saving.save(visit, Edit(rule_id, body, saving.number(fields, "revision"), reason), ())
