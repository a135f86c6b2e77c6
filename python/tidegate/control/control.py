"""
The control plane of one process: its database, its port, and what runs beside them.

It runs beside a service (`tidegate serve`) or on its own (`tidegate admin`).
Nothing in it takes part in a decision, and nothing that fails in it stops one.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from tidegate import rules
from tidegate.control import members, tokens
from tidegate.control.caller import Caller
from tidegate.control.collector import Collector
from tidegate.control.compose import NO_FILES
from tidegate.control.database import Database
from tidegate.control.errors import DatabaseError
from tidegate.control.follow import Follower, Following
from tidegate.control.roles import Role
from tidegate.control.signin import SignIn
from tidegate.errors import RuleError
from tidegate.rule_limiter import RuleLimiter
from tidegate.service.block import Block
from tidegate.service.log import LOG

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.control.web import Web
    from tidegate.rules import RuleSet
    from tidegate.service.service import Service
    from tidegate.service.settings import Settings

RETRY_S: Final = 1.0
"""How long to wait before a database that could not be opened is tried again."""


class Part(Protocol):
    """
    Something that runs beside the port as long as the control plane does, such as what follows the database.
    """

    def start(self) -> None:
        """
        Begins, once the database was opened for the first time.
        """

    def stop(self) -> None:
        """
        Ends, and waits until it has. Nothing happens if it never began.
        """

    def reasons(self) -> list[str]:
        """
        What is wrong with it, for the health of this process.
        """


class Control(Block):
    """
    The control plane: `with Control(settings) as control:`.

    Args:
        settings: How it is set up.
        service: The service beside which it runs; `None` if it runs on its own.
        now: Tells the time, in UTC.

    Raises:
        ConfigError: The address of the database is wrong.
    """

    def __init__(self, settings: Settings, service: Service | None = None, *, now: Callable[[], datetime] | None = None) -> None:
        self.settings = settings
        self.service = service
        self.now = now or _now
        self.database = Database(settings["admin.database"])
        self.sign_in = SignIn(self.database, timedelta(seconds=settings["admin.session"]))
        self.limiter = self._counters() if service is None else service.limiter
        """Who sees the counters of the fleet: that of the service, or one of its own on the store that they share; else `None`."""
        self.follower = Follower(self._following())
        """What is in force of the database, and of files."""
        self.parts: list[Part] = []
        """What else runs beside the port once the database was opened, such as the collector of events."""
        self.collector: Collector | None = None
        """What brings events and counts of the service here, once it was started."""
        self._problem: str | None = "the database was not opened yet"
        self._web: Web | None = None
        self._is_draining = False
        self._is_over = threading.Event()
        self._opener: threading.Thread | None = None

    @property
    def address(self) -> str | None:
        """Where it listens; `None` if it does not."""
        return None if self._web is None else self._web.address

    @property
    def hosts(self) -> frozenset[str]:
        """The names by which browsers may ask for it, beside addresses and `localhost`."""
        place = self.settings["admin.listen"]
        return frozenset(name.lower() for name in (*self.settings["admin.hosts"], *((place.host,) if place else ())) if name)

    def reasons(self) -> list[str]:
        """
        What is wrong now.

        Returns:
            Sentences for people; none if all is well.
        """
        own = ["it is about to stop"] if self._is_draining else []
        if self._problem is not None:
            own.append(self._problem)
        elif not self.database.is_up:
            own.append(f"the database {self.database.shown} cannot be reached")
        return own + [reason for part in (self.follower, *self.parts) for reason in part.reasons()]

    @property
    def needs_approval(self) -> bool:
        """Whether a change of rules needs a second person."""
        return bool(self.settings["admin.approval"])

    def open(self) -> None:
        """
        Brings the tables up to date.

        Raises:
            DatabaseError: The database cannot be used.
        """
        for step in self.database.migrate():
            LOG.info("database %s migrated: %s", self.database.shown, step)
        self._problem = None

    def take_first_token(self) -> str | None:
        """
        Makes the first token, of an admin, if there has never been one. It is handed over once, and then forgotten.

        Not before somebody is there to see it: a first start that fails, because a port is taken perhaps, must not use it up.

        Returns:
            The secret, or `None`.
        """
        # A database that is away has no place for it now; the next start makes it.
        with suppress(DatabaseError):
            if self._problem is None:
                return tokens.create_first(self.database, Caller("tidegate", Role.ADMIN, "local", self.now()))
        return None

    def follow(self) -> None:
        """
        Opens the database and puts into force what it has, or what was kept of it if it cannot be used, before a request is decided.

        Beside a service, a database that cannot be used is tried again and again: decisions do not need it. Nothing happens if it follows.

        Raises:
            DatabaseError: It runs on its own, and the database cannot be used.
        """
        if self.follower.is_running:
            return
        try:
            self.open()
        except DatabaseError as error:
            if self.service is None:
                raise
            self._note(error)
        self.follower.start()

    def start(self) -> None:
        """
        Opens the database, follows it, and begins to listen.

        Raises:
            DatabaseError: It runs on its own, and the database cannot be used.
            StartupError: The port is taken, or a certificate is wrong.
            ConfigError: Something about where events go is wrong.
        """
        if self.service is not None:
            # It waits for no database: files and the like get events without one.
            self.collector = Collector(self.service.server, self.database, self.settings, self.now, lambda: self.follower.number)
            self.collector.start()
        self.follow()
        self._listen()
        if self._problem is None:
            self._start_parts()
        else:
            self._opener = threading.Thread(target=self._keep_opening, name="tidegate-admin-open", daemon=True)
            self._opener.start()

    def reload(self) -> None:
        """
        Loads certificates again, as SIGHUP does.
        """
        if self._web is not None:
            self._web.reload()

    def drain(self, grace: float | None = None) -> int:
        """
        Turns readiness off, serves on for a while, waits for requests that run, and ends.

        Args:
            grace: Seconds to serve on; by default `shutdown.grace`.

        Returns:
            0: what runs for longer than a moment is a page that follows what happens, and loads again.
        """
        self._is_draining = True
        self._is_over.wait(self.settings["shutdown.grace"] if grace is None else grace)
        self.stop()
        return 0

    def stop(self) -> None:
        """
        Ends. Nothing happens if it has ended.
        """
        self._is_over.set()
        if self._web is not None:
            self._web.stop()
        if self._opener is not None:
            self._opener.join()
        while self.parts:
            self.parts.pop().stop()
        self.follower.stop()
        if self.service is None and self.limiter is not None:
            self.limiter.close()
        if self.collector is not None:
            self.collector.stop()
            self.collector = None
        self.database.close()

    def _following(self) -> Following:
        kept = self.settings["admin.cache"]
        service = self.service
        return Following(
            self.database,
            self.now,
            limiter=self.limiter,
            files=NO_FILES if self.limiter is not None else self._files(),
            members=members.document,
            cache=None if kept == "off" or service is None else Path(kept),
            note=(lambda _: None) if service is None else service.note_control,
        )

    def _counters(self) -> RuleLimiter | None:
        # It decides nothing: people ask it what a key has used, and it forgets what they want forgotten.
        options = self.settings.store_options
        return None if options["store"] == "memory://" else RuleLimiter(self._files(), **options)

    def _files(self) -> RuleSet:
        # On its own it decides nothing, and shows what the instances read if it is told where that is.
        source = self.settings["rules"]
        if source is None:
            return NO_FILES
        try:
            return rules.load(source, merge_domains=self.settings["merge_domains"])
        except RuleError as error:
            LOG.warning("the rules of files are not shown: %s", error)
            return NO_FILES

    def _listen(self) -> None:
        place = self.settings["admin.listen"]
        if place is None:
            return
        # A process that only follows the database needs neither.
        from tidegate.control.app import build  # noqa: PLC0415
        from tidegate.control.web import Web  # noqa: PLC0415

        cert, key, client_ca = (self.settings[f"admin.tls.{name}"] for name in ("cert", "key", "client_ca"))
        self._web = Web(place, None if cert is None else (cert, key, client_ca), self.settings["trusted_gateways"])
        self._web.start(build(self))

    def _start_parts(self) -> None:
        for part in self.parts:
            part.start()

    def _keep_opening(self) -> None:
        # How things are is told to the service by the follower.
        while self._problem is not None and not self._is_over.wait(RETRY_S):
            self._try_again()

    def _try_again(self) -> None:
        try:
            self.open()
        except DatabaseError as error:
            self._note(error)
            return
        LOG.info("the database %s can be used now", self.database.shown)
        self._start_parts()
        if self.take_first_token() is not None:
            # The log is no place for it.
            LOG.warning("the control plane has no token that anybody knows; make one: tidegate admin token create NAME --role admin")

    def _note(self, error: DatabaseError) -> None:
        if self._problem != str(error):
            LOG.error("the control plane cannot use its database %s, and tries again; decisions go on: %s", self.database.shown, error)
        self._problem = str(error)


def _now() -> datetime:
    return datetime.now(UTC)
