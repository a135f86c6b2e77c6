"""
The tables of the control plane, once: whoever needs a row imports its class from here.

Times are aware and in UTC. What customers show to prove who they are is kept as a digest; `shown` is what people see of it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import JSON, BigInteger, DateTime, ForeignKey, Index, Integer, String, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect

# SQLite counts up by itself only in a column of its own kind of integer.
_Id = BigInteger().with_variant(Integer, "sqlite")


class Utc(TypeDecorator[datetime]):
    """
    A time in UTC, also in SQLite, which keeps no zone.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002  # as SQLAlchemy calls it
        """
        A time without a zone is a mistake, not local time.
        """
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a time without a zone: {value}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002  # as SQLAlchemy calls it
        """
        What comes back says that it is UTC.
        """
        return None if value is None else value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Model(DeclarativeBase):
    """
    A row of a table.
    """

    type_annotation_map = {datetime: Utc, dict[str, Any]: JSON(none_as_null=True), list[Any]: JSON(none_as_null=True)}  # noqa: RUF012  # as SQLAlchemy reads it


class Version(Model):
    """
    One row: how often anything that decides has changed. Whoever changes such a thing counts it up in the same transaction.
    """

    __tablename__ = "version"
    id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(BigInteger, default=0)


class StoredRule(Model):
    """
    A rule in force that came through the API. `body` is the rule as a file would say it, without its name.
    """

    __tablename__ = "rules"
    rule_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    revision: Mapped[int]
    body: Mapped[dict[str, Any]]
    updated_at: Mapped[datetime]
    updated_by: Mapped[str] = mapped_column(String(128))


class RuleRevision(Model):
    """
    What a rule was at some time. `body` is `None` where it was deleted. Rows are never changed.
    """

    __tablename__ = "rule_revisions"
    rule_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True)
    body: Mapped[dict[str, Any] | None]
    at: Mapped[datetime]
    by: Mapped[str] = mapped_column(String(128))
    reason: Mapped[str] = mapped_column(Text, default="")
    change_id: Mapped[int | None] = mapped_column(_Id)


class ChangeRequest(Model):
    """
    A change of one rule that waits for approval, rolls out, or has ended.

    `state` is `proposed`, `rejected`, `withdrawn`, `shadow`, `rolling`, `done` or `stopped`.
    `steps` are the shares in percent that it takes one after the other, 0 being shadow, and `step` is where it is.
    """

    __tablename__ = "change_requests"
    __table_args__ = (Index("change_requests_state", "state"),)
    id: Mapped[int] = mapped_column(_Id, primary_key=True, autoincrement=True)
    rule_id: Mapped[str] = mapped_column(String(128))
    base_revision: Mapped[int]
    body: Mapped[dict[str, Any] | None]
    state: Mapped[str] = mapped_column(String(16))
    steps: Mapped[list[Any]]
    step: Mapped[int] = mapped_column(default=0)
    step_seconds: Mapped[int] = mapped_column(default=0)
    step_at: Mapped[datetime | None]
    reason: Mapped[str] = mapped_column(Text, default="")
    by: Mapped[str] = mapped_column(String(128))
    at: Mapped[datetime]
    decided_by: Mapped[str | None] = mapped_column(String(128))
    decided_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]


class Tier(Model):
    """
    A plan that customers are put on: its quotas by rule. A rule that has a tier of this name in its own text needs none here.
    """

    __tablename__ = "tiers"
    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    about: Mapped[str] = mapped_column(Text, default="")
    quotas: Mapped[dict[str, Any]]
    updated_at: Mapped[datetime]


class Tenant(Model):
    """
    A customer with several keys: the attribute `tenant` of their requests. Its quotas by rule are for rules that count per tenant.
    """

    __tablename__ = "tenants"
    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    about: Mapped[str] = mapped_column(Text, default="")
    tier: Mapped[str | None] = mapped_column(String(128))
    quotas: Mapped[dict[str, Any]]
    updated_at: Mapped[datetime]


class QuotaOverride(Model):
    """
    What one API key has of its own for a time: tenant, tier, quotas by rule.

    Several rows of a key may follow each other in time; of those that hold at one moment the one that began last wins, field by field.
    """

    __tablename__ = "quota_overrides"
    __table_args__ = (Index("quota_overrides_digest", "digest"), Index("quota_overrides_times", "effective_at", "expires_at"))
    id: Mapped[int] = mapped_column(_Id, primary_key=True, autoincrement=True)
    digest: Mapped[str] = mapped_column(String(32))
    shown: Mapped[str] = mapped_column(String(256))
    tenant: Mapped[str | None] = mapped_column(String(128))
    tier: Mapped[str | None] = mapped_column(String(128))
    quotas: Mapped[dict[str, Any]]
    effective_at: Mapped[datetime | None]
    expires_at: Mapped[datetime | None]
    reason: Mapped[str] = mapped_column(Text, default="")
    updated_at: Mapped[datetime]
    updated_by: Mapped[str] = mapped_column(String(128))


class Block(Model):
    """
    An API key that is refused until a time, or for good.
    """

    __tablename__ = "blocks"
    digest: Mapped[str] = mapped_column(String(32), primary_key=True)
    shown: Mapped[str] = mapped_column(String(256))
    until: Mapped[datetime | None]
    reason: Mapped[str] = mapped_column(Text, default="")
    at: Mapped[datetime]
    by: Mapped[str] = mapped_column(String(128))


class Token(Model):
    """
    What a person or a program shows to the control plane. `digest` is SHA-256 of it; the token itself is shown once.
    """

    __tablename__ = "tokens"
    id: Mapped[int] = mapped_column(_Id, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(String(128), unique=True)
    role: Mapped[str] = mapped_column(String(16))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[datetime]
    created_by: Mapped[str] = mapped_column(String(128))
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    used_at: Mapped[datetime | None]


class BrowserSession(Model):
    """
    Somebody who signed in with a token. It ends with the token.
    """

    __tablename__ = "sessions"
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    token_id: Mapped[int] = mapped_column(_Id, ForeignKey("tokens.id", ondelete="CASCADE"))
    csrf: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    expires_at: Mapped[datetime]


class AuditEntry(Model):
    """
    Who changed what, when, why and from where. Rows are never changed.
    """

    __tablename__ = "audit"
    __table_args__ = (Index("audit_at", "at"), Index("audit_subject", "subject"))
    id: Mapped[int] = mapped_column(_Id, primary_key=True, autoincrement=True)
    at: Mapped[datetime]
    actor: Mapped[str] = mapped_column(String(128))
    address: Mapped[str] = mapped_column(String(64))
    action: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(String(300))
    before: Mapped[dict[str, Any] | None]
    after: Mapped[dict[str, Any] | None]
    reason: Mapped[str] = mapped_column(Text, default="")


class Usage(Model):
    """
    Decisions of one minute, by rule and key.

    `digest` is empty in the rows that sum up all keys, which are exact; those of single keys come from events.
    """

    __tablename__ = "usage"
    __table_args__ = (Index("usage_digest", "digest", "minute"),)
    minute: Mapped[datetime] = mapped_column(primary_key=True)
    rule_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    digest: Mapped[str] = mapped_column(String(32), primary_key=True, default="")
    instance: Mapped[str] = mapped_column(String(64), primary_key=True)
    tier: Mapped[str] = mapped_column(String(128), default="")
    allowed: Mapped[int] = mapped_column(BigInteger, default=0)
    denied: Mapped[int] = mapped_column(BigInteger, default=0)
    shadow_denied: Mapped[int] = mapped_column(BigInteger, default=0)


class StoredEvent(Model):
    """
    One of the last decisions that the data planes told of: a denied one, or a sample that stands for `weight` allowed ones.

    `client_id` is masked as `top.keys` says; `digest` is that of the API key, or of whatever else names the client.
    """

    __tablename__ = "events"
    __table_args__ = (Index("events_at", "at"), Index("events_digest", "digest", "at"))
    event_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    at: Mapped[datetime]
    instance: Mapped[str] = mapped_column(String(64))
    client_id: Mapped[str] = mapped_column(String(256))
    digest: Mapped[str] = mapped_column(String(32), default="")
    endpoint: Mapped[str] = mapped_column(String(300))
    rule_id: Mapped[str] = mapped_column(String(128), default="")
    allowed: Mapped[bool]
    current_count: Mapped[int | None] = mapped_column(BigInteger)
    limit_count: Mapped[int | None] = mapped_column(BigInteger)
    cost: Mapped[int] = mapped_column(BigInteger, default=1)
    tier: Mapped[str] = mapped_column(String(128), default="")
    degraded: Mapped[str | None] = mapped_column(String(32))
    shadowed: Mapped[list[Any]]
    weight: Mapped[int] = mapped_column(BigInteger, default=1)


class Recording(Model):
    """
    A sample of traffic: what is needed to decide it again by other rules.
    """

    __tablename__ = "recordings"
    __table_args__ = (Index("recordings_at", "at"),)
    id: Mapped[int] = mapped_column(_Id, primary_key=True, autoincrement=True)
    at: Mapped[datetime]
    attributes: Mapped[dict[str, Any]]
    cost: Mapped[int] = mapped_column(BigInteger, default=1)
    allowed: Mapped[bool]
    weight: Mapped[int] = mapped_column(default=1)


class Instance(Model):
    """
    A data plane that reported itself. `live` is what the dashboard draws: rates, latencies, breakers, top keys.
    """

    __tablename__ = "instances"
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    started_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    version: Mapped[str] = mapped_column(String(32))
    number: Mapped[int] = mapped_column(BigInteger)
    generation: Mapped[int] = mapped_column(BigInteger)
    problem: Mapped[str | None] = mapped_column(Text)
    live: Mapped[dict[str, Any]]
