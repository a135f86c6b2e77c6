"""
What brings the counts and events of a data plane to the database and to the sinks.

One thread takes events and counts out of the data plane, several times a second whatever happens, and hands them to the sinks' queues.
Another one writes to the database once a second, and may be slow or fail: what it could not write waits within bounds.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from sqlalchemy.exc import SQLAlchemyError

from tidegate.control import events, instances, record, rollup, sinks
from tidegate.control.errors import DatabaseError
from tidegate.control.polite import give_way
from tidegate.control.rollup import Rollup
from tidegate.control.snapshot import Snapshot
from tidegate.service.log import LOG

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidegate.control.database import Database
    from tidegate.control.events import Event
    from tidegate.control.live import RuleCount
    from tidegate.service.settings import Settings

TAKE_EVERY_S: Final = 0.2
TAKE_MAX: Final = 5000
"""How many events are taken at a time."""

WRITE_EVERY_S: Final = 1.0
USAGE_EVERY: Final = 5
"""Every so many seconds what was used is written."""

PRUNE_EVERY: Final = 60
EVENTS_A_WRITE: Final = 500
"""How many events a second the database keeps at most; all are counted, whether it keeps them or not."""

RECORDINGS_MAX: Final = 20_000
"""How many recordings wait for the database at most."""


class DataPlane(Protocol):
    """
    What is asked of a data plane; `tidegate._native.Server` is one.
    """

    def take_events(self, limit: int) -> bytes:
        """
        Takes at most so many events, a line of JSON each.
        """

    def snapshot(self) -> str:
        """
        What was counted since the start, as JSON.
        """


class Collector:
    """
    A part of the control plane beside a service.

    Args:
        server: The data plane.
        database: Where it all goes.
        settings: How much of it, and where else.
        now: Tells the time, in UTC.
        in_force: Tells the `Version.number` that the data plane has in force.

    Raises:
        ConfigError: Something about a sink is wrong.
    """

    def __init__(
        self, server: DataPlane, database: Database, settings: Settings, now: Callable[[], datetime], in_force: Callable[[], int]
    ) -> None:
        self.name: str = (settings["events.instance"] or instances.default_name())[: instances.NAME_MAX]
        self._server = server
        self._database = database
        self._settings = settings
        self._now = now
        self._in_force = in_force
        self._outlets = sinks.outlets(settings)
        self._rollup = Rollup(settings["events.keys"])
        self._history = instances.History()
        self._snapshot: Snapshot | None = None
        self._lock = threading.Lock()
        self._recent: deque[Event] = deque(maxlen=EVENTS_A_WRITE)
        self._recordings: deque[Event] = deque()
        self._dropped = 0
        self._writes = 0
        self._problem: str | None = None
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep_taking, name="tidegate-events-take", daemon=True),
            threading.Thread(target=self._keep_writing, name="tidegate-events-write", daemon=True),
        ]

    def start(self) -> None:
        """See `Part`."""
        # Differences begin here: what is decided from now on is seen.
        self.look()
        for outlet in self._outlets:
            outlet.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """See `Part`. What was decided until now is written, if the database can be used."""
        self._is_over.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self.take()
        self.look()
        self.write(is_last=True)
        for outlet in self._outlets:
            outlet.stop()

    def reasons(self) -> list[str]:
        """See `Part`. A sink that is down is no reason to send nobody here; `GET /admin/v1/instances` tells of it."""
        return []

    def take(self) -> None:
        """
        Takes all events that wait.
        """
        while lines := self._server.take_events(TAKE_MAX):
            taken = list(events.read(lines))
            told = [event for event in taken if event.weight]
            if self._outlets and told:
                rows = [event.row() for event in told]
                for outlet in self._outlets:
                    outlet.put(rows)
            self._rollup.note_events(told)
            with self._lock:
                self._recent.extend(told)
                recorded = [event for event in taken if event.attributes is not None]
                room = max(RECORDINGS_MAX - len(self._recordings), 0)
                self._recordings.extend(recorded[:room])
                self._dropped += max(len(recorded) - room, 0)
            if len(taken) < TAKE_MAX:
                return

    def look(self) -> Mapping[str, RuleCount]:
        """
        Takes in what was counted.

        Returns:
            What each rule said since the last look.
        """
        snapshot = Snapshot.from_json(self._server.snapshot())
        with self._lock:
            said = self._history.take_in(snapshot)
            self._snapshot = snapshot
        self._rollup.note_rules(snapshot.at, said)
        return said

    def write(self, *, is_last: bool = False) -> None:
        """
        Writes what waits to the database. What cannot be written waits for the next time.

        Args:
            is_last: Whether everything is written, because there is no next time.
        """
        self._writes += 1
        counts = self._rollup.take() if is_last or self._writes % USAGE_EVERY == 0 else {}
        with self._lock:
            recent, self._recent = self._recent, deque(maxlen=EVENTS_A_WRITE)
            recordings, self._recordings = self._recordings, deque()
            snapshot = self._snapshot
            live = self._history.live(dropped=self._dropped, sinks=[outlet.state for outlet in self._outlets])
        try:
            with self._database.session() as session:
                events.store(session, self.name, recent if self._settings["events.recent"] else ())
                record.store(session, recordings)
                rollup.write(session, self.name, counts)
                if is_last:
                    instances.remove(session, self.name)
                elif snapshot is not None:
                    shown = replace(snapshot, problem=snapshot.problem or self._problem)
                    instances.write(session, self.name, shown, number=self._in_force(), now=self._now(), live=live)
            if self._writes % PRUNE_EVERY == 0:
                self._prune()
        except (DatabaseError, SQLAlchemyError) as error:
            # Others than the first kind tell the statement and its values; a table that is not there yet is one.
            self._put_back(counts, recordings, recent)
            self._note(str(error) if isinstance(error, DatabaseError) else type(error).__name__)
        else:
            self._note(None)

    def _prune(self) -> None:
        now, settings = self._now(), self._settings
        with self._database.session() as session:
            events.prune(session, settings["events.recent"])
            record.prune(session, now - timedelta(seconds=settings["events.keep_recordings"]))
            instances.prune(session, now)
            rollup.sum_up(
                session,
                now,
                keep_minutes=timedelta(seconds=settings["events.keep_minutes"]),
                keep_hours=timedelta(seconds=settings["events.keep_hours"]),
                keys=settings["events.keys"],
            )

    def _put_back(self, counts: rollup.Counts, recordings: deque[Event], recent: deque[Event]) -> None:
        self._rollup.put_back(counts)
        with self._lock:
            self._recordings.extendleft(reversed(recordings))
            while len(self._recordings) > RECORDINGS_MAX:
                self._recordings.popleft()
                self._dropped += 1
            recent.extend(self._recent)
            self._recent = recent

    def _note(self, problem: str | None) -> None:
        if problem is not None and self._problem is None:
            LOG.warning("use and events wait, because the database cannot be written: %s", problem)
        elif problem is None and self._problem is not None:
            LOG.info("use and events are written again")
        self._problem = problem

    def _keep_taking(self) -> None:
        give_way()
        looked = self._now() - timedelta(seconds=1)
        while not self._is_over.wait(TAKE_EVERY_S):
            try:
                self.take()
                if (now := self._now()).replace(microsecond=0) != looked.replace(microsecond=0):
                    looked = now
                    self.look()
            except Exception:  # noqa: BLE001  # a thread that ends would lose all that follows
                LOG.exception("events could not be taken; it is tried again")

    def _keep_writing(self) -> None:
        give_way()
        while not self._is_over.wait(WRITE_EVERY_S):
            try:
                self.write()
            except Exception:  # noqa: BLE001  # a thread that ends would lose all that follows
                LOG.exception("use and events could not be written; it is tried again")
