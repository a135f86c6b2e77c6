"""
Follows the database: what changes there is in force in this process within two seconds, as a whole.

One thread looks at the number of the last change, which is one row, and reads the rest only when it is another one. The rules of files are
part of every composition, whichever of the two changed. A database that is away changes nothing: what is in force stays, the problem is
told, and looking goes on until it is back. At a start without a database the file of `cache.py` stands in for it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from sqlalchemy import select

from tidegate.control import cache, changes, rules
from tidegate.control.bell import Bell, PostgresBell
from tidegate.control.cache import State
from tidegate.control.compose import NO_FILES, ROLLING, Composition, compose
from tidegate.control.errors import DatabaseError
from tidegate.control.models import ChangeRequest, Version
from tidegate.control.polite import give_way
from tidegate.errors import TidegateError
from tidegate.service.log import LOG

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from sqlalchemy.orm import Session

    from tidegate.control.database import Database
    from tidegate.control.models import StoredRule
    from tidegate.rule_limiter import RuleLimiter
    from tidegate.rules import RuleSet

STOP_S: Final = 5.0


class Members(Protocol):
    """
    Makes the document of members.
    """

    def __call__(self, session: Session, now: datetime, /) -> tuple[str, datetime | None]:
        """
        Reads it.

        Args:
            session: The transaction.
            now: The time.

        Returns:
            The document as the engine takes it, and when it will be another one without any change: a plan begins or ends.
        """


@dataclass(frozen=True, slots=True)
class Following:
    """
    What a follower works on.

    Args:
        database: The database.
        now: Reads the time of day.
        limiter: Whose rules follow; `None` where nobody decides, and only people look at the rules.
        files: The rules of files, without a limiter.
        cache: Where the last good state is kept; `None` keeps none.
        members: Makes the document of members.
        note: Told what is wrong whenever that changes; `None` when nothing is.
    """

    database: Database
    now: Callable[[], datetime]
    limiter: RuleLimiter | None = None
    files: RuleSet = NO_FILES
    cache: Path | None = None
    members: Members | None = None
    note: Callable[[str | None], None] = lambda _: None


class Follower:
    """
    Keeps the rules in force as the database has them, in a thread of its own.

    Args:
        following: What it works on.
    """

    def __init__(self, following: Following) -> None:
        self._on = following
        self._bell = _bell(following.database)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._state: State | None = None
        self._members: str | None = None
        self._members_due_at: datetime | None = None
        self._composition = Composition(self.files)
        self._away: str | None = None
        self._refused: str | None = None
        self._unkept: str | None = None
        self._noted: str | None = None

    @property
    def files(self) -> RuleSet:
        """The rules of files."""
        return self._on.files if self._on.limiter is None else self._on.limiter.file_rules

    @property
    def composition(self) -> Composition:
        """The rules in force, and what was left out."""
        return self._composition

    @property
    def number(self) -> int:
        """The number of the last change that is in force; 0 before the first."""
        return 0 if self._state is None else self._state.number

    @property
    def state(self) -> tuple[tuple[StoredRule, ...], tuple[ChangeRequest, ...]]:
        """The stored rules in force, and the changes of them that roll out."""
        return ((), ()) if self._state is None else (self._state.stored, self._state.changes)

    def reasons(self) -> list[str]:
        """
        What is wrong, for the health of this process.

        Returns:
            One sentence, or none.
        """
        return [self.problem] if self.problem is not None else []

    @property
    def problem(self) -> str | None:
        """Why changes do not come into force, or not all of them; `None` if they do."""
        return "; ".join(filter(None, (self._away, self._refused, self._composition.problem, self._unkept))) or None

    def start(self) -> None:
        """
        Takes what the database has, or what was kept of it, and begins to follow. It returns when the first rules are in force.
        """
        if not self.look() and self._state is None and self._on.cache is not None:
            kept = cache.read(self._on.cache, self._on.database.shown)
            if kept is not None:
                LOG.warning("the database is away; the rules are those of change %d, kept in %s", kept.number, self._on.cache)
                self._put(kept, is_kept=True)
        self._thread = threading.Thread(target=self._run, name="tidegate-follower", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it follows."""
        return self._thread is not None and not self._stop.is_set()

    def stop(self) -> None:
        """
        Ends following. What is in force stays.
        """
        self._stop.set()
        self._bell.ring()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_S)
        self._bell.close()

    def ring(self) -> None:
        """
        Says that something may have changed, so that it is looked at now.
        """
        self._bell.ring()

    def look(self) -> bool:
        """
        Takes what has changed.

        Returns:
            Whether the database answered.
        """
        with self._lock:
            try:
                self._look()
            except DatabaseError as error:
                if self._away is None:
                    LOG.error("the database is away, what is in force stays: %s", error)
                self._away = f"the database is away: {error}"
            except Exception as error:  # noqa: BLE001  # not this process's last word: it looks again, and decisions go on
                LOG.exception("changes cannot be followed")
                self._refused = f"changes cannot be followed: {error}"
            else:
                if self._away is not None:
                    LOG.info("the database is back")
                self._away = None
            self._note()
            return self._away is None

    def _run(self) -> None:
        give_way()
        while not self._stop.is_set():
            self._bell.wait()
            if not self._stop.is_set():
                self.look()

    def _look(self) -> None:
        now = self._on.now()
        if self._state is not None and self._is_due(now, changes.due_at(self._state.changes)):
            with rules.changing(self._on.database) as session:
                changes.advance_due(session, now)
        is_due = self._is_due(now, self._members_due_at)
        if self._state is None or self._away is not None or is_due or self._on.database.number() != self._state.number:
            self._take(now)

    @staticmethod
    def _is_due(now: datetime, at: datetime | None) -> bool:
        return at is not None and at <= now

    def _take(self, now: datetime) -> None:
        with self._on.database.reading() as session:
            # First: what is committed while the rest is read belongs to a later number, and is read again then.
            number = session.scalars(select(Version.number).where(Version.id == 1)).one()
            stored = tuple(rules.listed(session))
            rolling = tuple(session.scalars(select(ChangeRequest).where(ChangeRequest.state.in_(ROLLING))))
        state = State(number, stored, rolling, self._members)
        # Rules before members, of which there may be very many.
        self._put(state)
        if self._on.members is not None:
            with self._on.database.reading() as session:
                document, self._members_due_at = self._on.members(session, now)
            self._put_members(document)
            state = replace(state, members=document)
            self._state = state
        self._keep(state)

    def _put(self, state: State, *, is_kept: bool = False) -> None:
        def composer(files: RuleSet) -> RuleSet:
            # Called again when files change, in the thread that watches them.
            self._composition = compose(files, state.stored, state.changes)
            return self._composition.rule_set

        limiter = self._on.limiter
        try:
            if limiter is None:
                composer(self._on.files)
            else:
                before = limiter.generation
                generation = limiter.compose_with(composer)
                if generation != before:
                    LOG.info("rules of change %d are in force: generation %d", state.number, generation)
        except TidegateError as error:
            self._refused = f"change {state.number} is refused, what is in force stays: {error}"
            LOG.error("%s", self._refused)
        else:
            self._refused = None
        # Also what was refused is not looked at again before it changes.
        self._state = state
        if is_kept and state.members is not None:
            self._put_members(state.members)

    def _put_members(self, document: str) -> None:
        limiter = self._on.limiter
        if limiter is None or document == self._members:
            return
        try:
            limiter.load_members(document)
        except TidegateError as error:
            self._refused = f"members are refused, those in force stay: {error}"
            LOG.error("%s", self._refused)
        # Also what was refused is not looked at again before it changes.
        self._members = document

    def _keep(self, state: State) -> None:
        if self._on.cache is None:
            return
        try:
            cache.write(self._on.cache, self._on.database.shown, state)
        except OSError as error:
            if self._unkept is None:
                LOG.warning("what is in force cannot be kept for a start without the database: %s", error)
            self._unkept = f"what is in force cannot be kept in {self._on.cache}: {error.strerror}"
        else:
            self._unkept = None

    def _note(self) -> None:
        problem = self.problem
        if problem != self._noted:
            self._noted = problem
            self._on.note(problem)


def _bell(database: Database) -> Bell:
    if not database.is_postgresql:
        return Bell()

    def connect() -> object:
        from psycopg import Connection  # noqa: PLC0415  # only where PostgreSQL is

        address = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
        return Connection.connect(address, autocommit=True, connect_timeout=3, application_name="tidegate-follower")

    return PostgresBell(connect)
