"""
The way to one sink: a bounded queue, a thread that empties it in batches, and pauses that grow while the sink fails.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from tidegate.control.live import SinkState
from tidegate.control.polite import give_way
from tidegate.service.log import LOG

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = dict[str, Any]
"""An event, by `tidegate.control.events.COLUMNS`."""

QUEUE_MAX: Final = 50_000
"""How many events wait for a sink at most."""

BATCH_MAX: Final = 5000
"""How many are handed to it at a time."""

PAUSE_MIN_S: Final = 0.5
PAUSE_MAX_S: Final = 30.0
STOP_S: Final = 5.0
"""How long a sink may take to get the rest when everything ends."""


class SinkError(Exception):
    """
    A sink did not take a batch. The message names no secret.
    """


class Sink(Protocol):
    """
    Something that takes events.
    """

    def write(self, rows: Sequence[Row]) -> None:
        """
        Takes a batch as a whole. If it fails, the same batch comes again.

        Raises:
            SinkError: It did not.
        """

    def close(self) -> None:
        """
        Lets go of what it holds. It does not fail.
        """


class Outlet:
    """
    The way to one sink.

    Args:
        name: The word for messages.
        sink: The sink, used by one thread at a time.
        queue_max: How many events wait at most.
    """

    def __init__(self, name: str, sink: Sink, queue_max: int = QUEUE_MAX) -> None:
        self.name = name
        self._sink = sink
        self._queue: deque[Row] = deque()
        self._queue_max = queue_max
        self._written = 0
        self._dropped = 0
        self._why = ""
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name=f"tidegate-events-{name}", daemon=True)

    @property
    def state(self) -> SinkState:
        """How it is doing."""
        with self._changed:
            return SinkState(self.name, self._written, self._dropped, len(self._queue), self._why)

    def start(self) -> None:
        """
        Begins.
        """
        self._thread.start()

    def put(self, rows: Sequence[Row]) -> None:
        """
        Takes events in. It never waits: what does not fit is dropped and counted.

        Args:
            rows: The events.
        """
        with self._changed:
            room = max(self._queue_max - len(self._queue), 0)
            self._queue.extend(rows[:room])
            self._dropped += max(len(rows) - room, 0)
            self._changed.notify()

    def stop(self) -> None:
        """
        Ends, after what waits was written, if that takes no longer than `STOP_S`.
        """
        with self._changed:
            self._is_over = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(STOP_S)
        if not self._thread.is_alive():
            self._sink.close()
        with self._changed:
            self._dropped += len(self._queue)
            if self._queue:
                LOG.warning("%d events were not written to %s before the end", len(self._queue), self.name)
            self._queue.clear()

    def _run(self) -> None:
        give_way()
        pause = PAUSE_MIN_S
        while (batch := self._wait()) is not None:
            if self._try(batch):
                pause = PAUSE_MIN_S
                continue
            with self._changed:
                # A fleet does not come back at once.
                self._changed.wait_for(lambda: self._is_over, pause * random.uniform(0.5, 1))  # noqa: S311  # no secret
                if self._is_over:
                    return
            pause = min(pause * 2, PAUSE_MAX_S)

    def _wait(self) -> list[Row] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_over)
            return list(islice(self._queue, BATCH_MAX)) or None

    def _try(self, batch: list[Row]) -> bool:
        try:
            self._sink.write(batch)
        except SinkError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001  # a thread that ends would lose all that follow
            why = f"{type(error).__name__}: {error}"
        else:
            why = ""
        with self._changed:
            if why and not self._why:
                LOG.error("events do not reach %s, which is tried again: %s", self.name, why)
            elif self._why and not why:
                LOG.info("events reach %s again", self.name)
            self._why = why
            if not why:
                self._written += len(batch)
                for _ in batch:
                    self._queue.popleft()
        return not why
