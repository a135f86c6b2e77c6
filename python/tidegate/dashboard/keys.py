"""
Keys of customers: those that stand out, and everything about one of them.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import func, select
from starlette.responses import HTMLResponse, Response

from tidegate.control import audit
from tidegate.control.audit import Filter
from tidegate.control.models import Block, QuotaOverride, Tenant, Tier
from tidegate.control.quotas import Wanted
from tidegate.control.refused import Refused
from tidegate.dashboard import in_force, key_rows, key_usage, shown, traffic
from tidegate.dashboard.key_rows import Denied
from tidegate.dashboard.page import Fields, Viewer, go, router

routes = router()
_ROWS: Final = 50
BLOCK_TIMES: Final = ((900, "15 minutes"), (3600, "1 hour"), (86_400, "1 day"), (604_800, "1 week"), (0, "for good"))


@routes.get("/keys")
def keys(visit: Viewer) -> HTMLResponse:
    """
    A search, who is blocked, who was denied, who has quotas of their own.
    """
    with visit.control.database.reading() as session:
        is_blocked = Block.until.is_(None) | (Block.until > visit.now)
        blocks = list(session.scalars(select(Block).where(is_blocked).order_by(Block.at.desc()).limit(_ROWS)))
        rows = visit.recently("denied", lambda: traffic.denied_keys(session, visit.now))
        names = key_rows.names(session, [digest for digest, _, _ in rows])
        overrides = list(
            session.scalars(select(QuotaOverride).order_by(QuotaOverride.updated_at.desc(), QuotaOverride.id.desc()).limit(_ROWS))
        )
        total = session.scalar(select(func.count()).select_from(QuotaOverride)) or 0
    return visit.page(
        "keys.html",
        "Keys",
        "/keys",
        blocks=blocks,
        denied=[Denied(digest, names[digest], rule, number) for digest, rule, number in rows],
        overrides=overrides,
        overrides_total=total,
    )


@routes.post("/keys/find")
def find(visit: Viewer, fields: Fields) -> Response:
    """
    Leads to the page of a key. The key itself is sent in the body, so that it is in no address, and is turned into its digest here.
    """
    key = fields.get("key", "").strip()
    if not key:
        raise Refused("wrong", "type a key, or its digest")
    return go("/key", digest=key if key_rows.is_digest(key) else key_usage.remember(visit, key))


@routes.get("/key")
def one(visit: Viewer, digest: str) -> HTMLResponse:
    """
    What a key may do, did, and what was done to it.
    """
    if not key_rows.is_digest(digest):
        raise Refused("unknown", "this is no digest of a key; search for the key under Keys")
    with visit.control.database.reading() as session:
        minutes = traffic.minutes_of(session, visit.now, digest=digest)
        overrides = key_rows.overrides_of(session, digest)
        block = session.get(Block, digest)
        history = audit.entries(session, Filter(subject=f"key:{digest}"), limit=20)
        name = key_rows.names(session, [digest])[digest]
        tiers = list(session.scalars(select(Tier.name).order_by(Tier.name)))
        tenants = list(session.scalars(select(Tenant.name).order_by(Tenant.name).limit(1000)))
        rules = in_force.composed(visit.control, session).rule_set.rules
    held = key_rows.in_force(overrides, visit.now)
    edited = next((one for one in held if one.effective_at is None), Wanted())
    usage = key_usage.read(visit, digest)
    return visit.page(
        "key.html",
        f"Key {name}",
        "/keys",
        digest=digest,
        shown=name,
        block=block if block is not None and (block.until is None or block.until > visit.now) else None,
        tier=next((one.tier for one in held if one.tier), None),
        tenant=next((one.tenant for one in held if one.tenant), None),
        # The form begins with what saving it replaces: not with what is granted for a time, which would stay for good.
        edited=edited,
        quotas_text=shown.quotas_text(edited.quotas),
        total=sum(count.total for count in minutes),
        chart=traffic.chart(minutes, visit.now, "Decisions about this key per minute, last hour"),
        limits=usage.limits,
        limits_missing=usage.missing,
        binding=usage.binding,
        overrides=overrides,
        history=history,
        tier_names=sorted({*tiers, *(tier for rule in rules for tier in rule.tiers)}),
        tenant_names=tenants,
        rule_names=[rule.name for rule in rules],
        block_times=BLOCK_TIMES,
    )
