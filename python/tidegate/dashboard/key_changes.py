"""
What is done to a key: blocked, unblocked, given more, reset; each with a reason, by the functions that the API calls too.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from tidegate.control import audit, blocks, quotas, rules, usage
from tidegate.control.keys import BY_DIGEST, BadKey, Keys
from tidegate.control.quotas import Wanted
from tidegate.control.refused import Refused
from tidegate.dashboard import key_rows, key_usage, saving, shown
from tidegate.dashboard.page import Editor, Fields, go, router

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.orm import Session

    from tidegate.control.keys import Key
    from tidegate.dashboard.page import Visit

routes = router()
_SECONDS_MAX: Final = 366 * 86_400


@routes.post("/key/block")
def block(visit: Editor, fields: Fields) -> Response:
    """
    Refuses everything from a key, for a time or for good.
    """
    seconds, reason = saving.number(fields, "seconds"), _reason(fields)
    if seconds > _SECONDS_MAX:
        raise Refused("wrong", "a block lasts a year at most, or is for good")
    until = visit.now + timedelta(seconds=seconds) if seconds else None
    with rules.changing(visit.control.database) as session:
        key = _key(visit, session, fields)
        blocks.block(session, visit.caller, key, until=until, reason=reason)
    return go("/key", digest=key.digest, done="blocked")


@routes.post("/key/unblock")
def unblock(visit: Editor, fields: Fields) -> Response:
    """
    Lets a key pass again.
    """
    with rules.changing(visit.control.database) as session:
        key = _key(visit, session, fields)
        if not blocks.unblock(session, visit.caller, key, reason=fields.get("reason", "")):
            raise Refused("over", "the key is not blocked any more")
    return go("/key", digest=key.digest, done="unblocked")


@routes.post("/key/override")
def override(visit: Editor, fields: Fields) -> Response:
    """
    Gives a key a tier, a tenant or quotas of its own, for a time or for good.
    """
    wanted = Wanted(
        tenant=fields.get("tenant", "").strip() or None,
        tier=fields.get("tier", "").strip() or None,
        quotas=read_quotas(fields),
        effective_at=_time(fields, "effective_at"),
        expires_at=_time(fields, "expires_at"),
        reason=fields.get("reason", ""),
    )
    if wanted.expires_at is not None and wanted.expires_at <= (wanted.effective_at or visit.now):
        raise Refused("wrong", "it ends before it begins: choose a later time under `Until`")
    with rules.changing(visit.control.database) as session:
        key = _key(visit, session, fields)
        quotas.put(session, visit.caller, key, wanted)
    return go("/key", digest=key.digest, done="override")


@routes.post("/key/override/delete")
def delete_override(visit: Editor, fields: Fields) -> Response:
    """
    Takes one override away.
    """
    with rules.changing(visit.control.database) as session:
        key = _key(visit, session, fields)
        quotas.remove(session, visit.caller, key, override_id=saving.number(fields, "override"), reason=fields.get("reason", ""))
    return go("/key", digest=key.digest, done="deleted")


@routes.post("/key/grant")
def grant(visit: Editor, fields: Fields) -> Response:
    """
    Gives a key more of one rule for a time; everything else that it has stays.
    """
    seconds, reason = saving.number(fields, "seconds"), _reason(fields)
    if not 0 < seconds <= _SECONDS_MAX:
        raise Refused("wrong", "a grant lasts between a second and a year")
    given = read_quotas({"quotas": f"{fields.get('rule', '')}: {fields.get('quota', '')}"})
    with rules.changing(visit.control.database) as session:
        key = _key(visit, session, fields)
        quotas.grant(session, visit.caller, key, given, until=visit.now + timedelta(seconds=seconds), reason=reason)
    return go("/key", digest=key.digest, done="granted")


@routes.post("/key/reset")
def reset(visit: Editor, fields: Fields) -> Response:
    """
    Forgets what a key has used, under every rule that counts it apart from others.
    """
    reason, limiter = _reason(fields), visit.control.limiter
    with visit.control.database.session() as session:
        key = _key(visit, session, fields)
        if key.value is None or limiter is None:
            raise Refused(
                "wrong", "counters are found by the key itself, where they are in reach: search for the key under Keys, then reset it"
            )
        # First: what is not written down does not happen.
        audit.record(session, visit.caller, "key.reset", key.subject, reason=reason)
    limiter.forget(usage.facts(limiter.rule_set, key.value))
    return go("/key", digest=key.digest, done="reset")


def read_quotas(fields: Mapping[str, str]) -> dict[str, list[str]]:
    """
    Quotas by rule, as a form sends them: one `rule: quota` per line, several of a rule with commas between them.

    Raises:
        Refused: One of them is none, with everything that is wrong.
    """
    given: dict[str, str | list[str]] = {
        rule: [text.strip() for text in quota.split(",")] for rule, quota in shown.read_quotas(fields.get("quotas", ""))
    }
    try:
        return quotas.read(given)
    except quotas.Refused as refused:
        raise Refused("wrong", str(refused)) from None


def _key(visit: Visit, session: Session, fields: Mapping[str, str]) -> Key:
    digest = fields.get("digest", "")
    try:
        found = Keys.of(visit.control.settings).read(key_usage.remembered(visit, digest) or f"{BY_DIGEST}{digest}")
    except BadKey as bad:
        raise Refused("wrong", str(bad)) from None
    known = key_rows.names(session, [found.digest])[found.digest]
    # Of a key that is known by its digest alone, what others saw of it is shown on.
    return found if found.value is not None else type(found)(found.digest, known)


def _reason(fields: Mapping[str, str]) -> str:
    reason = fields.get("reason", "").strip()
    if not reason:
        raise Refused("wrong", "a reason is needed: the audit log keeps it for who asks later")
    return reason


def _time(fields: Mapping[str, str], name: str) -> datetime | None:
    text = fields.get(name, "").strip()
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Refused("wrong", f"{name}: write a time such as 2026-12-24T18:00, in UTC") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
