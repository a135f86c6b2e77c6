"""
Writes the next migration: the step from the last one to the tables as `models.py` has them now. Read it before you commit it.

    .venv/bin/python tests/control/write_step.py "Count what was shed"
    .venv/bin/python tests/control/write_step.py --replace        # the last step again, as long as nobody else has it
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine

from tidegate.control import migrate
from tidegate.control.database import Database
from tidegate.control.models import Model

STEPS = migrate.FOLDER / "versions"
TEMPLATE = '''"""
{message}.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tidegate.control.models import Utc

revision = "{revision}"
down_revision = {before}


def upgrade() -> None:
    """
    Takes the step.
    """
{body}
'''


def main(arguments: list[str]) -> None:
    """
    Writes the file, and formats it.
    """
    steps = sorted(STEPS.glob("[0-9]*.py"))
    message = " ".join(arguments)
    if arguments == ["--replace"]:
        last = steps.pop()
        message = last.read_text(encoding="utf-8").split("\n")[1].rstrip(".")
        last.unlink()
    revision = f"{len(steps) + 1:04}"
    before = f'"{len(steps):04}"' if steps else None
    body = difference()
    if not steps:
        body += '\n    op.execute("INSERT INTO version (id, number) VALUES (1, 0)")'
    name = "_".join(re.findall(r"\w+", message.lower())[:3])
    path = STEPS / f"{revision}_{name}.py"
    path.write_text(TEMPLATE.format(message=message, revision=revision, before=before, body=body), encoding="utf-8")
    ruff = Path(sys.executable).with_name("ruff")
    subprocess.run([ruff, "check", "--fix", "--quiet", path], check=False)
    subprocess.run([ruff, "format", "--quiet", path], check=True)
    print(path)  # noqa: T201  # what was written


def difference() -> str:
    """
    What a database that has all steps lacks, as Python.
    """
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/steps.db")
        if any(STEPS.glob("[0-9]*.py")):
            database.migrate()
        database.close()
        engine = create_engine(database.url)
        with engine.connect() as connection:
            options = {"target_metadata": Model.metadata, "sqlalchemy_module_prefix": "sa.", "alembic_module_prefix": "op."}
            options |= {"version_table": migrate.VERSION_TABLE, "render_as_batch": bool(any(STEPS.glob("[0-9]*.py")))}
            context = MigrationContext.configure(connection, opts=options)
            made = produce_migrations(context, Model.metadata).upgrade_ops
            assert made is not None
            text = render_python_code(made).replace("tidegate.control.models.Utc(timezone=True)", "Utc()")
        engine.dispose()
    return "\n".join(line for line in f"    {text}".splitlines() if "###" not in line)


if __name__ == "__main__":
    main(sys.argv[1:])
