"""
Begin with rules, quotas, tokens, audit, usage and instances.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tidegate.control.models import Utc

revision = "0001"
down_revision = None


def upgrade() -> None:
    """
    Takes the step.
    """
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", Utc(), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=300), nullable=False),
        sa.Column("before", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("after", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("audit_at", "audit", ["at"], unique=False)
    op.create_index("audit_subject", "audit", ["subject"], unique=False)
    op.create_table(
        "blocks",
        sa.Column("digest", sa.String(length=32), nullable=False),
        sa.Column("shown", sa.String(length=256), nullable=False),
        sa.Column("until", Utc(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", Utc(), nullable=False),
        sa.Column("by", sa.String(length=128), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "change_requests",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("rule_id", sa.String(length=128), nullable=False),
        sa.Column("base_revision", sa.Integer(), nullable=False),
        sa.Column("body", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("steps", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("step_seconds", sa.Integer(), nullable=False),
        sa.Column("step_at", Utc(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("by", sa.String(length=128), nullable=False),
        sa.Column("at", Utc(), nullable=False),
        sa.Column("decided_by", sa.String(length=128), nullable=True),
        sa.Column("decided_at", Utc(), nullable=True),
        sa.Column("ended_at", Utc(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("change_requests_state", "change_requests", ["state"], unique=False)
    op.create_table(
        "instances",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("started_at", Utc(), nullable=False),
        sa.Column("seen_at", Utc(), nullable=False),
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("live", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "quota_overrides",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("digest", sa.String(length=32), nullable=False),
        sa.Column("shown", sa.String(length=256), nullable=False),
        sa.Column("tenant", sa.String(length=128), nullable=True),
        sa.Column("tier", sa.String(length=128), nullable=True),
        sa.Column("quotas", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("effective_at", Utc(), nullable=True),
        sa.Column("expires_at", Utc(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("updated_at", Utc(), nullable=False),
        sa.Column("updated_by", sa.String(length=128), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("quota_overrides_digest", "quota_overrides", ["digest"], unique=False)
    op.create_index("quota_overrides_times", "quota_overrides", ["effective_at", "expires_at"], unique=False)
    op.create_table(
        "recordings",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", Utc(), nullable=False),
        sa.Column("attributes", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.Column("allowed", sa.Boolean(), nullable=False),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("recordings_at", "recordings", ["at"], unique=False)
    op.create_table(
        "rule_revisions",
        sa.Column("rule_id", sa.String(length=128), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("body", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("at", Utc(), nullable=False),
        sa.Column("by", sa.String(length=128), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("change_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.PrimaryKeyConstraint("rule_id", "revision"),
    )
    op.create_table(
        "rules",
        sa.Column("rule_id", sa.String(length=128), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("body", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("updated_at", Utc(), nullable=False),
        sa.Column("updated_by", sa.String(length=128), nullable=False),
        sa.PrimaryKeyConstraint("rule_id"),
    )
    op.create_table(
        "tenants",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("tier", sa.String(length=128), nullable=True),
        sa.Column("quotas", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("updated_at", Utc(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "tiers",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("quotas", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("updated_at", Utc(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", Utc(), nullable=False),
        sa.Column("created_by", sa.String(length=128), nullable=False),
        sa.Column("expires_at", Utc(), nullable=True),
        sa.Column("revoked_at", Utc(), nullable=True),
        sa.Column("used_at", Utc(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "usage",
        sa.Column("minute", Utc(), nullable=False),
        sa.Column("rule_id", sa.String(length=128), nullable=False),
        sa.Column("digest", sa.String(length=32), nullable=False),
        sa.Column("instance", sa.String(length=64), nullable=False),
        sa.Column("tier", sa.String(length=128), nullable=False),
        sa.Column("allowed", sa.BigInteger(), nullable=False),
        sa.Column("denied", sa.BigInteger(), nullable=False),
        sa.Column("shadow_denied", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("minute", "rule_id", "digest", "instance"),
    )
    op.create_index("usage_digest", "usage", ["digest", "minute"], unique=False)
    op.create_table(
        "version",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("token_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("csrf", sa.String(length=64), nullable=False),
        sa.Column("created_at", Utc(), nullable=False),
        sa.Column("seen_at", Utc(), nullable=False),
        sa.Column("expires_at", Utc(), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.execute("INSERT INTO version (id, number) VALUES (1, 0)")
