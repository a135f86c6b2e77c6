"""
Brings the tables of a database to what this version needs. The steps are in `migrations/versions`, one file each.

All steps that are missing run in one transaction, which both databases can do for tables too: whoever is interrupted leaves nothing behind,
and whoever comes second waits and then finds nothing to do.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.script.revision import ResolutionError
from sqlalchemy import text

from tidegate.control.errors import SchemaTooNew

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

FOLDER: Final = Path(__file__).parent / "migrations"
VERSION_TABLE: Final = "tidegate_migrations"
"""Where a database says which steps it has seen."""

_LOCK: Final = 0x7469_6465_6761_7465
"""The bytes of `tidegate`, as the number of a lock of PostgreSQL."""


def upgrade(engine: Engine, *, to: str = "head", folder: Path = FOLDER) -> list[str]:
    """
    Takes all steps that are missing.

    Args:
        engine: The database, whose transactions take the right to write when they begin.
        to: The last step to take.
        folder: Where the steps are.

    Returns:
        The steps that were taken.

    Raises:
        SchemaTooNew: The database has seen a step that is not known here.
    """
    config = Config(attributes={})
    config.set_main_option("script_location", str(folder))
    script = ScriptDirectory.from_config(config)
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        before = revision(connection)
        try:
            steps = [] if before == script.get_current_head() else list(script.iterate_revisions(to, before or "base"))
        except ResolutionError:
            raise _too_new(before) from None
        if before is not None and before not in {step.revision for step in script.walk_revisions()}:
            raise _too_new(before)
        if steps:
            config.attributes["connection"] = connection
            command.upgrade(config, to)
    return [f"{step.revision}: {step.doc}" for step in reversed(steps)]


def revision(connection: Connection) -> str | None:
    """
    The last step that a database has seen.

    Args:
        connection: A connection to it.

    Returns:
        The step; `None` if it is new.
    """
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _too_new(found: str | None) -> SchemaTooNew:
    return SchemaTooNew(
        f"the database was migrated by a newer Tidegate: it has seen step {found}, which this version does not know\n"
        "hint: run the newer version, or restore the database from before the upgrade"
    )
