"""
What can go wrong with the database of the control plane. None of it stops a decision.

```
ServerError
└─ DatabaseError          the database could not do it; `is_transient` says whether a retry can help
   ├─ DatabaseUnavailable (transient) it cannot be reached, or somebody else holds it
   ├─ DatabaseFull        no room is left on its disk
   ├─ SchemaTooNew        a newer Tidegate has migrated it
   └─ ValueRefused        it cannot keep a value, such as a text with a NUL
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from sqlalchemy.exc import DataError, IntegrityError, OperationalError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from tidegate.errors import ServerError

if TYPE_CHECKING:
    from sqlalchemy.exc import SQLAlchemyError


UNKEPT: Final = "the database cannot keep one of the values: a number too large, or a character that it does not know"
_LOOK: Final = "look at the path in admin.database, and whether its folder exists and can be written"


class DatabaseError(ServerError):
    """
    The database could not do what it was asked.
    """

    is_transient: ClassVar[bool] = False
    """Whether the same call may succeed a little later."""


class DatabaseUnavailable(DatabaseError):
    """
    The database cannot be reached, or somebody else holds it for too long.
    """

    is_transient = True


class DatabaseFull(DatabaseError):
    """
    There is no room left where the database is. What was in it stays readable.
    """


class SchemaTooNew(DatabaseError):
    """
    The tables were made by a newer Tidegate, and this one does not know what they mean.
    """


class ValueRefused(DatabaseError):
    """
    A value that the database cannot keep.
    """


def told(error: SQLAlchemyError) -> DatabaseError | None:
    """
    What an error of the database means, without what was asked: that may hold what nobody should read in a log.

    Args:
        error: The error.

    Returns:
        The same, told plainly; `None` if it is a mistake of ours or of a constraint, which whoever asked has to understand.
    """
    if isinstance(error, PoolTimeout):
        return DatabaseUnavailable("the database does not answer: all connections to it are in use")
    if not isinstance(error, StatementError) or isinstance(error, IntegrityError):
        return None
    return _plain(error, str(error.orig).strip().partition("\n")[0])


def _plain(error: StatementError, text: str) -> DatabaseError | None:
    if isinstance(error, DataError) or isinstance(error.orig, (OverflowError, UnicodeError)):
        return ValueRefused(UNKEPT)
    # PostgreSQL tells it by a code, 53100 disk_full; SQLite by these words.
    if getattr(error.orig, "sqlstate", None) == "53100" or "disk is full" in text or "disk I/O error" in text:
        return DatabaseFull(f"there is no room for the database: {text}")
    if "file is not a database" in text:
        return DatabaseError(f"the file is no database of SQLite\nhint: {_LOOK}")
    if isinstance(error, OperationalError) or getattr(error, "connection_invalidated", False):
        return DatabaseUnavailable(f"the database cannot be used: {text}\nhint: {_hint(text)}")
    return None


def _hint(text: str) -> str:
    if "locked" in text:
        return "another process holds it for too long; find out which"
    if "unable to open" in text or "readonly" in text:
        return _LOOK
    return "see whether the server runs, and look at host, port, user and database in admin.database"
