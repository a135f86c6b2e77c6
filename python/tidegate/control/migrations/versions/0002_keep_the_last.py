"""
Keep the last events.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tidegate.control.models import Utc

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """
    Takes the step.
    """
    op.create_table(
        "events",
        sa.Column("event_id", sa.String(length=32), nullable=False),
        sa.Column("at", Utc(), nullable=False),
        sa.Column("instance", sa.String(length=64), nullable=False),
        sa.Column("client_id", sa.String(length=256), nullable=False),
        sa.Column("digest", sa.String(length=32), nullable=False),
        sa.Column("endpoint", sa.String(length=300), nullable=False),
        sa.Column("rule_id", sa.String(length=128), nullable=False),
        sa.Column("allowed", sa.Boolean(), nullable=False),
        sa.Column("current_count", sa.BigInteger(), nullable=True),
        sa.Column("limit_count", sa.BigInteger(), nullable=True),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.Column("tier", sa.String(length=128), nullable=False),
        sa.Column("degraded", sa.String(length=32), nullable=True),
        sa.Column("shadowed", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("weight", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("event_id"),
    )
    op.create_index("events_at", "events", ["at"], unique=False)
    op.create_index("events_digest", "events", ["digest", "at"], unique=False)
