"""
The audit log, newest first, by who, what and on what.
"""

from __future__ import annotations

from urllib.parse import urlencode

from sqlalchemy import select
from starlette.responses import HTMLResponse

from tidegate.control import audit
from tidegate.control.models import AuditEntry
from tidegate.dashboard.page import Viewer, router

routes = router()
_PAGE = 100


@routes.get("/audit")
def log(visit: Viewer, actor: str = "", action: str = "", subject: str = "", before: int | None = None) -> HTMLResponse:
    """
    A page of it.
    """
    wanted = audit.Filter(actor.strip() or None, action.strip() or None, subject.strip() or None)
    with visit.control.database.reading() as session:
        entries = audit.entries(session, wanted, before_id=before, limit=_PAGE)
        actions = list(session.scalars(select(AuditEntry.action).distinct().order_by(AuditEntry.action).limit(_PAGE)))
    query = {"actor": actor, "action": action, "subject": subject, "before": entries[-1].id if entries else 0}
    return visit.page(
        "audit.html",
        "Audit log",
        "/audit",
        entries=entries,
        actor=actor,
        action=action,
        subject=subject,
        actions=actions,
        older=f"/audit?{urlencode(query)}" if len(entries) == _PAGE else None,
    )
