"""
The database of the control plane: SQLite in a file, or PostgreSQL by its address.

    database = Database("sqlite:///tidegate.db")
    database.migrate()
    with database.session() as session:      # one transaction; what fails in it leaves nothing behind
        session.add(...)
        database.changed(session)            # if it changes what is decided
    with database.reading() as session:      # never waits for who writes
        ...

Errors of the database are told plainly (`tidegate.control.errors`), without the statement and its values.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import URL, create_engine, event, func, select, text, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.orm import sessionmaker

from tidegate._sleep import now_ns, sleep
from tidegate.control import migrate
from tidegate.control.errors import UNKEPT, DatabaseError, ValueRefused, told
from tidegate.control.models import Version
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine
    from sqlalchemy.orm import Session

CHANNEL: Final = "tidegate"
"""What PostgreSQL notifies when something that decides has changed, with the number of the change."""

BUSY_S: Final = 5.0
"""How long a writer of SQLite waits for another one, and everybody for a free connection."""

CONNECT_S: Final = 3
_MIGRATION_S: Final = 120.0
_AGAIN_NS: Final = 5_000_000
_EXAMPLES: Final = "write sqlite:///tidegate.db for a file, or postgresql://user@host/name"


class Database:
    """
    A database, connected when it is first used.

    Args:
        address: `sqlite:///file.db` (relative to the working directory; four slashes from the root on) or `postgresql://user@host/name`.

    Raises:
        ConfigError: It is no address of a database, or what talks to it is not installed.
    """

    def __init__(self, address: str) -> None:
        self.url = parse(address)
        self._engine = _engine(self.url, BUSY_S)
        self._writing = sessionmaker(self._engine, expire_on_commit=False)
        self._reading = sessionmaker(self._engine.execution_options(is_reading=True), expire_on_commit=False)

    @property
    def is_postgresql(self) -> bool:
        """Whether it is a PostgreSQL, which can notify; otherwise it is a file of SQLite."""
        return self.url.get_backend_name() == "postgresql"

    @property
    def shown(self) -> str:
        """Its address as it may be shown: without a password and without options."""
        url = self.url
        return URL.create(url.get_backend_name(), url.username, None, url.host, url.port, url.database).render_as_string()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """
        A transaction that may write.

        In SQLite one runs at a time; in PostgreSQL, lock the rows that a change rests on (`with_for_update`).

        Yields:
            The session. It commits at the end of the block, unless the block fails.

        Raises:
            DatabaseError: The database could not do it.
        """
        with _told(), self._writing.begin() as session:
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """
        A transaction that only reads.

        Yields:
            The session.

        Raises:
            DatabaseError: The database could not do it.
        """
        with _told(), self._reading.begin() as session:
            yield session

    def changed(self, session: Session) -> int:
        """
        Notes, in the transaction of the change, that something which decides has changed, so that every instance takes it up.

        Args:
            session: The transaction.

        Returns:
            The number of the change.
        """
        session.flush()
        number = session.scalars(
            update(Version).where(Version.id == 1).values(number=Version.number + 1).returning(Version.number),
            execution_options={"synchronize_session": False},
        ).one()
        if self.is_postgresql:
            # Told when the transaction commits, and not at all if it does not.
            session.execute(select(func.pg_notify(CHANNEL, str(number))))
        return number

    def number(self) -> int:
        """
        How often anything that decides has changed.

        Returns:
            The number of the last change.
        """
        with self.reading() as session:
            return session.scalars(select(Version.number).where(Version.id == 1)).one()

    @property
    def is_up(self) -> bool:
        """Whether it answers now."""
        try:
            with self.reading() as session:
                session.execute(text("SELECT 1"))
        except DatabaseError:
            return False
        return True

    def migrate(self) -> list[str]:
        """
        Brings the tables to what this version needs: wholly or, if it is interrupted, not at all. Of several processes one does it.

        Returns:
            The steps that were taken; none if nothing was to be done.

        Raises:
            SchemaTooNew: A newer Tidegate has been here.
            DatabaseError: The database could not do it.
        """
        # With patience of its own: who comes second waits until the first one is done.
        engine = _engine(self.url, _MIGRATION_S)
        try:
            # Who may read it reads digests of tokens and who did what: nobody but its owner. If it cannot be made, the next line says why.
            if not self.is_postgresql:
                with suppress(OSError):
                    Path(str(self.url.database)).touch(mode=0o600)
            with _told():
                return migrate.upgrade(engine)
        finally:
            engine.dispose()

    def close(self) -> None:
        """
        Ends all connections. The next use opens new ones.
        """
        self._engine.dispose()


def parse(address: str) -> URL:
    """
    Reads the address of a database.

    Args:
        address: The address.

    Returns:
        The same, with the driver that talks to it.

    Raises:
        ConfigError: It is none. The message does not show it, because it may hold a password.
    """
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise ConfigError(f"this is no address of a database\nhint: {_EXAMPLES}") from None
    name = url.drivername.partition("+")[0]
    if name == "sqlite":
        if not url.database or url.database == ":memory:" or url.host or url.query:
            raise ConfigError(
                "a database of SQLite is a file\nhint: write sqlite:///tidegate.db, or sqlite:////var/lib/tidegate/tidegate.db"
            )
        return url.set(drivername="sqlite+pysqlite")
    if name in {"postgresql", "postgres"}:
        if not url.database:
            raise ConfigError("the address names no database\nhint: write postgresql://user@host/name")
        return url.set(drivername="postgresql+psycopg")
    raise ConfigError(f"the control plane knows no database `{name:.40}`\nhint: {_EXAMPLES}")


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        if (plain := told(error)) is None:
            raise
        raise plain from error
    except (OverflowError, UnicodeEncodeError) as error:
        # SQLAlchemy lets through what sqlite3 raises before it asks anything.
        raise ValueRefused(UNKEPT) from error


def _engine(url: URL, patience_s: float) -> Engine:
    arguments: dict[str, Any]
    if url.get_backend_name() == "sqlite":
        # pysqlite would begin transactions when it likes, and not before DDL; `_begin` does it instead.
        arguments = {"isolation_level": None, "timeout": patience_s}
    else:
        # What is hung, not refused, is noticed too.
        arguments = {"connect_timeout": CONNECT_S, "tcp_user_timeout": 10_000, "application_name": "tidegate"}
        arguments = {name: value for name, value in arguments.items() if name not in url.query}
    try:
        engine = create_engine(url, connect_args=arguments, pool_pre_ping=True, pool_size=10, max_overflow=20, pool_timeout=BUSY_S)
    except ImportError:
        raise ConfigError("PostgreSQL needs psycopg, which is not installed\nhint: pip install 'tidegate[postgresql]'") from None
    if url.get_backend_name() == "sqlite":
        event.listen(engine, "connect", lambda connection, _record: _prepare(connection, patience_s))
        event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: sqlite3.Connection, patience_s: float) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")
    # The mode is kept in the file. To set it needs the file for oneself, and SQLite lets nobody wait for that: whoever is not the first is
    # told at once that it is locked.
    until_ns = now_ns() + int(patience_s * 1e9)
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or now_ns() > until_ns:
                raise
            sleep(_AGAIN_NS, None)
        else:
            break  # a file system that cannot have it leaves the mode as it was


def _begin(connection: Connection) -> None:
    # A transaction that reads first and writes later cannot wait for another writer: it would decide by what is no longer true.
    is_reading = connection.get_execution_options().get("is_reading", False)
    connection.exec_driver_sql("BEGIN" if is_reading else "BEGIN IMMEDIATE")
