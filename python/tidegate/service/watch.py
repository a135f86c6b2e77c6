"""
Hot reload: files that are read again when they change on disk.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tidegate.rules import footprint
from tidegate.service.log import LOG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

LOOK_S = 0.25
"""How often the files are looked at. There are a few of them, and a look costs microseconds: notices of the system would be no better."""
STOP_S = 10.0


class FileWatcher:
    """
    Looks at files in a thread of its own, and says when they have changed and stay so: half of a file is no file.

    Args:
        what: What is in them, for the name of the thread and for the log.
        files: Which ones; asked each time, because settings name others.
        changed: What is called then. A call that fails is logged, and the next change is told all the same.
    """

    def __init__(self, what: str, files: Callable[[], Iterable[Path]], changed: Callable[[], object]) -> None:
        self._what = what
        self._files = files
        self._changed = changed
        self._stop = threading.Event()
        self._told = footprint.glance(files())
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """
        Begins to look.
        """
        self._thread = threading.Thread(target=self._run, name=f"tidegate-{self._what}-watcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """
        Ends that. Nothing happens if it has ended, or never began.
        """
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_S)

    def _run(self) -> None:
        before = self._told
        while not self._stop.wait(LOOK_S):
            now = footprint.glance(self._files())
            if now == before and now != self._told:
                self._told = now
                try:
                    self._changed()
                except Exception:  # noqa: BLE001  # whatever it is, what is in force stays and the thread lives on
                    LOG.exception("changed %s could not be loaded; those in force stay", self._what)
                # Other settings name other files; what changed while these were loaded is told next.
                before = footprint.glance(self._files())
                self._told = {path: now.get(path, look) for path, look in before.items()}
            else:
                before = now
