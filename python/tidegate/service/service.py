"""
The service: rules, an engine, and ports that answer by them. Python starts and supervises it; requests are answered in Rust.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate import rules
from tidegate._native import Server
from tidegate.errors import RuleError, TidegateError
from tidegate.rule_limiter import RuleLimiter
from tidegate.service import native
from tidegate.service.block import Block
from tidegate.service.log import LOG
from tidegate.service.vigil import Vigil
from tidegate.service.watch import FileWatcher

if TYPE_CHECKING:
    from tidegate.control.control import Control
    from tidegate.service.settings import Settings


class Service(Block):
    """
    A service that runs in this process, on threads of its own: `with Service(load(...)) as service:`.

    Args:
        settings: How it is set up.

    Raises:
        RuleError: The rules are wrong, with all problems that were found.
        ConfigError: The store is not known.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.limiter = RuleLimiter(
            settings["rules"], watch=settings["watch"], merge_domains=settings["merge_domains"], **settings.store_options
        )
        self.control = self._beside()
        """The control plane beside it, if it is wanted and installed."""
        self.server = Server(self.limiter, self.document())
        """What serves. The control plane takes events and counts from it."""
        if self.limiter.watcher is not None:
            self.limiter.watcher.listen(self._note)
        # Rust reads them again by itself, and has no log to say so in.
        certificates = native.certificates(settings)
        self._certificates = FileWatcher("certificates", lambda: certificates, self.reload_certificates) if certificates else None
        self._vigil = Vigil(self.server.vitals)

    @classmethod
    def check(cls, settings: Settings) -> None:
        """
        Looks for what can be wrong although the settings are right, without asking anybody.

        Args:
            settings: The settings.

        Raises:
            StartupError: Something is wrong.
        """

    def document(self) -> str:
        """
        The settings as Rust takes them. They may hold the token: they are for the server, not for logs.

        Returns:
            One JSON document.
        """
        return native.to_json(self.settings, has_control=self.control is not None)

    @property
    def addresses(self) -> dict[str, str]:
        """Where it listens, by the names of the ports: `http`, `grpc`, `admin`. Those that are off are missing."""
        admin = None if self.control is None else self.control.address
        return self.server.addresses if admin is None else {**self.server.addresses, "admin": admin}

    def start(self) -> dict[str, str]:
        """
        Begins to listen and to serve.

        Returns:
            The addresses.

        Raises:
            StartupError: A port is taken, a certificate is wrong, or the like.
        """
        if self.control is not None:
            # Stored rules are in force before the first request.
            self.control.follow()
        self.server.start()
        if self.control is not None:
            self.control.start()
        if self._certificates is not None:
            self._certificates.start()
        self._vigil.start()
        return self.addresses

    def reload(self) -> RuleError | None:
        """
        Loads rules and certificates again, as SIGHUP does. What is wrong is not taken: that in force stays.

        Returns:
            What is wrong with the rules, if anything is.
        """
        if self._certificates is not None:
            self.reload_certificates()
        if self.control is not None:
            self.control.reload()
        problem = None
        try:
            generation = self.limiter.load(rules.load(self.settings["rules"], merge_domains=self.settings["merge_domains"]))
        except TidegateError as error:
            problem = error if isinstance(error, RuleError) else RuleError(f"the rules cannot be loaded: {error}")
            LOG.error("rules refused, those in force stay: %s", problem)
        else:
            LOG.info("rules loaded from %s: generation %d", self.settings["rules"], generation)
        # A problem with files that are watched is noted by the watcher, which also notices when it is gone.
        if problem is None or self.limiter.watcher is None:
            self._note(problem)
        return problem

    def reload_certificates(self) -> str | None:
        """
        Reads the certificates of its ports again, and logs what came of it. What is wrong is not taken: those in force stay.

        Returns:
            What is wrong, if anything is.
        """
        if (wrong := self.server.reload_certificates()) is not None:
            LOG.error("certificates refused, those in force stay: %s", wrong)
        else:
            LOG.info("certificates loaded again")
        return wrong

    def drain(self, grace: float | None = None) -> int:
        """
        Turns readiness off, serves on for a while, takes no more connections, waits for requests that run.

        Args:
            grace: Seconds to serve on; by default `shutdown.grace`.

        Returns:
            How many connections were cut, because `shutdown.limit` was over.
        """
        return self.server.drain(self.settings["shutdown.grace"] if grace is None else grace, self.settings["shutdown.limit"])

    def stop(self) -> None:
        """
        Ends at once. Nothing happens if it has ended.
        """
        self._vigil.stop()
        if self._certificates is not None:
            self._certificates.stop()
        self.server.stop()
        # Last, so that the dashboard shows how the service drains, and what was decided until then is counted.
        if self.control is not None:
            self.control.stop()
        self.limiter.close()

    def _beside(self) -> Control | None:
        # With a database and no port it follows what is changed elsewhere.
        if self.settings["admin.listen"] is None and "admin.database" not in self.settings.origins:
            return None
        try:
            from tidegate.control.control import Control  # noqa: PLC0415  # an extra, and a second of imports
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("tidegate"):
                raise
            LOG.warning("no control plane on %s: pip install 'tidegate[admin]', or set admin.listen to off", self.settings["admin.listen"])
            return None
        return Control(self.settings, self)

    def note_control(self, problem: str | None) -> None:
        """
        Lets readiness tell why changes of the control plane do not come into force.

        Args:
            problem: Why; `None` if they do.
        """
        self.server.note_control(problem)

    def _note(self, problem: RuleError | None) -> None:
        self.server.note_reload(None if problem is None else str(problem))
