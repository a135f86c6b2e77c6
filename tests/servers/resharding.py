"""
How slots move from one primary to another while clients use them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .node import HOST, Node

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 100


@dataclass
class Migration:
    """
    One move, in three steps that a test may take one by one.

    After `begin`, the source serves keys that it has and answers ASK for others; with some keys moved by `move(count)`, a command that
    needs keys of both sides is answered by TRYAGAIN; after `finish`, the source answers MOVED.
    """

    slots: list[int]
    source: Node
    target: Node
    primaries: Callable[[], list[Node]]

    def begin(self) -> None:
        """
        Opens the slots on both sides. Importing first: else the source would send clients to where nobody expects them.
        """
        source, target = self.source.ask("CLUSTER", "MYID"), self.target.ask("CLUSTER", "MYID")
        with self.target.connect() as connection:
            for slot in self.slots:
                connection.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source)
        with self.source.connect() as connection:
            for slot in self.slots:
                connection.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target)

    def move(self, count: int | None = None) -> int:
        """
        Moves keys.

        Args:
            count: At most so many of each slot, or all.

        Returns:
            How many were moved.
        """
        return sum(self._move(slot, count) for slot in self.slots)

    def _move(self, slot: int, count: int | None) -> int:
        moved = 0
        login = self.source.login
        auth = ("AUTH", login.password) if login else ()
        with self.source.connect() as connection:
            while count is None or moved < count:
                keys = connection.call("CLUSTER", "GETKEYSINSLOT", slot, BATCH if count is None else min(BATCH, count - moved))
                assert isinstance(keys, list)
                if not keys:
                    break
                names = [key for key in keys if isinstance(key, bytes)]
                connection.call("MIGRATE", HOST, self.target.port, "", 0, 5000, *auth, "KEYS", *names)
                moved += len(names)
        return moved

    def finish(self) -> None:
        """
        Tells the target, then the source, then everyone else who serves the slots now.
        """
        target = self.target.ask("CLUSTER", "MYID")
        others = [node for node in self.primaries() if node not in (self.source, self.target)]
        for node in (self.target, self.source, *others):
            with node.connect() as connection:
                for slot in self.slots:
                    connection.call("CLUSTER", "SETSLOT", slot, "NODE", target)
