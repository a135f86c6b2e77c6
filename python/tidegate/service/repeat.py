"""
Something that is done again and again, in a thread of its own.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tidegate.service.log import LOG

if TYPE_CHECKING:
    from collections.abc import Callable

STOP_S = 10.0


class Repeating:
    """
    A thread that does the same again and again, until it is told to stop.

    Args:
        name: What it is called, behind `tidegate-`.
        every_s: How long it waits before each time, in seconds.
        do: What it does. A time that fails is logged, and the next one comes all the same.
    """

    def __init__(self, name: str, every_s: float, do: Callable[[], object]) -> None:
        self._name = name
        self._every_s = every_s
        self._do = do
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """
        Begins.
        """
        self._thread = threading.Thread(target=self._run, name=f"tidegate-{self._name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """
        Ends that. Nothing happens if it has ended, or never began.
        """
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_S)

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                self._do()
            except Exception:  # noqa: BLE001  # whatever it is, the thread lives on
                LOG.exception("%s failed, and is tried again", self._name)
