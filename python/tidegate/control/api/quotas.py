"""
Quotas of customers, by API key: `/admin/v1/quotas`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from tidegate.control import blocks, quotas
from tidegate.control.api.access import Caller, Control, InControl, needs
from tidegate.control.api.fields import ApiKey, Limit, Name, QuotasByRule, Reason, WhyQuery, Word, key_of, read_quotas
from tidegate.control.api.problem import Problem, described
from tidegate.control.keys import Key
from tidegate.control.models import QuotaOverride
from tidegate.control.roles import Role

router = APIRouter(prefix="/admin/v1/quotas", tags=["quotas"])
ID_MAX = 2**63 - 1


class Wanted(BaseModel):
    """
    What a key is to have, from one time on.
    """

    model_config = ConfigDict(extra="forbid")
    tenant: Name | None = None
    """Whose key it is: what the attribute `tenant` of its requests will say."""
    tier: Name | None = None
    """Its plan: what the attribute `tier` will say."""
    quotas: QuotasByRule = Field(default_factory=dict)
    """Quotas of its own, by rule: a text such as `500/minute`, or several that must all pass."""
    effective_at: AwareDatetime | None = None
    """From when on. An override replaces that which begins at the same time; without it, that which always held."""
    expires_at: AwareDatetime | None = None
    reason: Reason = ""

    @model_validator(mode="after")
    def ends_after_it_begins(self) -> Wanted:
        """
        Time goes on.
        """
        if self.effective_at is not None and self.expires_at is not None and self.expires_at <= self.effective_at:
            raise ValueError("it ends before it begins")
        return self


class Grant(BaseModel):
    """
    More for a key, for a time.
    """

    model_config = ConfigDict(extra="forbid")
    quotas: Annotated[QuotasByRule, Field(min_length=1)]
    """The raised quotas, by rule."""
    expires_at: AwareDatetime
    reason: Annotated[str, Field(min_length=1, max_length=quotas.REASON_MAX)]


class Override(BaseModel):
    """
    What a key has from one time to another.
    """

    model_config = ConfigDict(from_attributes=True)
    id: int
    digest: str
    shown: str
    """What may be seen of the key."""
    tenant: str | None
    tier: str | None
    quotas: dict[str, Any]
    effective_at: datetime | None
    expires_at: datetime | None
    reason: str
    updated_at: datetime
    updated_by: str


class InForce(BaseModel):
    """
    What a key has now, of all its overrides.
    """

    tenant: str | None
    tier: str | None
    quotas: dict[str, list[str]]


class Member(BaseModel):
    """
    One customer's key.
    """

    digest: str
    shown: str
    in_force: InForce
    overrides: list[Override]
    """All of them, also those that begin later; of those that hold, later ones win."""
    is_blocked: bool
    blocked_until: datetime | None
    warnings: list[str]
    """What is allowed and probably not meant."""


class Page(BaseModel):
    """
    A page of overrides.
    """

    overrides: list[Override]
    next: int | None
    """What `after` has to be for the next page; null on the last one."""


@router.get("", responses=described(401, 403, 422, 503))
def list_all(  # noqa: PLR0913, PLR0917  # as many filters
    control: InControl,
    _caller: Annotated[Caller, needs(Role.VIEWER)],
    tenant: Word = None,
    tier: Word = None,
    search: Word = None,
    after: Annotated[int, Query(ge=0, le=ID_MAX)] = 0,
    limit: Limit = 100,
) -> Page:
    """
    Lists overrides. `search` is a key, the beginning of a digest, or of what is shown of keys.
    """
    wanted = quotas.Filter(tenant, tier, *_search(control, search))
    with control.database.reading() as session:
        found = quotas.listed(session, wanted, after_id=after, limit=limit + 1)
        overrides = [Override.model_validate(row) for row in found[:limit]]
    return Page(overrides=overrides, next=overrides[-1].id if len(found) > limit else None)


@router.get("/{api_key:path}", responses=described(401, 403, 404, 422, 503))
def read(api_key: ApiKey, control: InControl, caller: Annotated[Caller, needs(Role.VIEWER)]) -> Member:
    """
    What a key has of its own.
    """
    key = key_of(control, api_key)
    member = _member(control, caller, key)
    if not member.overrides and not member.is_blocked:
        raise Problem(404, "this key has nothing of its own: tiers, tenants and rules decide alone")
    return member


@router.put("/{api_key:path}", responses=described(401, 403, 413, 422, 503))
def put(api_key: ApiKey, body: Wanted, control: InControl, caller: Annotated[Caller, needs(Role.EDITOR)]) -> Member:
    """
    Gives a key a tenant, a tier and quotas of its own, at once or from a time on, for good or until a time.
    """
    if body.expires_at is not None and body.expires_at <= caller.at:
        raise Problem(422, "body.expires_at: this is over already")
    if body.tenant is None and body.tier is None and not body.quotas:
        raise Problem(422, "body: name a tenant, a tier or quotas; DELETE takes away what a key has")
    key, read = key_of(control, api_key), read_quotas(body.quotas)
    wanted = quotas.Wanted(body.tenant, body.tier, read, body.effective_at, body.expires_at, body.reason)
    with control.database.session() as session:
        quotas.put(session, caller, key, wanted)
        control.database.changed(session)
    return _member(control, caller, key)


@router.post("/{api_key:path}/grant", responses=described(401, 403, 413, 422, 503))
def grant(api_key: ApiKey, body: Grant, control: InControl, caller: Annotated[Caller, needs(Role.EDITOR)]) -> Member:
    """
    Grants a key more for a time. What it has otherwise stays, and holds again afterwards.
    """
    if body.expires_at <= caller.at:
        raise Problem(422, "body.expires_at: this is over already")
    key, read = key_of(control, api_key), read_quotas(body.quotas)
    with control.database.session() as session:
        quotas.grant(session, caller, key, read, until=body.expires_at, reason=body.reason)
        control.database.changed(session)
    return _member(control, caller, key)


@router.delete("/{api_key:path}", status_code=204, responses=described(401, 403, 404, 422, 503))
def remove(
    api_key: ApiKey,
    control: InControl,
    caller: Annotated[Caller, needs(Role.EDITOR)],
    override: Annotated[int | None, Query(ge=1, le=ID_MAX, alias="id", description="One override; without it, all.")] = None,
    reason: WhyQuery = "",
) -> None:
    """
    Takes away what a key has of its own. A block stays.
    """
    key = key_of(control, api_key)
    with control.database.session() as session:
        if not quotas.remove(session, caller, key, override_id=override, reason=reason):
            raise Problem(404, "this key has no such override")
        control.database.changed(session)


def _search(control: Control, text: str | None) -> tuple[str | None, str | None]:
    if not text:
        return None, None
    bare = text.removeprefix("#").removeprefix("digest:")
    is_digest = bool(bare) and set(bare) <= set("0123456789abcdef")
    # A whole key is found by its digest, of which nobody sees more than the beginning.
    return text, bare if is_digest else key_of(control, text).digest


def _member(control: Control, caller: Caller, key: Key) -> Member:
    with control.database.reading() as session:
        rows = quotas.rows_of(session, key.digest)
        block = blocks.of(session, key.digest, caller.at)
        found = [Override.model_validate(row) for row in rows]
    shown = next((row.shown for row in rows), block.shown if block is not None else key.shown)
    return Member(
        digest=key.digest,
        shown=key.shown if key.value is not None else shown,
        in_force=InForce(**quotas.in_force(rows, caller.at)),
        overrides=found,
        is_blocked=block is not None,
        blocked_until=None if block is None else block.until,
        warnings=_warnings(control, rows),
    )


def _warnings(control: Control, rows: list[QuotaOverride]) -> list[str]:
    known = {rule.name for rule in control.follower.composition.rule_set.rules}
    named = sorted({rule for row in rows for rule in row.quotas} - known)
    return [f"there is no rule {rule}; its quotas wait until there is one" for rule in named]
