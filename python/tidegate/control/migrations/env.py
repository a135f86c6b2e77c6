"""
What Alembic runs to take steps: `tidegate.control.migrate` hands over a connection, and with it the transaction.

To write the next step, from a checkout: see `CONTRIBUTING.md`, "Add a table".
"""

from __future__ import annotations

from alembic import context

from tidegate.control.migrate import VERSION_TABLE
from tidegate.control.models import Model

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Model.metadata,
    version_table=VERSION_TABLE,
    # SQLite can, and is told to by `tidegate.control.database`; Alembic does not expect it.
    transactional_ddl=True,
    render_as_batch=True,
)
context.run_migrations()
