"""
What the commands share: the database that settings name, and in whose name they change it.
"""

from __future__ import annotations

import getpass
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli import _serving
from tidegate.control.settings import ControlChecking
from tidegate.errors import ConfigError
from tidegate.service import load
from tidegate.service.table import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.control.caller import Caller
    from tidegate.control.database import Database

_SETTING = TABLE["admin.database"]

Config = _serving.Config
Address = Annotated[
    str | None,
    typer.Option(_SETTING.flag, metavar="URL", help=f"The database. Default: {_SETTING.default_text}. \\[env: {_SETTING.variable}]"),
]


@contextmanager
def needing_extra() -> Iterator[None]:
    """
    Says what is missing, if what is imported in the block is not installed.

    Raises:
        ConfigError: It is not.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tidegate"):
            raise
        raise ConfigError(f"the control plane is not installed: there is no {error.name}\nhint: pip install 'tidegate[admin]'") from None


@contextmanager
def opened(config: str | None, address: str | None) -> Iterator[Database]:
    """
    The database that the settings name.

    Args:
        config: The file of settings.
        address: The database, if the command line says which.

    Yields:
        The database.
    """
    with needing_extra():
        from tidegate.control.database import Database  # noqa: PLC0415  # an extra
    settings = load(_serving.path_of(config), flags={"admin.database": address}, checking=ControlChecking)
    database = Database(settings["admin.database"])
    try:
        yield database
    finally:
        database.close()


def operator() -> Caller:
    """
    Who runs the command: whoever can read the database may do everything.

    Returns:
        Them, by their name on this machine.
    """
    from tidegate.control.caller import Caller  # noqa: PLC0415  # an extra
    from tidegate.control.roles import Role  # noqa: PLC0415  # as above

    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        # In a container, nobody may have a name.
        name = "somebody"
    return Caller(f"{name} (command line)", Role.ADMIN, "local", datetime.now(UTC))
