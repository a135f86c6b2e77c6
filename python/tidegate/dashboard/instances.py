"""
Every data plane with the change that it has in force.
"""

from __future__ import annotations

from sqlalchemy import select
from starlette.responses import HTMLResponse

from tidegate.control.models import Version
from tidegate.dashboard import fleet
from tidegate.dashboard.page import Viewer, router

routes = router()


@routes.get("/instances")
def instances(visit: Viewer) -> HTMLResponse:
    """
    All of them, those that are up first.
    """
    with visit.control.database.reading() as session:
        found = fleet.read(session, visit.now)
        number = session.scalar(select(Version.number)) or 0
    return visit.page("instances.html", "Instances", "/instances", fleet=found, number=number)
