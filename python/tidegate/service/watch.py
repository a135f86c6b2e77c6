"""
Hot reload: files that are read again when they change on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.rules import footprint
from tidegate.service.log import LOG
from tidegate.service.repeat import Repeating

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

LOOK_S = 0.25
"""How often the files are looked at. There are a few of them, and a look costs microseconds: notices of the system would be no better."""


class FileWatcher(Repeating):
    """
    Looks at files in a thread of its own, and says when they have changed and stay so: half of a file is no file.

    Args:
        what: What is in them, for the name of the thread and for the log.
        files: Which ones; asked each time, because settings name others.
        changed: What is called then. A call that fails is logged, and the next change is told all the same.
    """

    def __init__(self, what: str, files: Callable[[], Iterable[Path]], changed: Callable[[], object]) -> None:
        super().__init__(f"{what}-watcher", LOOK_S, self._look)
        self._what = what
        self._files = files
        self._changed = changed
        self._told = self._before = footprint.glance(files())

    def _look(self) -> None:
        now = footprint.glance(self._files())
        if now != self._before or now == self._told:
            self._before = now
            return
        self._told = now
        try:
            self._changed()
        except Exception:  # noqa: BLE001  # whatever it is, what is in force stays
            LOG.exception("changed %s could not be loaded; those in force stay", self._what)
        # Other settings name other files; what changed while these were loaded is told next.
        self._before = footprint.glance(self._files())
        self._told = {path: now.get(path, look) for path, look in self._before.items()}
