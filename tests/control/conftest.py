"""
Databases of both kinds, control planes on them, and clients of every role.

    def test_something(database): ...      # SQLite, then PostgreSQL
    def test_a_route(client): ...          # a control plane on each: client.admin.get("/admin/v1/tokens")
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tidegate.control.control import Control
from tidegate.control.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.control.controlling import Clients, Clock, new_postgresql, own_postgresql, settings_for, token_of
else:
    from controlling import Clients, Clock, new_postgresql, own_postgresql, settings_for, token_of

__all__ = ["Clients", "Clock", "new_postgresql", "settings_for", "token_of"]

KINDS = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """
    A PostgreSQL of its own, started once: its address.
    """
    with own_postgresql() as server:
        yield server.get_uri()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """
    The kind of database: each in turn.
    """
    found: str = request.param
    return found


@pytest.fixture
def empty_address(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """
    The address of a new database without tables.
    """
    if kind == "sqlite":
        return f"sqlite:///{tmp_path}/empty.db"
    return new_postgresql(request.getfixturevalue("postgresql"))


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A file with tables, to copy: faster than to make them for each test.
    """
    path = tmp_path_factory.mktemp("template") / "tidegate.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgresql_template(postgresql: str) -> str:
    """
    The name of a database with tables, to copy.
    """
    made = new_postgresql(postgresql)
    migrate(made)
    return str(Database(made).url.database)


@pytest.fixture
def address(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """
    The address of a new database with tables.
    """
    if kind == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "tidegate.db")
        return f"sqlite:///{tmp_path}/tidegate.db"
    return new_postgresql(request.getfixturevalue("postgresql"), request.getfixturevalue("postgresql_template"))


@pytest.fixture
def database(address: str) -> Iterator[Database]:
    """
    A database with its tables.
    """
    database = Database(address)
    yield database
    database.close()


@pytest.fixture
def clock() -> Clock:
    """
    The time, which stands still until the test moves it.
    """
    return Clock()


@pytest.fixture
def control(address: str, tmp_path: Path, clock: Clock) -> Iterator[Control]:
    """
    A control plane on its own, on a free port.
    """
    with Control(settings_for(address, tmp_path), now=clock) as control:
        yield control


@pytest.fixture
def client(control: Control) -> Iterator[Clients]:
    """
    Clients of every role.
    """
    with ExitStack() as stack:
        yield Clients(control, stack)


@pytest.fixture
def careful(address: str, tmp_path: Path, clock: Clock) -> Iterator[Clients]:
    """
    Clients of a control plane where a change of rules needs a second person.
    """
    with Control(settings_for(address, tmp_path, {"admin.approval": True}), now=clock) as control, ExitStack() as stack:
        yield Clients(control, stack)


def migrate(address: str) -> None:
    """
    Makes the tables.
    """
    database = Database(address)
    database.migrate()
    database.close()
