"""
The last good state of the database in a file, for a start while the database is down.

The file is written as a whole beside the old one and then takes its place. Only its owner may read it: rules and plans of customers are in
it.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidegate.control.models import ChangeRequest, StoredRule

if TYPE_CHECKING:
    from pathlib import Path

_FORMAT: Final = 1
_RULE: Final = ("rule_id", "revision", "body")
_CHANGE: Final = ("id", "rule_id", "body", "state", "steps", "step")


@dataclass(frozen=True, slots=True)
class State:
    """
    Everything in the database that decides.

    Args:
        number: The number of the last change that is in it.
        stored: The rules.
        changes: Changes of rules that roll out.
        members: Who has which plan, as the engine takes it; `None` if nobody has one.
    """

    number: int
    stored: tuple[StoredRule, ...] = ()
    changes: tuple[ChangeRequest, ...] = ()
    members: str | None = None


def write(path: Path, database: str, state: State) -> None:
    """
    Keeps a state.

    Args:
        path: The file.
        database: The database that it comes from, as it is shown.
        state: The state.

    Raises:
        OSError: It cannot be written; the file of before stays.
    """
    text = json.dumps(
        {
            "format": _FORMAT,
            "database": database,
            "number": state.number,
            "rules": [{name: getattr(rule, name) for name in _RULE} for rule in state.stored],
            "changes": [{name: getattr(change, name) for name in _CHANGE} for change in state.changes],
            "members": state.members,
        },
        separators=(",", ":"),
    ).encode()
    # Another process of the same machine may write it too: each has a file of its own until it is whole.
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with open(beside, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:  # Path.open takes no mode
            file.write(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def read(path: Path, database: str) -> State | None:
    """
    Reads what was kept.

    Args:
        path: The file.
        database: The database that it has to come from.

    Returns:
        The state; `None` if there is none, none that is whole, or one of another database.
    """
    try:
        digest, _, text = path.read_bytes().partition(b"\n")
        if hashlib.sha256(text).hexdigest().encode() != digest:
            return None
        found: dict[str, Any] = json.loads(text)
    except (OSError, ValueError):
        return None
    if (found.get("format"), found.get("database")) != (_FORMAT, database):
        return None
    return State(
        number=found["number"],
        stored=tuple(StoredRule(**rule) for rule in found["rules"]),
        changes=tuple(ChangeRequest(**change) for change in found["changes"]),
        members=found["members"],
    )
