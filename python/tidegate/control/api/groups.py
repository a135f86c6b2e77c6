"""
Tiers and tenants: `/admin/v1/tiers`, `/admin/v1/tenants`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from tidegate.control import groups
from tidegate.control.api.access import Caller, Control, InControl, needs
from tidegate.control.api.fields import InPath, Limit, Name, QuotasByRule, Reason, WhyQuery, Word, read_quotas
from tidegate.control.api.problem import Problem, described
from tidegate.control.groups import Group
from tidegate.control.models import Tenant, Tier
from tidegate.control.roles import Role

router = APIRouter(prefix="/admin/v1", tags=["quotas"])
ABOUT_MAX = 2000


class NewTier(BaseModel):
    """
    What a tier is to be.
    """

    model_config = ConfigDict(extra="forbid")
    about: Annotated[str, Field(max_length=ABOUT_MAX)] = ""
    quotas: QuotasByRule = Field(default_factory=dict)
    """By rule. A rule that has a tier of this name in its own text needs none here."""
    reason: Reason = ""


class NewTenant(NewTier):
    """
    What a tenant is to be.
    """

    tier: Name | None = None
    """The tier of its keys, unless they have another."""


class ShownTier(BaseModel):
    """
    A plan that customers are put on.
    """

    model_config = ConfigDict(from_attributes=True)
    name: str
    about: str
    quotas: dict[str, Any]
    updated_at: datetime
    keys: int = 0
    """How many keys name it themselves."""


class ShownTenant(ShownTier):
    """
    A customer with several keys.
    """

    tier: str | None


class Tiers(BaseModel):
    """
    A page of tiers.
    """

    tiers: list[ShownTier]
    next: str | None
    """What `after` has to be for the next page; null on the last one."""


class Tenants(BaseModel):
    """
    A page of tenants.
    """

    tenants: list[ShownTenant]
    next: str | None
    """What `after` has to be for the next page; null on the last one."""


@router.get("/tiers", responses=described(401, 403, 422, 503))
def list_tiers(
    control: InControl, _caller: Annotated[Caller, needs(Role.VIEWER)], search: Word = None, after: Word = None, limit: Limit = 100
) -> Tiers:
    """
    Lists tiers whose names begin with `search`.
    """
    found, following = _listed(control, Tier, search, after, limit)
    return Tiers(tiers=list(map(ShownTier.model_validate, found)), next=following)


@router.get("/tiers/{name}", responses=described(401, 403, 404, 422, 503))
def read_tier(name: InPath, control: InControl, _caller: Annotated[Caller, needs(Role.VIEWER)]) -> ShownTier:
    """
    Shows a tier.
    """
    return ShownTier.model_validate(_read(control, Tier, name))


@router.put("/tiers/{name}", responses=described(401, 403, 413, 422, 503))
def put_tier(name: InPath, body: NewTier, control: InControl, caller: Annotated[Caller, needs(Role.EDITOR)]) -> ShownTier:
    """
    Makes a tier, or replaces what it is, for all keys on it at once.
    """
    return ShownTier.model_validate(_put(control, caller, Tier, name, body))


@router.delete("/tiers/{name}", status_code=204, responses=described(401, 403, 404, 422, 503))
def remove_tier(name: InPath, control: InControl, caller: Annotated[Caller, needs(Role.EDITOR)], reason: WhyQuery = "") -> None:
    """
    Removes a tier. Keys on it have what rules say of a tier of that name, or else the defaults.
    """
    _remove(control, caller, Tier, name, reason)


@router.get("/tenants", responses=described(401, 403, 422, 503))
def list_tenants(
    control: InControl, _caller: Annotated[Caller, needs(Role.VIEWER)], search: Word = None, after: Word = None, limit: Limit = 100
) -> Tenants:
    """
    Lists tenants whose names begin with `search`.
    """
    found, following = _listed(control, Tenant, search, after, limit)
    return Tenants(tenants=list(map(ShownTenant.model_validate, found)), next=following)


@router.get("/tenants/{name}", responses=described(401, 403, 404, 422, 503))
def read_tenant(name: InPath, control: InControl, _caller: Annotated[Caller, needs(Role.VIEWER)]) -> ShownTenant:
    """
    Shows a tenant.
    """
    return ShownTenant.model_validate(_read(control, Tenant, name))


@router.put("/tenants/{name}", responses=described(401, 403, 413, 422, 503))
def put_tenant(name: InPath, body: NewTenant, control: InControl, caller: Annotated[Caller, needs(Role.EDITOR)]) -> ShownTenant:
    """
    Makes a tenant, or replaces what it is.
    """
    return ShownTenant.model_validate(_put(control, caller, Tenant, name, body))


@router.delete("/tenants/{name}", status_code=204, responses=described(401, 403, 404, 422, 503))
def remove_tenant(name: InPath, control: InControl, caller: Annotated[Caller, needs(Role.EDITOR)], reason: WhyQuery = "") -> None:
    """
    Removes a tenant. Its keys stay its keys, and are counted together as before.
    """
    _remove(control, caller, Tenant, name, reason)


def _listed(
    control: Control, kind: type[Group], search: str | None, after: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    with control.database.reading() as session:
        found = groups.listed(session, kind, start=search or "", after=after or "", limit=limit + 1)
        counts = groups.key_counts(session, kind)
        shown = [_shown(group, counts.get(group.name, 0)) for group in found[:limit]]
    return shown, shown[-1]["name"] if len(found) > limit else None


def _read(control: Control, kind: type[Group], name: str) -> dict[str, Any]:
    with control.database.reading() as session:
        group = session.get(kind, name)
        if group is None:
            raise Problem(404, "there is none of that name")
        return _shown(group, groups.key_counts(session, kind).get(name, 0))


def _shown(group: Tier | Tenant, keys: int) -> dict[str, Any]:
    return {"name": group.name, "updated_at": group.updated_at, "keys": keys, **groups.shown(group)}


def _put(control: Control, caller: Caller, kind: type[Group], name: str, body: NewTier) -> dict[str, Any]:
    values = body.model_dump(exclude={"quotas", "reason"}) | {"quotas": read_quotas(body.quotas)}
    with control.database.session() as session:
        groups.put(session, caller, kind, name, values, reason=body.reason)
        control.database.changed(session)
    return _read(control, kind, name)


def _remove(control: Control, caller: Caller, kind: type[Group], name: str, reason: str) -> None:
    with control.database.session() as session:
        if not groups.remove(session, caller, kind, name, reason=reason):
            raise Problem(404, "there is none of that name")
        control.database.changed(session)
