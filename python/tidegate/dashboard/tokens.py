"""
Tokens: who may use the control plane. For admins.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse, Response

from tidegate.control import tokens
from tidegate.control.refused import Refused
from tidegate.control.roles import Role
from tidegate.dashboard import saving
from tidegate.dashboard.page import Admin, Fields, Visit, go, router

if TYPE_CHECKING:
    from collections.abc import Mapping

routes = router()
_DAYS_MAX = 3650


@routes.get("/tokens")
def listed(visit: Admin) -> HTMLResponse:
    """
    All tokens, also those that have ended.
    """
    return _page(visit)


@routes.post("/tokens/create")
def create(visit: Admin, fields: Fields) -> HTMLResponse:
    """
    Makes one, and shows it in this answer and never again.
    """
    name = fields.get("name", "").strip()
    if not name or len(name) > tokens.NAME_MAX or not name.isprintable():
        raise Refused("wrong", f"a name has 1 to {tokens.NAME_MAX} characters that can be printed")
    role = next((role for role in Role if role == fields.get("role")), None)
    if role is None:
        raise Refused("wrong", "a role is viewer, editor, approver or admin")
    days = saving.number(fields, "days") if fields.get("days") else None
    if days is not None and not 0 < days <= _DAYS_MAX:
        raise Refused("wrong", f"a token lasts 1 to {_DAYS_MAX} days, or has no end")
    expires_at = None if days is None else visit.now + timedelta(days=days)
    try:
        with visit.control.database.session() as session:
            _, secret = tokens.create(session, visit.caller, name, role, expires_at=expires_at)
    except tokens.NameTaken:
        raise Refused(
            "taken", f"there is or was a token `{name}`; names are never given twice, because the audit log goes by them"
        ) from None
    return _page(visit, {"name": name, "secret": secret})


@routes.post("/tokens/revoke")
def revoke(visit: Admin, fields: Fields) -> Response:
    """
    Ends one at once.
    """
    with visit.control.database.session() as session:
        if tokens.revoke(session, visit.caller, saving.number(fields, "id")) is None:
            raise Refused("unknown", "there is no such token")
    return go("/tokens", done="revoked")


def _page(visit: Visit, made: Mapping[str, str] | None = None) -> HTMLResponse:
    with visit.control.database.reading() as session:
        found = tokens.listed(session)
    return visit.page("tokens.html", "Tokens", "/tokens", tokens=found, made=made)
