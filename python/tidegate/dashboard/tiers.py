"""
Tiers and tenants: plans, and customers with several keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import HTMLResponse, Response

from tidegate.control import groups, rules
from tidegate.control.models import Tenant, Tier
from tidegate.control.refused import Refused
from tidegate.dashboard.key_changes import read_quotas
from tidegate.dashboard.page import Editor, Fields, Viewer, Visit, go, router

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.control.groups import Group

routes = router()
_ROWS: Final = 500
_NAME_MAX: Final = 128


@routes.get("/tiers")
def tiers(visit: Viewer) -> HTMLResponse:
    """
    All of both, with how many keys each has.
    """
    with visit.control.database.reading() as session:
        return visit.page(
            "tiers.html",
            "Tiers and tenants",
            "/tiers",
            tiers=groups.listed(session, Tier, limit=_ROWS),
            tenants=groups.listed(session, Tenant, limit=_ROWS),
            tier_keys=groups.key_counts(session, Tier),
            tenant_keys=groups.key_counts(session, Tenant),
        )


@routes.post("/tiers/save")
def save_tier(visit: Editor, fields: Fields) -> Response:
    """
    Makes a tier, or replaces what it is.
    """
    return _save(visit, Tier, fields, {})


@routes.post("/tenants/save")
def save_tenant(visit: Editor, fields: Fields) -> Response:
    """
    Makes a tenant, or replaces what it is.
    """
    return _save(visit, Tenant, fields, {"tier": fields.get("tier", "").strip() or None})


@routes.post("/tiers/delete")
def delete_tier(visit: Editor, fields: Fields) -> Response:
    """
    Removes a tier.
    """
    return _delete(visit, Tier, fields)


@routes.post("/tenants/delete")
def delete_tenant(visit: Editor, fields: Fields) -> Response:
    """
    Removes a tenant.
    """
    return _delete(visit, Tenant, fields)


def _save(visit: Visit, kind: type[Group], fields: Mapping[str, str], more: Mapping[str, Any]) -> Response:
    name = fields.get("name", "").strip()
    if not name or len(name) > _NAME_MAX or not name.isprintable():
        raise Refused("wrong", f"a name has 1 to {_NAME_MAX} characters that can be printed")
    values = {"about": fields.get("about", ""), "quotas": read_quotas(fields), **more}
    with rules.changing(visit.control.database) as session:
        groups.put(session, visit.caller, kind, name, values, reason=fields.get("reason", ""))
    return go("/tiers", done="saved")


def _delete(visit: Visit, kind: type[Group], fields: Mapping[str, str]) -> Response:
    with rules.changing(visit.control.database) as session:
        if not groups.remove(session, visit.caller, kind, fields.get("name", ""), reason=fields.get("reason", "")):
            raise Refused("unknown", "there is none of that name")
    return go("/tiers", done="deleted")
