"""
The database: tables that make themselves, transactions, and plain words for what goes wrong.
"""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from threading import Thread, Timer
from typing import TYPE_CHECKING

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import event, inspect, text

from tidegate.control import migrate
from tidegate.control.audit import record
from tidegate.control.caller import Caller
from tidegate.control.database import CHANNEL, Database
from tidegate.control.errors import DatabaseError, DatabaseFull, DatabaseUnavailable, SchemaTooNew, ValueRefused
from tidegate.control.models import Model, Version
from tidegate.control.roles import Role
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STEPS = [step.revision for step in ScriptDirectory(str(migrate.FOLDER)).walk_revisions()][::-1]
SOMEBODY = Caller("somebody", Role.ADMIN, "test", datetime(2026, 1, 1, tzinfo=UTC))

NEXT_STEP = '''
"""
Step that a test takes.
"""
import sys
from alembic import op
import sqlalchemy as sa

revision = "9999"
down_revision = "{before}"


def upgrade():
    op.create_table("half", sa.Column("id", sa.Integer(), primary_key=True))
    op.add_column("tokens", sa.Column("half", sa.Integer()))
    {then}
    op.create_table("whole", sa.Column("id", sa.Integer(), primary_key=True))
'''
CHILD = """
import sys
from pathlib import Path
from tidegate.control import migrate
from tidegate.control.database import Database
print(migrate.upgrade(Database(sys.argv[1])._engine, folder=Path(sys.argv[2])), flush=True)
"""


@pytest.fixture
def empty(empty_address: str) -> Iterator[Database]:
    """
    A database without tables.
    """
    database = Database(empty_address)
    yield database
    database.close()


def tables(database: Database) -> set[str]:
    """
    The names of its tables.
    """
    with database._engine.connect() as connection:
        return set(inspect(connection).get_table_names())


def with_next_step(folder: Path, then: str) -> Path:
    """
    The steps, and one more that does something in its middle.
    """
    steps = folder / "migrations"
    shutil.copytree(migrate.FOLDER, steps, ignore=shutil.ignore_patterns("__pycache__"))
    (steps / "versions" / "9999_next.py").write_text(NEXT_STEP.format(before=STEPS[-1], then=then), encoding="utf-8")
    return steps


def address_of(database: Database) -> str:
    """
    Its address, for another process.
    """
    return database.url.render_as_string(hide_password=False)


def test_tables_are_made_once(empty: Database) -> None:
    """
    The second time there is nothing to do.
    """
    first, second = empty.migrate(), empty.migrate()

    assert len(STEPS) == len(first)
    assert [] == second
    assert set(Model.metadata.tables) | {migrate.VERSION_TABLE} == tables(empty)
    assert 0 == empty.number()


@pytest.mark.parametrize("begin", [None, *STEPS])
def test_tables_are_what_the_models_say_from_every_earlier_version(begin: str | None, empty: Database) -> None:
    """
    A model that was changed without a step fails here: write one with tests/control/write_step.py.
    """
    if begin is not None:
        migrate.upgrade(empty._engine, to=begin)
    empty.migrate()
    with empty._engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": migrate.VERSION_TABLE, "compare_type": not empty.is_postgresql}
        )
        difference = compare_metadata(context, Model.metadata)

    assert [] == difference


def test_a_step_that_fails_leaves_nothing_behind(database: Database, tmp_path: Path) -> None:
    """
    Neither of itself nor of those before it; when it is repaired, it is taken.
    """
    before = tables(database)
    steps = with_next_step(tmp_path, "raise ValueError('half-way')")
    with pytest.raises(ValueError, match="half-way"):
        migrate.upgrade(database._engine, folder=steps)
    after = tables(database)
    (steps / "versions" / "9999_next.py").write_text(NEXT_STEP.format(before=STEPS[-1], then="pass"), encoding="utf-8")
    taken = migrate.upgrade(database._engine, folder=steps)

    assert before == after
    assert ["9999: Step that a test takes."] == taken
    assert before | {"half", "whole"} == tables(database)


def test_a_migration_that_is_killed_half_way_is_taken_again(database: Database, tmp_path: Path) -> None:
    """
    SIGKILL in the middle of a step, as power cuts do it.
    """
    before = tables(database)
    steps = with_next_step(tmp_path, "print('half-way', flush=True); sys.stdin.read()")
    command = [sys.executable, "-c", CHILD, address_of(database), str(steps)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert "half-way\n" == child.stdout.readline()
        child.send_signal(signal.SIGKILL)
    again = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)

    assert "9999" in again.stdout, again.stderr
    assert before | {"half", "whole"} == tables(database)


def test_of_processes_that_migrate_at_once_one_does_it(empty: Database) -> None:
    """
    The others wait and find nothing to do.
    """
    command = [sys.executable, "-c", CHILD, address_of(empty), str(migrate.FOLDER)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [child.communicate(timeout=60) for child in children]

    assert [0] * 4 == [child.returncode for child in children], said
    assert 3 == [output for output, _ in said].count("[]\n")


def test_a_new_file_that_somebody_reads_is_waited_for(tmp_path: Path) -> None:
    """
    SQLite itself lets nobody wait who wants to set the mode of a file.
    """
    file = tmp_path / "new.db"
    reader = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    reader.execute("CREATE TABLE somebody (id)")
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM somebody")
    done = Timer(0.3, reader.close)
    done.start()

    taken = Database(f"sqlite:///{file}").migrate()

    done.join()
    assert len(STEPS) == len(taken)


def test_a_newer_schema_is_refused_and_left_alone(database: Database, tmp_path: Path) -> None:
    """
    Somebody has gone back to an older version.
    """
    migrate.upgrade(database._engine, folder=with_next_step(tmp_path, "pass"))
    before = tables(database)
    with pytest.raises(SchemaTooNew, match=r"newer Tidegate.*9999.*\nhint: run the newer version"):
        database.migrate()

    assert before == tables(database)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("", "no address of a database"),
        ("tidegate.db", "no address of a database"),
        ("mysql://root:hunter2@localhost/x", "knows no database `mysql`"),
        ("sqlite://", "is a file"),
        ("sqlite:///:memory:", "is a file"),
        ("sqlite://host/file.db", "is a file"),
        ("postgresql://user:hunter2@localhost", "names no database"),
        ("postgresql://user:hunter2@localhost:port/x", "no address of a database"),
    ],
)
def test_a_wrong_address_is_told_without_its_password(address: str, message: str) -> None:
    """
    With a hint.
    """
    with pytest.raises(ConfigError, match=message) as caught:
        Database(address)

    assert "hint: " in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_the_password_is_not_shown() -> None:
    """
    Neither as such nor among the options.
    """
    shown = Database("postgresql://user:hunter2@db.example.com/limits?password=hunter3").shown

    assert "postgresql://user@db.example.com/limits" == shown


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgresql://user:hunter2@127.0.0.1:1/x", "cannot be used: .*\nhint: see whether the server runs"),
        ("sqlite:////nowhere/at/all.db", "unable to open database file\nhint: look at the path"),
    ],
)
def test_a_database_that_cannot_be_reached_is_told_plainly(address: str, message: str) -> None:
    """
    And it may work later.
    """
    database = Database(address)
    with pytest.raises(DatabaseUnavailable, match=message) as caught:
        database.migrate()

    assert caught.value.is_transient
    assert "hunter2" not in str(caught.value)
    assert not database.is_up


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    """
    A path may be wrong.
    """
    path = tmp_path / "holiday.jpg"
    path.write_bytes(b"JFIF" * 1000)
    with pytest.raises(DatabaseError, match="no database of SQLite"):
        Database(f"sqlite:///{path}").migrate()

    assert b"JFIF" * 1000 == path.read_bytes()


def test_a_full_disk_is_told_and_what_is_there_stays(tmp_path: Path) -> None:
    """
    What does not fit is not there by half.
    """
    database = Database(f"sqlite:///{tmp_path}/full.db")
    database.migrate()
    database.close()
    event.listen(database._engine, "connect", lambda connection, _: connection.execute("PRAGMA max_page_count = 1"))

    def fill() -> None:
        with database.session() as session:
            database.changed(session)
            record(session, SOMEBODY, "test", "x", reason="x" * 1_000_000)

    with pytest.raises(DatabaseFull, match="no room"):
        fill()
    assert 0 == database.number()
    assert database.is_up


def test_a_value_that_cannot_be_kept_is_told(database: Database) -> None:
    """
    Not as a failure of the database.
    """

    def keep() -> None:
        with database.session() as session:
            session.add(Version(id=2, number=2**70))

    with pytest.raises(ValueRefused):
        keep()


def test_what_fails_leaves_nothing_behind(database: Database) -> None:
    """
    A transaction is whole or nothing.
    """

    def fail() -> None:
        with database.session() as session:
            database.changed(session)
            raise RuntimeError("half-way")

    with pytest.raises(RuntimeError):
        fail()

    assert 0 == database.number()


def test_changes_are_counted_one_by_one(database: Database) -> None:
    """
    By many at once, none is lost.
    """

    def change() -> None:
        for _ in range(10):
            with database.session() as session:
                database.changed(session)

    threads = [Thread(target=change) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 40 == database.number()


def test_who_reads_never_waits_for_who_writes(database: Database) -> None:
    """
    And sees what was there before.
    """
    with database.session() as session:
        database.changed(session)

        assert 0 == database.number()
    assert 1 == database.number()


def test_postgresql_notifies_of_changes(postgresql: str, request: pytest.FixtureRequest) -> None:
    """
    When they are there to be read, with their number.
    """
    database = Database(request.getfixturevalue("postgresql"))
    database.migrate()
    with psycopg.connect(postgresql, autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")
        with database.session() as session:
            number = database.changed(session)
        told = next(listener.notifies(timeout=30))
    database.close()

    assert str(number) == told.payload


def test_a_connection_that_was_cut_is_opened_again(request: pytest.FixtureRequest) -> None:
    """
    A server that was restarted leaves dead connections behind.
    """
    database = Database(request.getfixturevalue("postgresql"))
    database.migrate()
    before = database.number()
    with psycopg.connect(request.getfixturevalue("postgresql"), autocommit=True) as other:
        # With patience: the connections are gone when this is answered.
        other.execute("SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE application_name = 'tidegate'")

    assert before == database.number()
    database.close()


def test_a_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    """
    It holds digests of tokens, and who did what.
    """
    database = Database(f"sqlite:///{tmp_path}/new.db")
    database.migrate()
    database.close()

    assert 0o600 == (tmp_path / "new.db").stat().st_mode & 0o777


def test_sqlite_checks_what_rows_refer_to(tmp_path: Path) -> None:
    """
    As PostgreSQL always does.
    """
    database = Database(f"sqlite:///{tmp_path}/keys.db")
    database.migrate()
    with database.reading() as session:
        assert 1 == session.execute(text("PRAGMA foreign_keys")).scalar()
        assert "wal" == session.execute(text("PRAGMA journal_mode")).scalar()
    database.close()
